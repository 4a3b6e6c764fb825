package report

import (
	"cmp"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate/diff"
)

// caution is one kind of grave effect, with the objects that have it.
type caution struct {
	name  diff.EffectName
	risk  diff.Risk
	items []cautionItem // the first ones, by the order of the groups
	total int           // objects, each counted on every cluster
	kinds int           // objects, each counted once
}

type cautionItem struct {
	group   *diff.Group
	object  *diff.ObjectChange
	message string
}

// add counts an effect of an object, by its index. Several of a kind count once.
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

const cautionItems = 4 // of one kind; the others are counted

// cautions are the effects of critical and high risk, by kind, the gravest first.
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

// withheldGroup are targets of one app that failed for one reason.
type withheldGroup struct {
	app, message string
	before       bool
	targets      int
	where        []diff.Reach
	byEnv        map[string]int
}

// withheldGroups puts targets together that fail alike; those of the most targets first.
func withheldGroups(list []diff.Withheld) []*withheldGroup {
	type key struct {
		app, message string
		before       bool
	}
	find := map[key]*withheldGroup{}
	var out []*withheldGroup
	for i := range list {
		w := &list[i]
		k := key{w.App, w.Message, w.Before}
		g := find[k]
		if g == nil {
			g = &withheldGroup{app: w.App, message: w.Message, before: w.Before, byEnv: map[string]int{}}
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
	i, ok := g.byEnv[w.Environment]
	if !ok {
		g.byEnv[w.Environment] = len(g.where)
		g.where = append(g.where, diff.Reach{Environment: w.Environment, Pattern: w.Environment + "/" + w.Cluster, Clusters: 1})
		return
	}
	g.where[i].Pattern = w.Environment // with its number: some of the environment's clusters
	g.where[i].Clusters++
}
