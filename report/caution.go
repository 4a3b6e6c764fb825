package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
)

// Caution is one kind of effect of critical or high risk, with the objects that have it.
type Caution struct {
	Name  diff.EffectName
	Risk  diff.Risk
	Items []CautionItem // the first ones, in the order of the groups
	Total int           // objects, counted on every cluster
	Kinds int           // objects, counted once
}

// CautionItem is one object with the effect.
type CautionItem struct {
	Group   *diff.Group
	Object  *diff.ObjectChange
	Message string
	Objects int // for which the item stands: of the group, and the same ones of other apps
	Others  int // other apps on which the change is the same
}

// subject names what an item is about: Deployment web/web and 2 more of web.
func (i *CautionItem) subject(name naming) string {
	out := name(i.Object.Title())
	if more := i.Objects/(1+i.Others) - 1; more > 0 {
		out += " and " + Number(more) + " more"
	}
	out += " of " + name(i.Group.App)
	if i.Others > 0 {
		out += " and " + Count(i.Others, "other app")
	}
	return out
}

// Rest is the number of objects, counted once, for which no item stands.
func (c *Caution) Rest() int {
	out := c.Kinds
	for i := range c.Items {
		out -= c.Items[i].Objects
	}
	return out
}

// removals are the groups that remove objects whose removal has no graver effect of its own. A single group needs
// none: its line says it.
func removals(c *diff.ChangeSet, most int) *Caution {
	out := &Caution{Name: diff.EffectRemoved, Risk: diff.RiskHigh}
	for _, e := range Entries(pointers(c.Groups)) {
		g := e.Group
		item := CautionItem{Group: g, Others: len(e.Others)}
		for j := range g.Objects {
			o := &g.Objects[j]
			if o.Verb != diff.Removed || o.Orphaned() || o.Risk.Rank() > diff.RiskHigh.Rank() ||
				slices.ContainsFunc(o.Effects, func(e diff.Effect) bool { return e.Risk.Rank() <= diff.RiskHigh.Rank() }) {
				continue
			}
			if item.Object == nil {
				item.Object = o
			}
			item.Objects += 1 + len(e.Others)
			out.Kinds += 1 + len(e.Others)
			out.Total += len(g.Clusters) * (1 + len(e.Others))
			if o.Risk.Rank() < out.Risk.Rank() {
				out.Risk = o.Risk
			}
		}
		if item.Object != nil && len(out.Items) < most {
			out.Items = append(out.Items, item)
		}
	}
	if out.Kinds == 0 || len(c.Groups) == 1 {
		return nil
	}
	return out
}

// add counts the effect of an object with the given index. Several effects of one kind count once.
func (c *Caution) add(g *Entry, o *diff.ObjectChange, effect, most int) {
	e := o.Effects[effect]
	if e.Risk.Rank() < c.Risk.Rank() {
		c.Risk = e.Risk
	}
	if slices.ContainsFunc(o.Effects[:effect], func(other diff.Effect) bool { return other.Name == e.Name }) {
		return
	}
	objects := 1 + len(g.Others)
	c.Kinds += objects
	c.Total += len(g.Clusters) * objects
	if len(c.Items) < most {
		c.Items = append(c.Items, CautionItem{
			Group: g.Group, Object: o, Message: e.Message, Objects: objects, Others: len(g.Others),
		})
	}
}

const cautionItems = 4 // of one kind that are listed; the others are counted

// Cautions returns the effects of critical and high risk by kind, ordered by harm and then by risk. It lists at most
// most items of a kind and counts the others.
func Cautions(c *diff.ChangeSet, most int) []*Caution {
	byName := map[diff.EffectName]*Caution{}
	var out []*Caution
	for _, g := range Entries(pointers(c.Groups)) {
		for j := range g.Objects {
			o := &g.Objects[j]
			for k, e := range o.Effects {
				if e.Risk.Rank() > diff.RiskHigh.Rank() {
					continue
				}
				one := byName[e.Name]
				if one == nil {
					one = &Caution{Name: e.Name, Risk: e.Risk}
					byName[e.Name] = one
					out = append(out, one)
				}
				one.add(g, o, k, most)
			}
		}
	}
	if one := removals(c, most); one != nil {
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(a, b *Caution) int {
		return cmp.Or(cmp.Compare(a.Name.Harm(), b.Name.Harm()), cmp.Compare(a.Risk.Rank(), b.Risk.Rank()),
			cmp.Compare(a.Name, b.Name))
	})
	return out
}

// EffectWords describes a kind of effect in a few words.
func EffectWords(name diff.EffectName) string {
	words, ok := map[diff.EffectName]string{
		diff.EffectRemoved:        "Objects are removed",
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
		diff.EffectReplicasCut:    "Fewer replicas",
		diff.EffectHostAccess:     "Pods get access to their nodes",
		diff.EffectExposed:        "More traffic is allowed",
		diff.EffectNoDisruption:   "Nodes cannot be drained",

		diff.EffectEnvironmentGone: "An environment is removed",
		diff.EffectEmptied:         "A cluster is emptied",
		diff.EffectLargeLoss:       "A cluster loses much of what it has",
	}[name]
	if !ok {
		return "Caution"
	}
	return words
}

// WithheldGroup is the targets that fail for one reason.
type WithheldGroup struct {
	Message string
	File    string // of the repository, where the cause is; "" if unknown
	Line    int    // 0 if unknown
	Before  bool   // the base cannot be rendered, the head can
	Targets int
	Apps    []string
	Where   []diff.Reach
	byEnv   map[string]int // index in Where
	members []*diff.Withheld
}

// GroupWithheld groups targets by their failure; the most frequent failure is first.
func GroupWithheld(list []diff.Withheld) []*WithheldGroup {
	type key struct {
		message string
		before  bool
	}
	find := map[key]*WithheldGroup{}
	var out []*WithheldGroup
	for i := range list {
		w := &list[i]
		k := key{w.Message, w.Before}
		g := find[k]
		if g == nil {
			g = &WithheldGroup{
				Message: w.Message, File: w.File, Line: w.Line, Before: w.Before,
				byEnv: map[string]int{},
			}
			find[k] = g
			out = append(out, g)
		}
		g.add(w)
	}
	out = alikeWithheld(out)
	slices.SortStableFunc(out, func(a, b *WithheldGroup) int { return cmp.Compare(b.Targets, a.Targets) })
	return out
}

// mostAlike is the number of messages that differ only in names and that are shown one by one.
const mostAlike = 3

// alikeWithheld unites groups whose messages differ only in names, if there are more than mostAlike of them.
func alikeWithheld(list []*WithheldGroup) []*WithheldGroup {
	return united(list, func(g *WithheldGroup) string { return fmt.Sprintf("%s %t", unnamed(g.Message), g.Before) },
		func(first *WithheldGroup, all []*WithheldGroup) {
			for _, g := range all {
				for i := range g.members {
					first.add(g.members[i])
				}
			}
			first.Message += fmt.Sprintf("\n(and %s that %s only in names)", Count(len(all), "other message"),
				differs(len(all)))
		})
}

func differs(n int) string {
	if n == 1 {
		return "differs"
	}
	return "differ"
}

// united replaces items of one key by the first of them, if there are more than mostAlike.
func united[T any](list []*T, key func(*T) string, unite func(first *T, others []*T)) []*T {
	byKey := map[string][]*T{}
	for _, one := range list {
		byKey[key(one)] = append(byKey[key(one)], one)
	}
	var out []*T
	for _, one := range list {
		same := byKey[key(one)]
		if len(same) <= mostAlike {
			out = append(out, one)
		} else if same[0] == one {
			out = append(out, one)
		}
	}
	for _, same := range byKey {
		if len(same) > mostAlike {
			unite(same[0], same[1:])
		}
	}
	return out
}

// nameLike matches what names something in a message: quoted texts, and words with a digit, a dot, a slash or a dash in
// them.
var nameLike = regexp.MustCompile("\"[^\"]*\"|`[^`]*`|[A-Za-z0-9_@:+{}$~-]*[0-9./:@-][A-Za-z0-9_./@:+{}$~-]*")

// unnamed returns a message without the names in it.
func unnamed(text string) string { return nameLike.ReplaceAllString(text, "…") }

func (g *WithheldGroup) add(w *diff.Withheld) {
	g.Targets++
	g.members = append(g.members, w)
	if !slices.Contains(g.Apps, w.App) {
		g.Apps = append(g.Apps, w.App)
	}
	i, ok := g.byEnv[w.Environment]
	if !ok {
		g.byEnv[w.Environment] = len(g.Where)
		g.Where = append(g.Where, diff.Reach{
			Environment: w.Environment, Pattern: diff.Place(w.Environment, w.Cluster),
			Clusters: 1,
		})
		return
	}
	g.Where[i].Pattern = w.Environment // with its number: some of the environment's clusters
	g.Where[i].Clusters++
}

// Label names the targets of a group: `shop` and 2 more apps on `prod (5)`.
func (g *WithheldGroup) Label(name naming) string {
	const most = 3
	var names []string
	for _, a := range g.Apps[:min(most, len(g.Apps))] {
		names = append(names, name(a))
	}
	out := strings.Join(names, ", ")
	if rest := len(g.Apps) - len(names); rest > 0 {
		out += " and " + Count(rest, "more app")
	}
	out += " on " + name(patterns(g.Where, maxWhere))
	if g.Before {
		out += " (at the base; the head renders)"
	}
	return out
}
