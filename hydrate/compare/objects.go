package compare

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/internal/parallel"
)

// findTargets finds the targets whose trees differ. It registers the secrets of all trees, so that they are masked in
// every object that is read afterwards.
func (c *run) findTargets(ctx context.Context) error {
	c.reader = objects.NewReader(c.h.Store, c.out.Mask)
	var differ []*candidate
	var pairs [][2]gitstore.Hash
	for _, one := range c.list {
		if !one.compared() || one.trees[0] == one.trees[1] && !one.upgraded {
			continue
		}
		differ, pairs = append(differ, one), append(pairs, one.trees)
	}
	files, err := c.reader.CompareAll(ctx, pairs)
	if err != nil {
		return err
	}
	c.out.Targets = make([]Target, 0, len(differ))
	for _, one := range differ {
		t := one.target()
		out := Target{
			Target: t, Old: one.sides[0], Environment: t.Cluster.Environment, Trees: one.trees, Files: files[one.trees],
			Upgraded: one.upgraded, Gone: one.sides[1] == nil, BaseUnknown: one.baseUnknown(),
		}
		if out.Namespace, err = c.namespaceOf(one); err != nil {
			return err
		}
		c.out.Targets = append(c.out.Targets, out)
	}
	return nil
}

// namespaceOf returns the namespace of a candidate's app on its cluster; "" if the app is only on a branch.
func (c *run) namespaceOf(one *candidate) (string, error) {
	t, side := one.target(), 1
	if one.sides[1] == nil {
		side = 0
	}
	view := c.views[side]
	if view == nil || t.App.File == "" {
		return "", nil
	}
	if known := one.namespaces[side]; known != "" {
		return known, nil
	}
	resolved, err := view.Fleet.Resolve(t)
	return resolved.Namespace, err
}

// readAhead is the number of different changes whose objects are in memory together.
const readAhead = 64

// changes sets the change set. With TargetsOnly, it says only what could not be compared.
func (c *run) changes(ctx context.Context) error {
	b := Rules(c.outputs).NewBuilder()
	if !c.request.TargetsOnly {
		if err := c.addTargets(ctx, b); err != nil {
			return err
		}
	}
	head := c.views[1].Fleet
	var environments []string
	for _, e := range head.Spec.Environments {
		environments = append(environments, e.Name)
	}
	withheld, compared := c.withheld()
	c.out.Changes = b.ChangeSet(withheld, environments, newPlacements(c.views))
	c.out.NewImages = b.NewImages(environments)
	c.out.Changes.Compared = compared
	if c.request.TargetsOnly {
		return nil
	}
	c.out.Changes.Unread = fleet.Unread(head)
	c.out.Changes.Targetless = len(head.Spec.Import) > 0 && len(head.Targets()) == 0
	c.out.Changes.Declarations = c.declarations(environments)
	var err error
	if c.out.Changes.Losses, err = c.losses(ctx); err != nil {
		return err
	}
	if err = c.causes(ctx); err != nil {
		return err
	}
	c.out.Changes.Files, err = c.files(ctx)
	return err
}

// Rules returns a fleet's rules about risks.
func Rules(f *fleet.Fleet) diff.Rules {
	out := diff.Rules{Production: f.Production, Risks: map[diff.EffectName]diff.Risk{}}
	for name, risk := range f.Spec.Risk.Levels {
		out.Risks[diff.EffectName(name)] = diff.Risk(risk)
	}
	return out
}

// addTargets reads the objects of the targets that differ, and adds the targets to a change set. Of targets with equal
// changes, it reads one.
func (c *run) addTargets(ctx context.Context, b *diff.Builder) error {
	all, done := c.groupEqual(), 0
	for some := range slices.Chunk(all, readAhead) {
		c.h.Progress("compare", done, len(all))
		done += len(some)
		sides := make([][2][]diff.Object, len(some))
		err := parallel.Each(ctx, len(some), func(ctx context.Context, i int) (err error) {
			sides[i], err = c.readDifference(ctx, some[i][0])
			return err
		})
		if err != nil {
			return err
		}
		for i, equal := range some {
			b.Add(c.diffTargets(equal, sides[i]))
		}
	}
	c.h.Progress("compare", done, done)
	return nil
}

// withheld returns the targets that could not be rendered, each with the error of the head or else of the base.
// compared is the number of targets of which the change set says what changes, or that nothing does.
func (c *run) withheld() (out []diff.Withheld, compared int) {
	for _, one := range c.list {
		err := cmp.Or(one.failed[1], one.failed[0])
		if err == nil || one.baseUnknown() {
			compared++
		}
		if err == nil {
			continue
		}
		f := hydrate.NewFailure(one.target().Cluster.Environment, one.target(), err)
		out = append(out, diff.Withheld{
			App: f.App, Cluster: f.Cluster, Environment: f.Environment, File: f.File, Line: f.Line, Column: f.Column,
			Message: c.out.Mask.Text(f.Message), Before: one.baseUnknown(),
		})
	}
	return append(out, c.withoutCluster()...), compared
}

// changeKey is equal for targets of an app with equal changes.
type changeKey struct {
	app     string
	objects [sha256.Size]byte // of the files that differ
	sync    diff.Sync
	keeps   string
	force   bool
	unknown bool // BaseUnknown of the target
}

// groupEqual groups the targets that have equal changes, by app. It reads no objects: files with equal hashes are
// equal.
func (c *run) groupEqual() [][]*Target {
	sums := map[[2]gitstore.Hash][sha256.Size]byte{}
	groups := map[changeKey]int{} // index in out
	var out [][]*Target
	for i := range c.out.Targets {
		t := &c.out.Targets[i]
		sum, ok := sums[t.Trees]
		if !ok {
			sum = sumOf(t.Files)
			sums[t.Trees] = sum
		}
		key := changeKey{
			t.Target.App.Name, sum, diff.Sync(c.views[1].Fleet.SyncOf(t.Environment)), c.keeps(t),
			forces(c.views[1].Fleet, t), t.BaseUnknown,
		}
		n, ok := groups[key]
		if !ok {
			n = len(out)
			groups[key], out = n, append(out, nil)
		}
		out[n] = append(out[n], t)
	}
	slices.SortStableFunc(out, func(a, b []*Target) int {
		return cmp.Compare(a[0].Target.App.Name, b[0].Target.App.Name)
	})
	return out
}

// sumOf identifies the objects that differ.
func sumOf(d *objects.Difference) [sha256.Size]byte {
	text := make([]byte, 0, (len(d.Before)+len(d.After)+1)*len(gitstore.Hash{}))
	for _, f := range d.Before {
		text = append(text, f.Hash[:]...)
	}
	text = append(text, make([]byte, len(gitstore.Hash{}))...) // no file has this hash
	for _, f := range d.After {
		text = append(text, f.Hash[:]...)
	}
	return sha256.Sum256(text)
}

// readDifference reads the objects of a target that differ, before and after.
func (c *run) readDifference(ctx context.Context, t *Target) (sides [2][]diff.Object, err error) {
	for i, files := range [][]objects.File{t.Files.Before, t.Files.After} {
		list, err := c.out.Read(ctx, t, files)
		if err != nil {
			return sides, err
		}
		sides[i] = plainObjects(list)
	}
	return sides, nil
}

// diffTargets returns targets with equal changes in the form of a change set. They share the objects.
func (c *run) diffTargets(equal []*Target, sides [2][]diff.Object) []diff.Target {
	head, targets := c.views[1].Fleet, make([]diff.Target, len(equal))
	for i, t := range equal {
		targets[i] = diff.Target{
			App: t.Target.App.Name, Cluster: t.Target.Cluster.Name, Environment: t.Environment,
			Sync:   diff.Sync(head.SyncOf(t.Environment)),
			Before: sides[0], After: sides[1], Keeps: c.keeps(t), Force: forces(head, t), BaseUnknown: t.BaseUnknown,
			Facts: func() map[string]string { return factsOf(head, t.Target) },
		}
	}
	return targets
}

// factsOf returns the values of a target's cluster that the files of its app refer to; nil if the fleet does not have
// the app.
func factsOf(f *fleet.Fleet, t fleet.Target) map[string]string {
	if _, ok := f.App(t.App.Name); !ok {
		return nil
	}
	return f.Facts(t)
}

// keeps returns the reason why the tool of an imported repository leaves in the cluster the objects that a target
// loses. This applies only to repositories without sluice.yaml, where the tool's own objects decide. Rendered
// branches are synced by the objects that `sluice bootstrap` prints.
func (c *run) keeps(t *Target) string {
	head := c.views[1].Fleet
	if !head.Detected {
		return ""
	}
	now := head.ImportedTarget(t.Target.Cluster.Name, t.Target.App.Name)
	switch {
	case now != nil && now.Suspended:
		return fmt.Sprintf("the %s %s is suspended", now.Kind, now.App)
	case now != nil && now.Keeps:
		return fmt.Sprintf("the %s %s does not prune", now.Kind, now.App)
	case now == nil && c.views[0] != nil:
		return keepsDeleted(c.views[0].Fleet, head, t.Target.Cluster.Name, t.Target.App.Name)
	}
	return ""
}

// forces reports whether the Kustomization of an imported target has spec.force. As in keeps, it counts where the
// tool's own objects decide.
func forces(head *fleet.Fleet, t *Target) bool {
	now := head.ImportedTarget(t.Target.Cluster.Name, t.Target.App.Name)
	return head.Detected && now != nil && now.Force
}

// keepsDeleted returns the reason why the objects of a deleted target stay in the cluster: the deletion of the
// target's own object leaves them, or its parent leaves that object in the cluster.
func keepsDeleted(base, head *fleet.Fleet, cluster, app string) string {
	seen := map[string]bool{}
	for app != "" && !seen[app] {
		seen[app] = true
		old, now := base.ImportedTarget(cluster, app), head.ImportedTarget(cluster, app)
		switch {
		case now != nil && now.Suspended:
			return fmt.Sprintf("the %s %s is suspended", now.Kind, now.App)
		case now != nil && now.Keeps:
			return fmt.Sprintf("the %s %s does not prune", now.Kind, now.App)
		case now != nil || old == nil:
			return "" // the parent prunes
		case old.KeepsDeleted:
			return fmt.Sprintf("the %s %s is deleted without its objects", old.Kind, old.App)
		}
		app = old.Parent
	}
	return ""
}

func plainObjects(list []Object) []diff.Object {
	out := make([]diff.Object, len(list))
	for i := range list {
		out[i] = list[i].Object
	}
	return out
}

// placements are the clusters that have an app on either side. It implements diff.Fleet.
type placements struct {
	views  [2]*source.View
	all    []diff.Cluster // by name, without retired ones
	at     map[string]int // in all
	known  map[string][]diff.Cluster
	shared map[string][]diff.Cluster // lists, by which of all they have
}

func newPlacements(views [2]*source.View) *placements {
	p := &placements{
		views: views, at: map[string]int{}, known: map[string][]diff.Cluster{}, shared: map[string][]diff.Cluster{},
	}
	names := map[string]*fleet.Cluster{}
	for _, v := range views { // what the head has counts
		if v == nil {
			continue
		}
		for _, c := range v.Fleet.Clusters {
			if !c.Retired() {
				names[c.Name] = c
			}
		}
	}
	for i, name := range slices.Sorted(maps.Keys(names)) {
		c := names[name]
		p.all = append(p.all, diff.Cluster{Name: name, Environment: c.Environment, Labels: c.Labels})
		p.at[name] = i
	}
	p.known[""] = p.all
	return p
}

// Placed returns the clusters that have an app.
func (p *placements) Placed(app string) []diff.Cluster {
	if list, ok := p.known[app]; ok {
		return list
	}
	has := make([]byte, len(p.all))
	for _, v := range p.views {
		if v == nil {
			continue
		}
		a, ok := v.Fleet.App(app)
		if !ok {
			continue
		}
		for _, c := range v.Fleet.Clusters {
			if v.Fleet.Places(a, c) {
				has[p.at[c.Name]] = 1
			}
		}
	}
	list, ok := p.shared[string(has)]
	if !ok {
		for i, yes := range has {
			if yes == 1 {
				list = append(list, p.all[i])
			}
		}
		if len(list) == len(p.all) {
			list = p.all
		}
		p.shared[string(has)] = list
	}
	p.known[app] = list
	return list
}

// environmentPlacements are the clusters of one environment. It implements diff.Fleet.
type environmentPlacements struct {
	all         *placements
	environment string
	known       map[*diff.Cluster][]diff.Cluster // by the first element of the list
}

func (p *placements) in(environment string) environmentPlacements {
	return environmentPlacements{p, environment, map[*diff.Cluster][]diff.Cluster{}}
}

// Placed returns the clusters of the environment that have an app.
func (p environmentPlacements) Placed(app string) []diff.Cluster {
	list := p.all.Placed(app)
	if len(list) == 0 {
		return nil
	}
	out, ok := p.known[&list[0]]
	if !ok {
		for _, c := range list {
			if c.Environment == p.environment {
				out = append(out, c)
			}
		}
		p.known[&list[0]] = out
	}
	return out
}
