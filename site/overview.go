package site

import (
	"cmp"
	"slices"
	"strings"
)

const (
	cellVariants = 3   // versions that a cell names
	foldRows     = 60  // values of a label that are listed
	foldDots     = 120 // clusters of a value that are drawn as dots
	pageDots     = 800 // dots of the page: each has a link and a name
	oddClusters  = 40  // clusters that the overview names because they are odd
)

// overview is what the first page fills in.
type overview struct {
	Fleet   *Fleet // restricted to the clusters of Choice
	Labels  []labelValues
	Choice  choice
	ToDo    []action
	Odd     []*Cluster
	MoreOdd int
	Rows    []matrixRow
	Folds   []fold
}

type matrixRow struct {
	App   *App
	Cells []cell
}

// cell is an app in an environment.
type cell struct {
	Variants []variant
	More     int // variants that are not named
	Clusters int
	Held     bool
	Pending  int // clusters that do not hold the environment's state of the app yet
	Health   healthCount
}

// variant is what some clusters of a cell run. Another commit that does not change the app's versions makes no other
// variant.
type variant struct {
	Tag      string // of the app's image; "" without one
	Image    string
	Version  string // of its charts, or its paths
	Clusters int
}

// fold is the clusters of the fleet by the values of one label.
type fold struct {
	Label string
	Rows  []foldRow
	More  int
}

type foldRow struct {
	Value     string
	Clusters  []*Cluster
	Dots      bool
	Current   int
	Pending   int
	Odd       int
	Unhealthy int
	Frozen    int
}

// Bad is the number of clusters that differ or are unhealthy.
func (r foldRow) Bad() int { return r.Odd + r.Unhealthy }

// Rest is the number of clusters that are neither up to date nor frozen.
func (r foldRow) Rest() int { return r.Bad() + r.Pending }

func newOverview(f *Fleet, labels []labelValues, chosen choice) *overview {
	out := &overview{Fleet: f, Labels: labels, Choice: chosen}
	if chosen.None() {
		out.ToDo = toDo(f)
	}
	for _, c := range f.Clusters {
		if c.Dot() == "odd" || c.Unhealthy() || c.State == "frozen" {
			out.Odd = append(out.Odd, c)
		}
	}
	slices.SortStableFunc(out.Odd, func(a, b *Cluster) int { return cmp.Compare(oddness(a), oddness(b)) })
	out.MoreOdd = max(0, len(out.Odd)-oddClusters)
	out.Odd = out.Odd[:len(out.Odd)-out.MoreOdd]
	at := map[string]int{}
	for i, e := range f.Environments {
		at[e.Name] = i
	}
	for _, a := range f.Apps {
		row := matrixRow{App: a, Cells: make([]cell, len(f.Environments))}
		byEnv := make([][]*Placed, len(f.Environments))
		for _, p := range a.Placed {
			i := at[p.Cluster.Environment.Name]
			byEnv[i] = append(byEnv[i], p)
		}
		for i, list := range byEnv {
			row.Cells[i] = newCell(f.Environments[i], a, list)
		}
		out.Rows = append(out.Rows, row)
	}
	dots := pageDots
	for _, label := range f.Labels {
		if label == chosen.Label {
			continue
		}
		one := newFold(f, label, dots)
		for _, r := range one.Rows {
			if r.Dots {
				dots -= len(r.Clusters)
			}
		}
		out.Folds = append(out.Folds, one)
	}
	return out
}

func oddness(c *Cluster) int {
	switch {
	case c.Dot() == "odd":
		return 0
	case c.Unhealthy():
		return 1
	}
	return 2
}

func newCell(e *Environment, a *App, list []*Placed) cell {
	out := cell{Clusters: len(list)}
	for _, p := range list {
		if p.Tree != p.Desired {
			out.Pending++
		}
		out.Variants = addVariant(out.Variants, p)
		out.Health.addOf(p)
	}
	slices.SortStableFunc(out.Variants, func(a, b variant) int { return cmp.Compare(b.Clusters, a.Clusters) })
	out.More = max(0, len(out.Variants)-cellVariants)
	out.Variants = out.Variants[:len(out.Variants)-out.More]
	if e.Status != nil {
		for _, h := range e.Status.Decision.Record.Holds {
			// a hold of the whole environment stands at the environment, and says nothing of one app
			out.Held = out.Held || len(list) > 0 && slices.Contains(h.Apps, a.Name)
		}
	}
	return out
}

func addVariant(list []variant, p *Placed) []variant {
	for i := range list {
		if list[i].Version == p.Version && list[i].Image == p.Image {
			list[i].Clusters++
			return list
		}
	}
	return append(list, variant{p.Tag(), p.Image, p.Version, 1})
}

// newFold folds the clusters by a label. It draws dots for as many clusters as are left for the page.
func newFold(f *Fleet, label string, dots int) fold {
	out := fold{Label: label}
	rows := map[string]*foldRow{}
	for _, c := range f.Clusters {
		value := c.Labels[label]
		r := rows[value]
		if r == nil {
			r = &foldRow{Value: value}
			rows[value] = r
		}
		r.Clusters = append(r.Clusters, c)
		switch c.Dot() {
		case "odd":
			r.Odd++
		case "unhealthy":
			r.Unhealthy++
		case "pending":
			r.Pending++
		case "frozen":
			r.Frozen++
		default:
			r.Current++
		}
	}
	for _, r := range rows {
		out.Rows = append(out.Rows, *r)
	}
	slices.SortStableFunc(out.Rows, func(a, b foldRow) int {
		return cmp.Or(cmp.Compare(b.Bad(), a.Bad()), strings.Compare(a.Value, b.Value))
	})
	out.More = max(0, len(out.Rows)-foldRows)
	out.Rows = out.Rows[:len(out.Rows)-out.More]
	for i := range out.Rows {
		r := &out.Rows[i]
		if r.Dots = len(r.Clusters) <= min(foldDots, dots); r.Dots {
			dots -= len(r.Clusters)
		}
	}
	return out
}
