package conform

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/objects"
)

// comparison compares the renderings of apps.
type comparison struct {
	store   *gitstore.Store
	fleet   *fleet.Fleet
	options Options
}

// rendering is one tree of an app, and the members that have it.
type rendering struct {
	tree    gitstore.Hash
	members []Member
}

// app compares an app among siblings. The norm is the rendering that most clusters have. If as many have another one,
// or do not have the app, there is none.
func (c *comparison) app(ctx context.Context, name string, members []Member, siblings []string) (App, error) {
	out := App{App: name}
	list := c.renderings(members)
	has := map[string]bool{}
	for _, r := range list {
		for _, m := range r.members {
			has[m.Target.Cluster.Name] = true
		}
	}
	if len(list) == 0 {
		return out, nil
	}
	out.Norm = names(list[0].members)
	missing := slices.DeleteFunc(slices.Clone(siblings), func(s string) bool { return has[s] })
	if len(missing) > len(has) { // most siblings lack the app: those that have it are the exception
		for _, r := range list {
			out.Variants = append(out.Variants, Variant{
				Clusters: names(r.members),
				Causes:   []Cause{{Text: "most siblings do not have the app"}},
			})
		}
		out.Norm = nil
		return out, nil
	}
	reader := objects.NewReader(c.store, c.options.Masker)
	const tries = 3
	for range tries {
		var err error
		if out, err = c.against(ctx, reader, name, list); err != nil {
			return out, err
		}
		better := out.better(list)
		if better == 0 {
			break
		}
		list[0], list[better] = list[better], list[0]
	}
	out.Missing = missing
	if out.tied() {
		out.Against, out.Norm = out.Norm, nil
	}
	return out, nil
}

// tied reports whether no rendering is the most common one.
func (a *App) tied() bool {
	most := len(a.Norm)
	return most > 0 && (len(a.Missing) >= most ||
		slices.ContainsFunc(a.Variants, func(v Variant) bool { return len(v.Clusters) >= most }))
}

// against compares all renderings of an app with the first one. Norm lists the clusters that differ from it only in
// variables.
func (c *comparison) against(ctx context.Context, reader *objects.Reader, name string, list []rendering) (App, error) {
	out := App{App: name, Norm: names(list[0].members)}
	variables := map[string]int{}
	for i, r := range list[1:] {
		if c.options.Most > 0 && i >= c.options.Most {
			out.Unread += len(r.members)
			continue
		}
		v, used, err := c.variant(ctx, reader, list[0], r)
		if err != nil {
			return out, err
		}
		for _, ref := range used {
			variables[ref] += len(r.members)
		}
		if len(v.Objects) > 0 {
			out.merge(v)
		} else {
			out.Norm = append(out.Norm, v.Clusters...)
		}
	}
	slices.Sort(out.Norm)
	for ref, n := range variables {
		out.Variables = append(out.Variables, Reference{ref, n})
	}
	slices.SortStableFunc(out.Variables, func(a, b Reference) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// better returns the place of a rendering that more clusters have, apart from variables, than the norm; 0 if there is
// none.
func (a *App) better(list []rendering) int {
	most, first := len(a.Norm), ""
	for _, v := range a.Variants {
		if len(v.Clusters) > most {
			most, first = len(v.Clusters), v.Clusters[0]
		}
	}
	return max(0, slices.IndexFunc(list, func(r rendering) bool {
		return first != "" && slices.ContainsFunc(r.members,
			func(m Member) bool { return m.Target.Cluster.Name == first })
	}))
}

// merge adds a variant. Variants that differ from the norm in the same way are one.
func (a *App) merge(v Variant) {
	for i := range a.Variants {
		have := &a.Variants[i]
		if slices.EqualFunc(have.Objects, v.Objects, sameObject) && slices.Equal(have.Causes, v.Causes) &&
			slices.Equal(have.Layers, v.Layers) {
			have.Clusters = append(have.Clusters, v.Clusters...)
			return
		}
	}
	a.Variants = append(a.Variants, v)
}

func sameObject(a, b Object) bool {
	return a.Object == b.Object && a.Only == b.Only && slices.Equal(a.Fields, b.Fields)
}

// renderings groups members by tree, the most common first; of equally common ones, those with the fewest files for one
// cluster. Foreign members are by themselves, and last. Members without a tree are left out.
func (c *comparison) renderings(members []Member) []rendering {
	var out []rendering
	type key struct {
		tree    gitstore.Hash
		foreign bool
	}
	at := map[key]int{}
	for _, m := range members {
		if m.Tree.IsZero() {
			continue
		}
		k := key{m.Tree, m.Foreign}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, rendering{tree: m.Tree})
		}
		out[i].members = append(out[i].members, m)
	}
	slices.SortStableFunc(out, func(a, b rendering) int {
		if x, y := a.members[0].Foreign, b.members[0].Foreign; x != y {
			return map[bool]int{false: -1, true: 1}[x]
		}
		return cmp.Or(cmp.Compare(len(b.members), len(a.members)),
			cmp.Compare(c.own(a.members[0].Target), c.own(b.members[0].Target)),
			cmp.Compare(a.members[0].Target.Cluster.Name, b.members[0].Target.Cluster.Name))
	})
	return out
}

// own counts the files that a target takes for its cluster alone.
func (c *comparison) own(t fleet.Target) int {
	n := 0
	for _, f := range c.files(t) {
		if f.Layer == "cluster" {
			n++
		}
	}
	return n
}

func names(members []Member) []string {
	out := make([]string, len(members))
	for i, m := range members {
		out[i] = m.Target.Cluster.Name
	}
	slices.Sort(out)
	return out
}

// variant compares a rendering with the norm. used are the variables that account for differences that are left out.
func (c *comparison) variant(ctx context.Context, reader *objects.Reader, norm, r rendering) (v Variant, used []string,
	err error,
) {
	before, after := norm.members[0], r.members[0]
	d, err := reader.Compare(ctx, [2]gitstore.Hash{norm.tree, r.tree})
	if err != nil {
		return v, nil, err
	}
	var sides [2][]diff.Object
	for i, files := range [][]objects.File{d.Before, d.After} {
		list, err := reader.Read(ctx, after.Target.Cluster.Name, after.Target.App.Name, files)
		if err != nil {
			return v, nil, err
		}
		for _, o := range list {
			sides[i] = append(sides[i], o.Object)
		}
	}
	environment := after.Target.Cluster.Environment
	changes := diff.Compare([]diff.Target{{
		App: after.Target.App.Name, Cluster: after.Target.Cluster.Name,
		Environment: environment, Before: sides[0], After: sides[1],
	}},
		nil, []string{environment}, one{})
	facts := newFacts(c.fleet.Facts(before.Target), c.fleet.Facts(after.Target))
	v.Clusters = names(r.members)
	for i := range changes.Groups {
		for j := range changes.Groups[i].Objects {
			if o, differs := facts.object(&changes.Groups[i].Objects[j]); differs {
				v.Objects = append(v.Objects, o)
			}
		}
	}
	slices.SortStableFunc(v.Objects, func(a, b Object) int { return cmp.Compare(a.Object, b.Object) })
	v.Causes = c.causes(before, after)
	if !before.Foreign && !after.Foreign {
		v.Layers = layersOf(v.Causes)
	}
	return v, facts.names(), nil
}

// layersOf returns the layers of causes; nil if one of them is no layer.
func layersOf(causes []Cause) []string {
	var out []string
	for _, c := range causes {
		if c.Layer == "" {
			return nil
		}
		out = append(out, c.Layer)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// one is the fleet that diff sees: a cluster that needs no description.
type one struct{}

// Placed implements diff.Fleet.
func (one) Placed(string) []diff.Cluster { return nil }

// causes lists the layer files that only one of two members takes, other source commits, and another API server.
func (c *comparison) causes(norm, variant Member) []Cause {
	var out []Cause
	if norm.Commit != variant.Commit {
		out = append(out, Cause{Text: fmt.Sprintf("source commit %.10s instead of %.10s", variant.Commit, norm.Commit)})
	}
	was, is := norm.Target.Cluster, variant.Target.Cluster
	if was.KubeVersion != is.KubeVersion {
		out = append(out, Cause{Text: fmt.Sprintf("Kubernetes %s instead of %s", is.KubeVersion, was.KubeVersion)})
	}
	if !slices.Equal(was.APIVersions, is.APIVersions) || was.Helm != is.Helm {
		out = append(out, Cause{Text: "another spec.apiVersions or spec.helm in the registry"})
	}
	a, b := c.files(norm.Target), c.files(variant.Target)
	for _, f := range b {
		if !slices.Contains(a, f) {
			out = append(out, Cause{Layer: layer(f), File: f.Path, Only: "variant"})
		}
	}
	for _, f := range a {
		if !slices.Contains(b, f) {
			out = append(out, Cause{Layer: layer(f), File: f.Path, Only: "norm"})
		}
	}
	return out
}

func (c *comparison) files(t fleet.Target) []fleet.LayerFile {
	return slices.Concat(c.fleet.ValuesFiles(t), c.fleet.Components(t))
}

func layer(f fleet.LayerFile) string {
	if f.Value == "" {
		return f.Layer
	}
	return f.Layer + "=" + f.Value
}

// facts are the registry values of two clusters that differ.
type facts struct {
	norm, variant *strings.Replacer
	all           []fact
	used          map[string]bool
}

type fact struct{ name, norm, variant string }

func newFacts(norm, variant map[string]string) *facts {
	out := &facts{used: map[string]bool{}}
	for _, reference := range slices.Sorted(maps.Keys(variant)) {
		value := variant[reference]
		if old := norm[reference]; old != value && old != "" && value != "" {
			out.all = append(out.all, fact{reference, old, value})
		}
	}
	out.norm = replacer(out.all, func(f fact) string { return f.norm })
	out.variant = replacer(out.all, func(f fact) string { return f.variant })
	return out
}

// replacer puts references in the place of values, the longest first.
func replacer(all []fact, value func(fact) string) *strings.Replacer {
	list := slices.Clone(all)
	slices.SortStableFunc(list, func(a, b fact) int { return cmp.Compare(len(value(b)), len(value(a))) })
	var pairs []string
	for _, f := range list {
		pairs = append(pairs, value(f), "${"+f.name+"}")
	}
	return strings.NewReplacer(pairs...)
}

// explain reports whether two texts differ only in values of variables, and notes which.
func (f *facts) explain(norm, variant string) bool {
	general := f.norm.Replace(norm)
	if len(f.all) == 0 || general != f.variant.Replace(variant) {
		return false
	}
	for _, one := range f.all {
		if strings.Contains(general, "${"+one.name+"}") {
			f.used[one.name] = true
		}
	}
	return true
}

func (f *facts) names() []string {
	var out []string
	for _, one := range f.all {
		if f.used[one.name] {
			out = append(out, one.name)
		}
	}
	return out
}

// object converts a changed object. It reports false if variables account for all that differs.
func (f *facts) object(o *diff.ObjectChange) (Object, bool) {
	out := Object{Object: o.Title()}
	switch o.Verb {
	case diff.Added:
		out.Only = "variant"
		return out, true
	case diff.Removed:
		out.Only = "norm"
		return out, true
	}
	for _, field := range slices.Concat(o.Fields, o.Noise) {
		norm, variant := text(field.Had, field.Old), text(field.Has, field.New)
		if !f.explain(norm, variant) && !checksum(field.Path) {
			out.Fields = append(out.Fields, Field{field.Path, norm, variant})
		}
	}
	f.pair(&out)
	return out, len(out.Fields) > 0
}

// pair leaves out an entry of a list that is named by a variable's value, such as the rule of an Ingress for a host: it
// is a field that only the norm has and one that only the variant has, with equal content apart from variables.
func (f *facts) pair(o *Object) {
	for i := 0; i < len(o.Fields); i++ {
		a := o.Fields[i]
		if a.Variant != "" {
			continue
		}
		j := slices.IndexFunc(o.Fields, func(b Field) bool {
			return b.Norm == "" && f.norm.Replace(a.Path) == f.variant.Replace(b.Path) && f.explain(a.Norm, b.Variant)
		})
		if j < 0 {
			continue
		}
		o.Fields = slices.Delete(o.Fields, max(i, j), max(i, j)+1)
		o.Fields = slices.Delete(o.Fields, min(i, j), min(i, j)+1)
		i = -1
	}
}

// checksum reports annotations that only repeat that another object differs.
func checksum(path string) bool { return strings.Contains(path, "checksum/") }

func text(present bool, v any) string {
	if !present {
		return ""
	}
	if s, ok := v.(string); ok {
		return s
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}
