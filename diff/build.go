package diff

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Compare returns the change set of targets whose objects are in memory. environments defines their order in the
// result.
func Compare(targets []Target, withheld []Withheld, environments []string, f Fleet) *ChangeSet {
	return Rules{}.Compare(targets, withheld, environments, f)
}

// alike divides targets into those of one app whose objects are equal and are applied alike, by app.
func alike(targets []Target) [][]Target {
	signatures := map[sharedKey]string{}
	find := map[[2]string]int{}
	var out [][]Target
	for i := range targets {
		t := &targets[i]
		key := [2]string{t.App, signature(t, signatures)}
		n, ok := find[key]
		if !ok {
			n = len(out)
			find[key], out = n, append(out, nil)
		}
		out[n] = append(out[n], *t)
	}
	slices.SortStableFunc(out, func(a, b []Target) int { return cmp.Compare(a[0].App, b[0].App) })
	return out
}

// Builder makes a change set from the targets of one app after the other, so that not all of their objects must be in
// memory: it keeps of a group only the changes that the set shows. It is not safe for concurrent use.
type Builder struct {
	rules    Rules
	known    map[pairKey]*ObjectChange // nil: no change
	lines    int                       // in known
	work     int                       // leaves compared to find renames
	text     int                       // bytes of all contexts
	groups   map[string]*mergedGroup   // by app and template
	images   newImages
	order    []*mergedGroup
	compared int
}

// NewBuilder returns a Builder without targets.
func NewBuilder() *Builder { return Rules{}.NewBuilder() }

// mergedGroup is a group that is being built. Its targets have changes that differ only in values that the registry
// defines for each cluster.
type mergedGroup struct {
	id, app string
	places  []place
	objects []ObjectChange    // of example
	example string            // the first cluster by name
	facts   map[string]string // of example, and of all clusters with equal objects
	values  map[string]string // by reference that was replaced: the value in one of the changes
	varies  map[string]bool   // references in values that other changes have with another value
	shape   string            // equal for groups that may differ only in texts
	chance  bool              // merged from groups where some texts have a value by chance

	baseUnknown bool
}

// maxKnown is the number of lines in the changes of object pairs that a Builder remembers, about 50 bytes each.
const maxKnown = 1 << 20

// Add adds targets of one app whose objects are equal, with equal Sync, Keeps and Force: the objects of the first
// count. All targets with these objects must be added at once. Targets of one app should follow each other, since they
// share work.
func (b *Builder) Add(same []Target) {
	b.compared += len(same)
	changes := b.changes(&same[0])
	if len(changes) == 0 {
		return
	}
	b.images.add(same, changes)
	facts := commonFacts(same)
	t := newTemplate(facts)
	for _, c := range changes {
		t.change(c)
	}
	sum := t.sum()
	if same[0].BaseUnknown {
		sum += " base unknown"
	}
	key := same[0].App + "\x00" + sum
	m := b.groups[key]
	if m == nil {
		m = &mergedGroup{
			id: shortID(same[0].App, sum), app: same[0].App, baseUnknown: same[0].BaseUnknown,
			shape: string(t.shape.Sum(nil)), values: map[string]string{}, varies: map[string]bool{},
		}
		b.groups[key], b.order = m, append(b.order, m)
	}
	m.vary(t)
	example := same[0].Cluster
	for i := range same {
		m.places = append(m.places, place{same[i].Cluster, same[i].Environment})
		example = min(example, same[i].Cluster)
	}
	if m.objects == nil || example <= m.example {
		m.facts = facts
		b.show(m, example, changes)
	}
}

// vary notes which replaced references have another value than in the other changes of the group.
func (m *mergedGroup) vary(t *template) {
	for reference := range t.hits {
		if value, ok := m.values[reference]; !ok {
			m.values[reference] = t.facts[reference]
		} else if value != t.facts[reference] {
			m.varies[reference] = true
		}
	}
}

// show makes a cluster the example of a group.
func (b *Builder) show(m *mergedGroup, example string, changes []*ObjectChange) {
	for i := range m.objects {
		b.text -= textOf(m.objects[i].Context)
	}
	m.example, m.objects = example, make([]ObjectChange, len(changes))
	for i, c := range changes {
		m.objects[i] = *c
		if b.text += textOf(c.Context); b.text > maxContext {
			b.text -= textOf(c.Context)
			m.objects[i].Context = nil
		}
	}
}

func textOf(lines []string) int {
	n := 0
	for _, l := range lines {
		n += len(l)
	}
	return n
}

// ChangeSet returns the change set of the added targets. environments defines their order in the result; it is that of
// the promotion graph.
func (b *Builder) ChangeSet(withheld []Withheld, environments []string, f Fleet) *ChangeSet {
	out := &ChangeSet{
		Groups: []Group{}, Apps: []App{}, Withheld: slices.Clone(withheld), Compared: b.compared,
		Environments: environments,
	}
	if out.Withheld == nil {
		out.Withheld = []Withheld{}
	}
	names, reached := newNamer(f, environments), map[string][]place{}
	for _, m := range united(b.order) {
		out.Groups = append(out.Groups, m.group(names, b.rules))
		reached[m.app] = append(reached[m.app], m.places...)
	}
	slices.SortStableFunc(out.Groups, compareGroups)
	order := func(w Withheld) int { return slices.Index(environments, w.Environment) }
	slices.SortStableFunc(out.Withheld, func(a, b Withheld) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(order(a), order(b)), cmp.Compare(a.Cluster, b.Cluster))
	})
	out.sum()
	for i := range out.Apps {
		if a := &out.Apps[i]; len(reached[a.Name]) > 0 {
			a.Where, _ = names.where(a.Name, reached[a.Name])
		}
	}
	return out
}

// NewImages returns the images that workloads and pods of the added targets have only after the change, by name.
// environments defines the order of those with equal names.
func (b *Builder) NewImages(environments []string) []NewImage { return b.images.sorted(environments) }

// pairKey identifies the comparison of two objects under one sync tool.
type pairKey struct {
	before, after string // Object.Key
	sync          Sync
	keeps         string
	force         bool
}

// maxContext is the number of bytes of all contexts of a change set.
const maxContext = 32 << 20

// changes returns the changes of the objects of a target.
func (b *Builder) changes(t *Target) []*ObjectChange {
	var out []*ObjectChange
	for _, p := range b.pairs(t.Before, t.After) {
		key := pairKey{sync: t.Sync, keeps: t.Keeps, force: t.Force}
		var before, after manifest.Object
		if p.before != nil {
			key.before, before = p.before.Key, p.before.Object
		}
		if p.after != nil {
			key.after, after = p.after.Key, p.after.Object
		}
		c, ok := b.known[key]
		if !ok {
			c = compare(before, after, applying{t.Sync, t.Keeps, t.Force})
			b.remember(key, c)
		}
		if c != nil {
			out = append(out, c)
		}
	}
	out = budgets(out, t)
	slices.SortStableFunc(out, byRisk)
	return out
}

// remember keeps the change of a pair for the next targets, and forgets all others if they have become too many.
func (b *Builder) remember(key pairKey, c *ObjectChange) {
	n := 1
	if c != nil {
		n += c.Lines + len(c.Context)
	}
	if b.lines += n; b.lines > maxKnown {
		clear(b.known)
		b.lines = n
	}
	b.known[key] = c
}

func shortID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// commonFacts returns the facts that have the same value on the clusters of all targets.
func commonFacts(targets []Target) map[string]string {
	shared := maps.Clone(targets[0].facts())
	// most changes of a whole fleet: the facts of the other targets do not matter
	for i := 1; i < len(targets) && len(shared) > 0; i++ {
		own := targets[i].facts()
		maps.DeleteFunc(shared, func(reference, value string) bool {
			have, ok := own[reference]
			return !ok || have != value
		})
	}
	return shared
}
