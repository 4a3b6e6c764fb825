package diff

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/internal/sorting"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Compare returns the change set of targets. environments defines their order in the result.
func Compare(targets []Target, withheld []Withheld, environments []string, f Fleet) *ChangeSet {
	g := &grouper{known: map[pairKey]*ObjectChange{}, sets: map[string][]*ObjectChange{}, signatures: map[sharedKey]string{}}
	out := &ChangeSet{Groups: []Group{}, Apps: []App{}, Withheld: slices.Clone(withheld), Compared: len(targets)}
	if out.Withheld == nil {
		out.Withheld = []Withheld{}
	}
	byApp := map[string][]*bucket{}
	find := map[string]*bucket{}
	for i := range targets {
		t := &targets[i]
		changes, signature := g.target(t)
		if len(changes) == 0 {
			continue
		}
		key := t.App + "\x00" + signature
		b := find[key]
		if b == nil {
			b = &bucket{signature: signature, changes: changes}
			find[key] = b
			byApp[t.App] = append(byApp[t.App], b)
		}
		b.targets = append(b.targets, t)
	}
	for _, app := range slices.Sorted(maps.Keys(byApp)) {
		for _, merged := range mergeBuckets(byApp[app]) {
			out.Groups = append(out.Groups, merged.group(environments, f))
		}
	}
	sorting.Func(out.Groups, compareGroups)
	sorting.Func(out.Withheld, func(a, b Withheld) int { return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Cluster, b.Cluster)) })
	out.sum()
	return out
}

func compareGroups(a, b Group) int {
	return cmp.Or(cmp.Compare(a.Risk.Rank(), b.Risk.Rank()), cmp.Compare(len(b.Clusters), len(a.Clusters)),
		cmp.Compare(a.App, b.App), cmp.Compare(a.Clusters[0], b.Clusters[0]), cmp.Compare(a.ID, b.ID))
}

// pairKey identifies the comparison of two objects under one sync tool.
type pairKey struct {
	before, after string // Object.Key
	sync          Sync
	keeps         string
	force         bool
}

type grouper struct {
	known map[pairKey]*ObjectChange  // nil: no change
	sets  map[string][]*ObjectChange // the changes of a target, by the keys of all its objects
	work  int                        // leaves compared to find renames
	text  int                        // bytes of all contexts

	signatures map[sharedKey]string
}

// maxContext is the number of bytes of all contexts of a change set.
const maxContext = 32 << 20

// boundContext removes the context of a change if the change set has reached the limit.
func (g *grouper) boundContext(c *ObjectChange) {
	if c == nil {
		return
	}
	for _, l := range c.Context {
		g.text += len(l)
	}
	if g.text > maxContext {
		c.Context = nil
	}
}

// target returns the changes of one target and a signature. Targets with equal objects and the same sync tool have
// equal signatures and share the work.
func (g *grouper) target(t *Target) ([]*ObjectChange, string) {
	signature := g.signature(t)
	if known, ok := g.sets[signature]; ok {
		return known, signature
	}
	var out []*ObjectChange
	for _, p := range g.pairs(t.Before, t.After) {
		key := pairKey{sync: t.Sync, keeps: t.Keeps, force: t.Force}
		var before, after manifest.Object
		if p.before != nil {
			key.before, before = p.before.Key, p.before.Object
		}
		if p.after != nil {
			key.after, after = p.after.Key, p.after.Object
		}
		c, ok := g.known[key]
		if !ok {
			c = compare(before, after, applying{t.Sync, t.Keeps, t.Force})
			g.boundContext(c)
			g.known[key] = c
		}
		if c != nil {
			out = append(out, c)
		}
	}
	sorting.Func(out, byRisk)
	g.sets[signature] = out
	return out, signature
}

// bucket holds targets with exactly the same changes.
type bucket struct {
	signature string
	changes   []*ObjectChange
	targets   []*Target
}

// mergedBucket holds buckets whose changes differ only in values that the registry defines for each cluster.
type mergedBucket struct {
	buckets []*bucket
	id      string
	varies  []string
}

// mergeBuckets merges the buckets of one app whose templates are equal. In each bucket it replaces facts that all
// clusters of the bucket share by their references.
func mergeBuckets(buckets []*bucket) []*mergedBucket {
	byTemplate := map[string]*mergedBucket{}
	var out []*mergedBucket
	for _, b := range buckets {
		t := newTemplate(b.facts())
		for _, c := range b.changes {
			t.change(c)
		}
		key := t.sum()
		m := byTemplate[key]
		if m == nil {
			m = &mergedBucket{id: shortID(b.targets[0].App, key)}
			byTemplate[key] = m
			out = append(out, m)
		}
		m.buckets = append(m.buckets, b)
		m.varies = append(m.varies, t.used()...)
	}
	for _, m := range out {
		slices.Sort(m.varies)
		m.varies = slices.Compact(m.varies)
		if len(m.buckets) == 1 {
			m.varies = nil
		}
	}
	return out
}

func shortID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// facts returns the facts that have the same value on all clusters of the bucket.
func (b *bucket) facts() []Fact {
	shared := slices.Clone(b.targets[0].facts())
	for _, t := range b.targets[1:] {
		if len(shared) == 0 { // most changes of a whole fleet: the facts of the other targets do not matter
			break
		}
		own := t.facts()
		shared = slices.DeleteFunc(shared, func(f Fact) bool { return !slices.Contains(own, f) })
	}
	return shared
}

func (m *mergedBucket) group(environments []string, f Fleet) Group {
	first := m.buckets[0]
	out := Group{ID: m.id, App: first.targets[0].App, Varies: m.varies, Risk: RiskNone}
	byEnvironment := map[string][]string{}
	for _, b := range m.buckets {
		for _, t := range b.targets {
			out.Clusters = append(out.Clusters, t.Cluster)
			byEnvironment[t.Environment] = append(byEnvironment[t.Environment], t.Cluster)
		}
	}
	slices.Sort(out.Clusters)
	out.Example = out.Clusters[0]
	for _, b := range m.buckets {
		if slices.ContainsFunc(b.targets, func(t *Target) bool { return t.Cluster == out.Example }) {
			first = b
		}
	}
	out.Where = where(out.App, byEnvironment, environments, f)
	for _, c := range first.changes {
		out.Objects = append(out.Objects, *c)
		out.Counts.Add(countsOf(c), 1)
		if c.Risk.Rank() < out.Risk.Rank() {
			out.Risk = c.Risk
		}
	}
	out.Summary = summary(out.Objects, out.Counts)
	return out
}

func countsOf(c *ObjectChange) Counts {
	var out Counts
	switch {
	case c.Verb == Added:
		out.Added = 1
	case c.Verb == Removed:
		out.Removed = 1
		if c.Orphaned() {
			out.Orphaned = 1
		}
	case c.OnlyNoise():
		out.Noise = 1
	default:
		out.Changed = 1
	}
	if c.Rolls {
		out.Workloads = 1
	}
	return out
}

// sum computes the apps and the totals of the set.
func (c *ChangeSet) sum() {
	at := map[string]int{}
	app := func(name string) *App {
		i, ok := at[name]
		if !ok {
			i = len(c.Apps)
			at[name] = i
			c.Apps = append(c.Apps, App{Name: name, Risk: RiskNone})
		}
		return &c.Apps[i]
	}
	objects := map[string][]ObjectChange{}
	for i := range c.Groups {
		g := &c.Groups[i]
		a := app(g.App)
		a.Groups++
		a.Clusters += len(g.Clusters)
		a.Counts.Add(g.Counts, len(g.Clusters))
		c.Totals.Add(g.Counts, len(g.Clusters))
		if g.Risk.Rank() < a.Risk.Rank() {
			a.Risk = g.Risk
		}
		for _, r := range g.Where {
			a.Where = addReach(a.Where, r)
		}
		objects[g.App] = append(objects[g.App], g.Objects...)
	}
	for _, w := range c.Withheld {
		app(w.App).Withheld++
	}
	for i := range c.Apps {
		a := &c.Apps[i]
		a.Summary = summary(objects[a.Name], a.Counts)
		a.Images = imagesOf(objects[a.Name])
		a.Effects = gravest(objects[a.Name])
	}
}

// addReach adds a reach to an app's, by environment: `prod/eu-* (12)`.
func addReach(list []Reach, r Reach) []Reach {
	i := slices.IndexFunc(list, func(o Reach) bool { return o.Environment == r.Environment })
	if i < 0 {
		return append(list, r)
	}
	old := &list[i]
	prefix := common([]string{trimPattern(old), trimPattern(&r)})
	*old = Reach{Environment: r.Environment, Pattern: r.Environment + "/" + prefix + "*", Clusters: old.Clusters + r.Clusters}
	return list
}

// trimPattern returns the common prefix of the cluster names of a pattern.
func trimPattern(r *Reach) string {
	return strings.TrimSuffix(strings.TrimPrefix(r.Pattern, r.Environment+"/"), "*")
}

func imagesOf(objects []ObjectChange) []Image {
	var out []Image
	seen := map[Image]bool{}
	for _, o := range objects {
		for _, i := range o.Images {
			if !seen[i] {
				seen[i] = true
				out = append(out, i)
			}
		}
	}
	return out
}

// gravest returns the effects of critical and high risk, each kind once.
func gravest(objects []ObjectChange) []Effect {
	var out []Effect
	for _, o := range objects {
		for _, e := range o.Effects {
			if e.Risk.Rank() > RiskHigh.Rank() || slices.ContainsFunc(out, func(other Effect) bool { return other.Name == e.Name }) {
				continue
			}
			e.Message = o.Title() + ": " + e.Message
			out = append(out, e)
		}
	}
	sorting.Func(out, func(a, b Effect) int { return cmp.Compare(a.Risk.Rank(), b.Risk.Rank()) })
	return out
}

// summary describes the most important change on one line.
func summary(objects []ObjectChange, n Counts) string {
	var parts []string
	var moved []string
	for _, i := range imagesOf(objects) {
		if i.Old != "" && i.New != "" {
			moved = append(moved, shortImage(i.Old, i.New))
		}
	}
	slices.Sort(moved)
	if moved = slices.Compact(moved); len(moved) > 0 {
		parts = append(parts, moved[0])
		if len(moved) > 1 {
			parts[0] += fmt.Sprintf(" and %d more images", len(moved)-1)
		}
	}
	if e := gravest(objects); len(e) > 0 {
		parts = append(parts, e[0].Message)
	}
	if len(parts) == 0 {
		if text := plainSummary(objects); text != "" {
			parts = append(parts, text)
		}
	}
	if n.Workloads > 0 {
		parts = append(parts, fmt.Sprintf("rolls %d %s", n.Workloads, plural(n.Workloads, "workload")))
	}
	return strings.Join(parts, "; ")
}

// plainSummary describes changes without images and without effects of high risk.
func plainSummary(objects []ObjectChange) string {
	if len(objects) == 0 {
		return ""
	}
	type change struct {
		verb Verb
		id   manifest.Identity
	}
	distinct := map[change]bool{}
	paths := map[string]bool{}
	quiet := true
	for i := range objects {
		o := &objects[i]
		distinct[change{o.Verb, o.ID}] = true
		quiet = quiet && o.OnlyNoise() && len(o.Noise) > 0
		for _, f := range o.Fields {
			paths[f.Path] = true
		}
	}
	o := &objects[0]
	verb := string(o.Verb)
	if o.Orphaned() {
		verb = "no longer managed"
	}
	switch {
	case quiet:
		return "only version labels and checksums"
	case len(distinct) == 1 && o.Verb == Changed && len(paths) == 1:
		return o.Title() + ": " + o.Fields[0].Path
	case len(distinct) == 1:
		return o.Title() + " " + verb
	}
	return fmt.Sprintf("%s %s and %d more", o.Title(), verb, len(distinct)-1)
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
