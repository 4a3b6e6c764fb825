package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

func compareGroups(a, b Group) int {
	return cmp.Or(cmp.Compare(a.harm(), b.harm()), cmp.Compare(a.Risk.Rank(), b.Risk.Rank()), cmp.Compare(len(b.Clusters), len(a.Clusters)),
		cmp.Compare(a.App, b.App), cmp.Compare(a.Clusters[0], b.Clusters[0]), cmp.Compare(a.ID, b.ID))
}

// Harm orders kinds of changes by what a reader must see first; 0 is the worst. Within a kind, the risk counts.
type Harm int

// The harms.
const (
	HarmLoss     Harm = iota // objects are removed or data is lost
	HarmRefused              // the API server refuses the change
	HarmSecurity             // rights or access are widened
	HarmRollout              // pods are replaced, or fewer of them run
	HarmOther
)

// Harm returns the harm of a kind of effect.
func (e EffectName) Harm() Harm {
	switch e {
	case EffectDataLoss, EffectCRDRemoved, EffectCRDVersion, EffectNamespaceGone, EffectStatefulGone,
		EffectEnvironmentGone, EffectEmptied, EffectLargeLoss, EffectRemoved:
		return HarmLoss
	case EffectImmutable, EffectStorageShrinks:
		return HarmRefused
	case EffectRBACWidened, EffectHostAccess, EffectExposed:
		return HarmSecurity
	case EffectRolls, EffectZeroReplicas, EffectImage, EffectRecreated, EffectRerun, EffectHook, EffectReplicasCut,
		EffectNoDisruption:
		return HarmRollout
	}
	return HarmOther
}

// Harm returns the worst harm of a change.
func (o *ObjectChange) Harm() Harm {
	out := HarmOther
	if o.Verb == Removed && !o.Orphaned() {
		out = HarmLoss
	}
	if o.Rolls {
		out = min(out, HarmRollout)
	}
	for _, e := range o.Effects {
		out = min(out, e.Name.Harm())
	}
	return out
}

// harm returns the worst harm of the objects of a group.
func (g *Group) harm() Harm {
	out := HarmOther
	for i := range g.Objects {
		out = min(out, g.Objects[i].Harm())
	}
	return out
}

func (m *mergedGroup) group(names *namer, rules Rules) Group {
	out := Group{
		ID: m.id, App: m.app, Example: m.example, Objects: m.objects, Risk: RiskNone,
		BaseUnknown: m.baseUnknown, Varies: slices.Sorted(maps.Keys(m.varies)), varying: m.varying(),
		chance: m.chance,
	}
	for _, p := range m.places {
		out.Clusters = append(out.Clusters, p.cluster)
	}
	slices.Sort(out.Clusters)
	out.Where, out.Environments = names.where(out.App, m.places)
	for i := range out.Objects {
		out.Counts.Add(countsOf(&out.Objects[i]), 1)
	}
	rules.group(&out)
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
			if e.Risk.Rank() > RiskHigh.Rank() || slices.ContainsFunc(out,
				func(other Effect) bool { return other.Name == e.Name }) {
				continue
			}
			e.Message = o.Title() + ": " + e.Message
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b Effect) int { return cmp.Compare(a.Risk.Rank(), b.Risk.Rank()) })
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
		return "only version labels, checksums and equal values"
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
