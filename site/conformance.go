package site

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/site/conform"
)

// comparedRenderings is the number of renderings of an app that the page compares among siblings. `sluice conform` has
// no bound.
const comparedRenderings = 30

// conformance compares sibling clusters as their branches are.
func (b *reader) conformance() error {
	members := Members(b.out, b.fleet)
	var err error
	b.out.Conformance, err = conform.Compare(b.ctx, b.h.Store, b.fleet, members,
		conform.Options{Masker: b.mask, Most: comparedRenderings, Unfilled: unfilled(b.out)})
	return err
}

// Members lists the targets of a fleet with what the cluster branches hold, or the environment branches if a rollout, a
// freeze or a halt explains why the cluster branches do not.
func Members(read *Fleet, f *fleet.Fleet) []conform.Member {
	var out []conform.Member
	for _, c := range read.Clusters {
		cluster, ok := f.Cluster(c.Name)
		if !ok {
			continue
		}
		for _, p := range c.Apps {
			a, ok := f.App(p.App.Name)
			if !ok {
				continue
			}
			m := conform.Member{
				Target: fleet.Target{App: a, Cluster: cluster}, Tree: p.Tree, Commit: p.Commit.Hash,
				Waits: c.Trouble != "" && c.Planned, Foreign: c.Trouble != "" && !c.Planned || c.Environment.Foreign != "",
			}
			if m.Waits {
				m.Tree, m.Commit = p.Desired, c.Environment.Source.On(c.Name).Of(p.App.Name)
			}
			out = append(out, m)
		}
	}
	return out
}

// unfilled lists the clusters that no branch holds yet.
func unfilled(f *Fleet) []string {
	var out []string
	for _, c := range f.Clusters {
		if c.Tip.Hash.IsZero() && c.Desired.IsZero() {
			out = append(out, c.Name)
		}
	}
	return out
}

// conformance is what the page of conformance fills in.
type conformance struct {
	Fleet   *Fleet
	Groups  []conformGroup // that differ somewhere, those that no layer explains first
	Alike   []conformGroup // groups of several clusters that do not differ
	Alone   int            // groups of one cluster
	Deviate int            // clusters that differ in something that no layer explains
	Layered int            // other clusters that differ
	Unread  int            // renderings that were not compared
}

type conformGroup struct {
	conform.Group
	Open    []string        // clusters that differ in something that no layer explains
	Layered []string        // other clusters that differ
	Apps    []conformApp    // with what no layer explains
	Layers  []conformLayers // with what layers explain
	Grid    []gridRow
	More    int  // clusters without a column
	Varied  bool // some app differs in values of registry variables
}

// conformApp is an app with the variants that no layer explains.
type conformApp struct {
	*conform.App
	Variants []conform.Variant
}

// conformLayers are layers that together explain how clusters differ.
type conformLayers struct {
	Names    string
	Several  bool // layers
	Clusters []string
	Variants []layeredVariant
}

type layeredVariant struct {
	App *conform.App
	conform.Variant
}

// gridRow is an app over the clusters of a group.
type gridRow struct {
	App   string
	Marks []mark
}

// mark is the state of an app on one cluster: alike, variant, layered, missing or unread.
type mark struct{ Cluster, State string }

const gridClusters = 40 // clusters that are shown side by side

func newConformance(f *Fleet) *conformance {
	out := &conformance{Fleet: f}
	for i := range f.Conformance {
		g := newConformGroup(f.Conformance[i])
		switch {
		case len(g.Clusters) == 1:
			out.Alone++
		case len(g.Deviate)+g.Unread == 0 && !g.Varied:
			out.Alike = append(out.Alike, g)
		default:
			out.Groups = append(out.Groups, g)
		}
		out.Deviate += len(g.Open)
		out.Layered += len(g.Layered)
		out.Unread += g.Unread
	}
	slices.SortStableFunc(out.Groups, func(a, b conformGroup) int {
		return cmp.Or(cmp.Compare(len(b.Open), len(a.Open)), cmp.Compare(len(b.Layered), len(a.Layered)))
	})
	return out
}

func newConformGroup(group conform.Group) conformGroup {
	g := conformGroup{Group: group}
	open, layers := map[string]bool{}, map[string]*conformLayers{}
	for i := range group.Apps {
		a := &g.Group.Apps[i]
		g.Varied = g.Varied || len(a.Variables) > 0
		one := conformApp{App: a}
		for _, v := range a.Variants {
			if len(v.Layers) == 0 {
				one.Variants = append(one.Variants, v)
				continue
			}
			names := strings.Join(v.Layers, ", ")
			if layers[names] == nil {
				layers[names] = &conformLayers{Names: names, Several: len(v.Layers) > 1}
			}
			l := layers[names]
			l.Variants = append(l.Variants, layeredVariant{a, v})
			l.Clusters = append(l.Clusters, v.Clusters...)
		}
		for _, v := range one.Variants {
			mentioned(open, v.Clusters)
		}
		mentioned(open, a.Missing)
		if len(one.Variants)+len(a.Missing) > 0 {
			mentioned(open, a.Against)
			g.Apps = append(g.Apps, one)
		}
	}
	for _, name := range g.Deviate {
		if open[name] {
			g.Open = append(g.Open, name)
		} else {
			g.Layered = append(g.Layered, name)
		}
	}
	for _, l := range layers {
		slices.Sort(l.Clusters)
		l.Clusters = slices.Compact(l.Clusters)
		g.Layers = append(g.Layers, *l)
	}
	slices.SortFunc(g.Layers, func(a, b conformLayers) int { return strings.Compare(a.Names, b.Names) })
	g.grid()
	return g
}

func mentioned(set map[string]bool, names []string) {
	for _, n := range names {
		set[n] = true
	}
}

// grid makes the rows of the apps that differ somewhere, with a column for each cluster that differs in one of them.
func (g *conformGroup) grid() {
	columns := slices.Concat(g.Open, g.Layered)
	g.More = max(0, len(columns)-gridClusters)
	columns = columns[:len(columns)-g.More]
	for i := range g.Group.Apps {
		a := &g.Group.Apps[i]
		row := gridRow{App: a.App}
		differs := false
		for _, c := range columns {
			m := mark{c, stateIn(a, c)}
			differs = differs || m.State != "alike"
			row.Marks = append(row.Marks, m)
		}
		if differs {
			g.Grid = append(g.Grid, row)
		}
	}
}

// AnyAlike reports whether the grid has a cluster on which an app does not differ.
func (g *conformGroup) AnyAlike() bool {
	return slices.ContainsFunc(g.Grid, func(r gridRow) bool {
		return slices.ContainsFunc(r.Marks, func(m mark) bool { return m.State == "alike" })
	})
}

func stateIn(a *conform.App, cluster string) string {
	if slices.Contains(a.Missing, cluster) {
		return "missing"
	}
	layered := len(a.Missing) == 0 // of the clusters that the variants are compared with
	for _, v := range a.Variants {
		switch in := slices.Contains(v.Clusters, cluster); {
		case in && len(v.Layers) > 0:
			return "layered"
		case in:
			return "variant"
		}
		layered = layered && len(v.Layers) > 0
	}
	switch {
	case slices.Contains(a.Against, cluster) && layered:
		return "layered"
	case slices.Contains(a.Against, cluster):
		return "variant"
	case a.Unread > 0 && !slices.Contains(a.Norm, cluster):
		return "unread"
	}
	return "alike"
}
