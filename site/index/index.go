// Package index finds the targets that have an object, an image, a chart, a kind, a namespace or a value. It is built
// from the rendered trees of the cluster branches and kept in one file.
//
// The index is a cache: Git is the source of truth, and the file can be deleted at any time. Equal trees are read once.
// An update reads only the trees that no cluster had before, so its cost follows the change. An Index does not change:
// Update returns another one. All methods are safe for concurrent use.
//
// The package is not API: it can change in every release.
package index

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/gitstore"
)

// Kind is what a fact of a target is.
type Kind byte

// The kinds of facts.
const (
	Object    Kind = iota // Deployment shop/web
	Image                 // registry.example.com/web:1.4.0
	Chart                 // web 1.4.0
	Type                  // apps/v1 Deployment
	Namespace             // shop
	Value                 // replicas, set by a layer
	kinds
)

// String is the word for a kind.
func (k Kind) String() string {
	return [...]string{"object", "image", "chart", "kind", "namespace", "value"}[k]
}

// fact is one searchable text.
type fact struct {
	kind Kind
	text string
}

// Index is what the clusters of a fleet hold.
type Index struct {
	facts    []fact
	trees    []tree
	clusters []cluster
	values   string // identifies what the value facts were read from
	dead     int    // trees that no cluster has any more
}

// tree is the rendering of an app. Its facts are sorted.
type tree struct {
	hash  gitstore.Hash
	facts []uint32
}

// cluster is a cluster with the rendering of each app.
type cluster struct {
	name    string
	state   State
	targets []target
}

// State identifies what a cluster holds: equal states have equal facts.
type State struct {
	Tree   gitstore.Hash
	Source string // source commits, which charts depend on
}

type target struct {
	app   string
	tree  uint32
	extra []uint32 // chart and values; sorted
}

// Query says what to find. All texts that are set must be found on a target. A text matches if all its words are
// contained in one fact of its kind, without regard to case.
type Query struct {
	Object, Image, Chart, Type, Namespace, Value string
	Any                                          string // in a fact of any kind
}

// Empty reports whether the query asks for nothing.
func (q Query) Empty() bool { return q == Query{} }

// Hit is a target that was found.
type Hit struct {
	Cluster string   `json:"cluster"`
	App     string   `json:"app"`
	Matches []string `json:"matches"` // the facts that match, at most three
}

// Targets counts the targets of the index.
func (x *Index) Targets() int {
	n := 0
	for i := range x.clusters {
		n += len(x.clusters[i].targets)
	}
	return n
}

// Search returns the targets that a query finds, by cluster and app, and their number. At most so many hits are
// returned; 0 returns all.
func (x *Index) Search(q Query, most int) (hits []Hit, total int) {
	var want []*matcher
	for _, one := range []struct {
		text string
		kind Kind
	}{
		{q.Object, Object},
		{q.Image, Image},
		{q.Chart, Chart},
		{q.Type, Type},
		{q.Namespace, Namespace},
		{q.Value, Value},
		{q.Any, kinds},
	} {
		if strings.TrimSpace(one.text) != "" {
			want = append(want, x.match(one.text, one.kind))
		}
	}
	if len(want) == 0 {
		return nil, 0
	}
	for i := range x.clusters {
		c := &x.clusters[i]
		for j := range c.targets {
			t := &c.targets[j]
			if slices.ContainsFunc(want, func(m *matcher) bool { return !m.has(t) }) {
				continue
			}
			total++
			if most == 0 || len(hits) < most {
				hits = append(hits, Hit{c.name, t.app, x.matches(want, t)})
			}
		}
	}
	return hits, total
}

// matcher says which facts and which trees match a text.
type matcher struct {
	facts []bool
	trees []bool
}

func (x *Index) match(text string, kind Kind) *matcher {
	words := strings.Fields(strings.ToLower(text))
	m := &matcher{facts: make([]bool, len(x.facts)), trees: make([]bool, len(x.trees))}
	for i := range x.facts {
		f := &x.facts[i]
		m.facts[i] = (kind == kinds || f.kind == kind) && containsAll(f.text, words)
	}
	for i := range x.trees {
		m.trees[i] = m.any(x.trees[i].facts)
	}
	return m
}

// containsAll looks for lower-case words without regard to case.
func containsAll(text string, words []string) bool {
	lower := text
	for i := range len(text) {
		if c := text[i]; c >= 'A' && c <= 'Z' || c >= 0x80 {
			lower = strings.ToLower(text)
			break
		}
	}
	for _, w := range words {
		if !strings.Contains(lower, w) {
			return false
		}
	}
	return true
}

func (m *matcher) any(facts []uint32) bool {
	for _, f := range facts {
		if m.facts[f] {
			return true
		}
	}
	return false
}

func (m *matcher) has(t *target) bool { return m.trees[t.tree] || m.any(t.extra) }

// matches lists facts of a target that match.
func (x *Index) matches(want []*matcher, t *target) []string {
	const most = 3
	out := []string{}
	for _, m := range want {
		for _, list := range [][]uint32{t.extra, x.trees[t.tree].facts} {
			for _, f := range list {
				if m.facts[f] && len(out) < most && !slices.Contains(out, x.facts[f].text) {
					out = append(out, x.facts[f].text)
				}
			}
		}
	}
	return out
}

// Having returns the targets that have exactly one fact, by cluster and app.
func (x *Index) Having(kind Kind, text string) []Hit {
	n := slices.Index(x.facts, fact{kind, text})
	if n < 0 {
		return nil
	}
	want := uint32(n) //nolint:gosec // far fewer facts than 2^32
	has := make([]bool, len(x.trees))
	for i := range x.trees {
		_, has[i] = slices.BinarySearch(x.trees[i].facts, want)
	}
	var out []Hit
	for i := range x.clusters {
		for _, t := range x.clusters[i].targets {
			if has[t.tree] || slices.Contains(t.extra, want) {
				out = append(out, Hit{x.clusters[i].name, t.app, []string{text}})
			}
		}
	}
	return out
}

// Count is a fact and the number of targets that have it.
type Count struct {
	Kind     Kind
	Text     string
	Targets  int
	Apps     []AppCount // the most frequent first
	Clusters int
	Some     []string // the first of the clusters by name, at most SomeClusters
}

// SomeClusters is the number of clusters that a Count names.
const SomeClusters = 4

// AppCount is the number of targets of an app.
type AppCount struct {
	App     string
	Targets int
}

// Inventory lists the facts of some kinds with the targets that have them, by kind and then the most frequent first. It
// lists at most `most` facts of each kind; more is the number of facts that it leaves out.
func (x *Index) Inventory(most int, of ...Kind) (list []Count, more int) {
	type counted struct {
		apps     map[string]int
		clusters int
		some     []string
		last     int // cluster + 1
	}
	counts := make([]counted, len(x.facts))
	add := func(f uint32, cluster int, app string) {
		if !slices.Contains(of, x.facts[f].kind) {
			return
		}
		c := &counts[f]
		if c.apps == nil {
			c.apps = map[string]int{}
		}
		c.apps[app]++
		if c.last == cluster+1 {
			return
		}
		c.last = cluster + 1
		if c.clusters++; c.clusters <= SomeClusters {
			c.some = append(c.some, x.clusters[cluster].name)
		}
	}
	for i := range x.clusters {
		for j := range x.clusters[i].targets {
			t := &x.clusters[i].targets[j]
			for _, f := range t.extra {
				add(f, i, t.app)
			}
			for _, f := range x.trees[t.tree].facts {
				add(f, i, t.app)
			}
		}
	}
	byKind := make([][]Count, kinds)
	for i, one := range counts {
		if len(one.apps) == 0 {
			continue
		}
		c := Count{Kind: x.facts[i].kind, Text: x.facts[i].text, Clusters: one.clusters, Some: one.some}
		for app, n := range one.apps {
			c.Apps = append(c.Apps, AppCount{app, n})
			c.Targets += n
		}
		slices.SortStableFunc(c.Apps, func(a, b AppCount) int {
			return cmp.Or(cmp.Compare(b.Targets, a.Targets),
				cmp.Compare(a.App, b.App))
		})
		byKind[c.Kind] = append(byKind[c.Kind], c)
	}
	for _, kind := range of {
		one := byKind[kind]
		slices.SortStableFunc(one, func(a, b Count) int {
			return cmp.Or(cmp.Compare(b.Targets, a.Targets), cmp.Compare(a.Text, b.Text))
		})
		list = append(list, one[:min(most, len(one))]...)
		more += max(0, len(one)-most)
	}
	return list, more
}
