package site

import (
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/site/index"
)

// versionPath is the page of an image, or of a version or path of a source.
func versionPath(f Fact) string { return "versions/" + fileName(f.Kind.String()+" "+f.Text) + ".html" }

// brings reports whether an event brought a fact to some app, and returns the event with these apps alone.
func (h *Event) brings(f Fact) (Event, bool) {
	out := *h
	out.Apps = nil
	for _, c := range h.Apps {
		if slices.Contains(c.Brought, f) {
			out.Apps = append(out.Apps, c)
		}
	}
	return out, len(out.Apps) > 0
}

// version is what the page of an image, or of a version or path of a source, fills in.
type version struct {
	Fact
	Fleet    *Fleet
	Targets  int
	Clusters int
	Places   []versionPlace
	Events   []Event  // that brought it, newest first
	Older    []string // environments that run it, and had it before the commits that were read
	Others   []index.Count
}

// Words says what the fact is.
func (v *version) Words() string {
	switch {
	case v.Kind == index.Image:
		return "Image"
	case strings.HasPrefix(v.Text, "catalog/"):
		return "App of the catalog"
	case strings.Contains(v.Text, " "):
		return "Chart"
	}
	return "Source"
}

// Command finds the same targets in a terminal.
func (v *version) Command() string {
	flag := "--chart"
	if v.Kind == index.Image {
		flag = "--image"
	}
	return "sluice where " + flag + " " + shell(v.Text)
}

// versionPlace is an app in one environment.
type versionPlace struct {
	Environment *Environment
	App         string
	Clusters    []string
	Of          int // clusters of the environment that have the app
}

// newVersion reads the index for one fact. others are facts of the same kind.
func newVersion(f *Fleet, fact Fact, others []searchRow) *version {
	out := &version{Fact: fact, Fleet: f}
	environments := make(map[string]*Environment, len(f.Clusters))
	for _, c := range f.Clusters {
		environments[c.Name] = c.Environment
	}
	type key struct {
		environment *Environment
		app         string
	}
	places, clusters := map[key]*versionPlace{}, map[string]bool{}
	for _, hit := range f.Index.Having(fact.Kind, fact.Text) {
		k := key{environments[hit.Cluster], hit.App}
		if k.environment == nil {
			continue
		}
		if places[k] == nil {
			places[k] = &versionPlace{Environment: k.environment, App: hit.App}
		}
		places[k].Clusters = append(places[k].Clusters, hit.Cluster)
		clusters[hit.Cluster] = true
		out.Targets++
	}
	out.Clusters = len(clusters)
	for _, e := range f.Environments {
		runs, brought := false, false
		for _, a := range f.Apps {
			p := places[key{e, a.Name}]
			if p == nil {
				continue
			}
			runs = true
			for _, one := range a.Placed {
				if one.Cluster.Environment == e {
					p.Of++
				}
			}
			out.Places = append(out.Places, *p)
		}
		for i := range e.History {
			if h, ok := e.History[i].brings(fact); ok {
				brought = true
				out.Events = append(out.Events, h)
			}
		}
		if runs && !brought {
			out.Older = append(out.Older, e.Name)
		}
	}
	slices.SortStableFunc(out.Events, func(a, b Event) int { return b.At.Compare(a.At) })
	for _, r := range others {
		if r.Kind == fact.Kind && r.Text != fact.Text && product(r.Kind, r.Text) == product(fact.Kind, fact.Text) {
			out.Others = append(out.Others, r.Count)
		}
	}
	return out
}

// product is what versions of one image or chart have in common.
func product(kind index.Kind, text string) string {
	if kind == index.Image {
		return diff.SplitImage(text).Repository
	}
	name, _, _ := strings.Cut(text, " ")
	return name
}
