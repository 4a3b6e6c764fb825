package site

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// labelValues are the values of a label that the pages can be filtered by.
type labelValues struct {
	Label  string
	Values []choice
}

// choice is a label with a value. The zero choice is none.
type choice struct {
	Label, Value string
	Clusters     int
}

// None reports whether nothing is chosen.
func (c choice) None() bool { return c.Label == "" }

// String writes the choice as in a selector: region=eu-west-1.
func (c choice) String() string { return c.Label + "=" + c.Value }

// Path is the overview of the clusters that have the label.
func (c choice) Path() string {
	return "labels/" + fileName(c.Label) + "/" + fileName(c.Value) + ".html"
}

// newLabels lists the labels with the values that some clusters have and others lack. It leaves out labels with more
// values than the overview lists: they name single clusters, or a few.
func newLabels(f *Fleet) []labelValues {
	var out []labelValues
	for _, label := range f.Labels {
		clusters := map[string]int{}
		for _, c := range f.Clusters {
			if value, ok := c.Labels[label]; ok {
				clusters[value]++
			}
		}
		if len(clusters) > foldRows {
			continue
		}
		one := labelValues{Label: label}
		for _, value := range slices.Sorted(maps.Keys(clusters)) {
			if clusters[value] < len(f.Clusters) {
				one.Values = append(one.Values, choice{label, value, clusters[value]})
			}
		}
		if len(one.Values) > 0 {
			out = append(out, one)
		}
	}
	return out
}

// only returns a fleet with the clusters that have a label, and with what of the apps and environments is on them.
func (f *Fleet) only(chosen choice) *Fleet {
	has := func(c *Cluster) bool {
		value, ok := c.Labels[chosen.Label]
		return ok && value == chosen.Value
	}
	out := *f
	out.Clusters, out.Environments, out.Apps = nil, nil, nil
	for _, c := range f.Clusters {
		if has(c) {
			out.Clusters = append(out.Clusters, c)
		}
	}
	for _, e := range f.Environments {
		one := *e
		one.Clusters = slices.DeleteFunc(slices.Clone(e.Clusters), func(c *Cluster) bool { return !has(c) })
		if len(one.Clusters) > 0 {
			out.Environments = append(out.Environments, &one)
		}
	}
	for _, a := range f.Apps {
		one := *a
		one.Placed = slices.DeleteFunc(slices.Clone(a.Placed), func(p *Placed) bool { return !has(p.Cluster) })
		if len(one.Placed) > 0 {
			out.Apps = append(out.Apps, &one)
		}
	}
	return &out
}

// clusterList is what the page of all clusters fills in.
type clusterList struct {
	Fleet  *Fleet
	Labels []labelValues
}

// Selectors lists the labels of a cluster that the list can be filtered by, one on a line.
func (l *clusterList) Selectors(c *Cluster) string {
	var out strings.Builder
	for _, label := range l.Labels {
		if value, ok := c.Labels[label.Label]; ok {
			out.WriteString(safetext.Line(label.Label+"="+value) + "\n")
		}
	}
	return out.String()
}
