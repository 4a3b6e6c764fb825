package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/diff"
)

// caution is one kind of effect of critical or high risk, with the objects that have it.
type caution struct {
	name  diff.EffectName
	risk  diff.Risk
	items []cautionItem // the first ones, in the order of the groups
	total int           // objects, counted on every cluster
	kinds int           // objects, counted once
}

type cautionItem struct {
	group   *diff.Group
	object  *diff.ObjectChange
	message string
}

// add counts the effect of an object with the given index. Several effects of one kind count once.
func (c *caution) add(g *diff.Group, o *diff.ObjectChange, effect int) {
	e := o.Effects[effect]
	if e.Risk.Rank() < c.risk.Rank() {
		c.risk = e.Risk
	}
	if slices.ContainsFunc(o.Effects[:effect], func(other diff.Effect) bool { return other.Name == e.Name }) {
		return
	}
	c.kinds++
	c.total += len(g.Clusters)
	if len(c.items) < cautionItems {
		c.items = append(c.items, cautionItem{g, o, e.Message})
	}
}

const cautionItems = 4 // of one kind that are listed; the others are counted

// cautions returns the effects of critical and high risk by kind, the gravest first.
func cautions(c *diff.ChangeSet) []*caution {
	byName := map[diff.EffectName]*caution{}
	var out []*caution
	for i := range c.Groups {
		g := &c.Groups[i]
		for j := range g.Objects {
			o := &g.Objects[j]
			for k, e := range o.Effects {
				if e.Risk.Rank() > diff.RiskHigh.Rank() {
					continue
				}
				one := byName[e.Name]
				if one == nil {
					one = &caution{name: e.Name, risk: e.Risk}
					byName[e.Name] = one
					out = append(out, one)
				}
				one.add(g, o, k)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *caution) int {
		return cmp.Or(cmp.Compare(a.risk.Rank(), b.risk.Rank()), cmp.Compare(a.name, b.name))
	})
	return out
}

// effectWords describes a kind of effect in a few words.
func effectWords(name diff.EffectName) string {
	words, ok := map[diff.EffectName]string{
		diff.EffectImmutable:      "The cluster refuses the change",
		diff.EffectDependsOnSync:  "The result depends on the sync tool",
		diff.EffectDataLoss:       "Data may be lost",
		diff.EffectCRDRemoved:     "A CustomResourceDefinition is removed",
		diff.EffectCRDVersion:     "A CRD version is removed",
		diff.EffectNamespaceGone:  "A namespace is removed",
		diff.EffectStatefulGone:   "A StatefulSet is removed",
		diff.EffectStorageShrinks: "A volume cannot shrink",
		diff.EffectRolls:          "Pods stop before new ones start",
		diff.EffectZeroReplicas:   "No replica is left",
		diff.EffectRBACWidened:    "Rights are widened",
		diff.EffectRecreated:      "A workload is recreated",
		diff.EffectRerun:          "A Job runs again",
		diff.EffectNotApplied:     "The change is not applied",
		diff.EffectOrphan:         "An object becomes an orphan",
		diff.EffectHook:           "A hook runs",
		diff.EffectImage:          "An image changes",
	}[name]
	if !ok {
		return "Caution"
	}
	return words
}

// withheldGroup is the targets that fail for one reason.
type withheldGroup struct {
	message string
	before  bool
	targets int
	apps    []string
	where   []diff.Reach
	byEnv   map[string]int // index in where
}

// withheldGroups groups targets by their failure; the most frequent failure is first.
func withheldGroups(list []diff.Withheld) []*withheldGroup {
	type key struct {
		message string
		before  bool
	}
	find := map[key]*withheldGroup{}
	var out []*withheldGroup
	for i := range list {
		w := &list[i]
		k := key{w.Message, w.Before}
		g := find[k]
		if g == nil {
			g = &withheldGroup{message: w.Message, before: w.Before, byEnv: map[string]int{}}
			find[k] = g
			out = append(out, g)
		}
		g.add(w)
	}
	slices.SortStableFunc(out, func(a, b *withheldGroup) int { return cmp.Compare(b.targets, a.targets) })
	return out
}

func (g *withheldGroup) add(w *diff.Withheld) {
	g.targets++
	if !slices.Contains(g.apps, w.App) {
		g.apps = append(g.apps, w.App)
	}
	i, ok := g.byEnv[w.Environment]
	if !ok {
		g.byEnv[w.Environment] = len(g.where)
		g.where = append(g.where, diff.Reach{Environment: w.Environment, Pattern: diff.Place(w.Environment, w.Cluster), Clusters: 1})
		return
	}
	g.where[i].Pattern = w.Environment // with its number: some of the environment's clusters
	g.where[i].Clusters++
}

// label names the targets of a group: `shop` and 2 more apps on `prod (5)`.
func (g *withheldGroup) label(name naming) string {
	const most = 3
	var names []string
	for _, a := range g.apps[:min(most, len(g.apps))] {
		names = append(names, name(a))
	}
	out := strings.Join(names, ", ")
	if rest := len(g.apps) - len(names); rest > 0 {
		out += " and " + count(rest, "more app")
	}
	out += " on " + name(patterns(g.where, maxWhere))
	if g.before {
		out += " (at the base; the head renders)"
	}
	return out
}
