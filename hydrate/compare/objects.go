package compare

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/hydrate/source"
)

// treePair holds the objects that differ between two trees. All targets with these trees share it.
type treePair struct {
	before, after, same []Object
	unchanged           int
	apps                map[string]*appPair // the same for an app
}

// appPair holds the objects of a treePair with file names below the folder of an app. All targets of the app with these trees share it.
type appPair struct {
	before, after, same []Object
	plain               [2][]diff.Object // before and after
}

// of returns the objects for an app.
func (p *treePair) of(app string) *appPair {
	out, ok := p.apps[app]
	if !ok {
		out = &appPair{before: inApp(app, p.before), after: inApp(app, p.after), same: inApp(app, p.same), plain: [2][]diff.Object{plainObjects(p.before), plainObjects(p.after)}}
		p.apps[app] = out
	}
	return out
}

// readObjects reads the objects that differ. It first registers the secrets of all trees, so that they are masked in
// every object.
func (c *run) readObjects(ctx context.Context) error {
	c.reader = objects.NewReader(c.h.Store, c.out.Mask)
	files := map[[2]gitstore.Hash]*objects.Difference{}
	var differ []*candidate // one for each pair of trees
	upgraded := map[[2]gitstore.Hash]bool{}
	for _, one := range c.list {
		if !one.compared() || one.trees[0] == one.trees[1] && !one.upgraded {
			continue
		}
		upgraded[one.trees] = upgraded[one.trees] || one.upgraded
		if files[one.trees] != nil {
			continue
		}
		d, err := c.reader.Compare(ctx, one.trees)
		if err != nil {
			return err
		}
		files[one.trees], differ = d, append(differ, one)
	}
	pairs := map[[2]gitstore.Hash]*treePair{}
	for _, one := range differ {
		pair, err := c.readPair(ctx, one, files[one.trees], upgraded[one.trees])
		if err != nil {
			return err
		}
		pairs[one.trees] = pair
	}
	c.out.Notes = append(c.out.Notes, c.reader.Notes()...)
	return c.setTargets(pairs)
}

// readPair reads the objects of a pair of trees. Notes name the first target that has them.
func (c *run) readPair(ctx context.Context, one *candidate, d *objects.Difference, same bool) (*treePair, error) {
	out := &treePair{unchanged: len(d.Same), apps: map[string]*appPair{}}
	var err error
	if out.before, err = c.reader.Read(ctx, one.cluster, one.app, d.Before); err != nil {
		return nil, err
	}
	if out.after, err = c.reader.Read(ctx, one.cluster, one.app, d.After); err != nil {
		return nil, err
	}
	if same {
		out.same, err = c.reader.Read(ctx, one.cluster, one.app, d.Same)
	}
	return out, err
}

// setTargets sets the targets of the result.
func (c *run) setTargets(pairs map[[2]gitstore.Hash]*treePair) error {
	for _, one := range c.list {
		pair := pairs[one.trees]
		if !one.compared() || pair == nil {
			continue
		}
		t, shared := one.target(), pair.of(one.app)
		out := Target{
			Target: t, Old: one.sides[0], Environment: t.Cluster.Environment, Unchanged: pair.unchanged, Gone: one.sides[1] == nil,
			Before: shared.before, After: shared.after, shared: shared,
		}
		if one.upgraded {
			out.Same = shared.same
		}
		var err error
		if out.Namespace, err = namespaceOf(c, one); err != nil {
			return err
		}
		c.out.Targets = append(c.out.Targets, out)
	}
	return nil
}

// namespaceOf returns the namespace of a candidate's app on its cluster; "" if the fleet is not known that has the app.
func namespaceOf(c *run, one *candidate) (string, error) {
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

// inApp returns the objects with file names below the app's folder.
func inApp(app string, list []Object) []Object {
	out := slices.Clone(list)
	for i := range out {
		out[i].File = path.Join(fleet.AppDir(app), out[i].File)
	}
	return out
}

// changes returns the change set.
func (c *run) changes() {
	c.h.Progress("compare", 0, 0)
	head := c.views[1].Fleet
	targets := make([]diff.Target, 0, len(c.out.Targets))
	for i := range c.out.Targets {
		t := &c.out.Targets[i]
		one := diff.Target{
			App: t.Target.App.Name, Cluster: t.Target.Cluster.Name, Environment: t.Environment, Sync: diff.Sync(head.SyncOf(t.Environment)),
			Before: t.shared.plain[0], After: t.shared.plain[1], Unchanged: t.Unchanged, Keeps: c.keeps(t), Force: forces(head, t),
			Facts: func() []diff.Fact { return factsOf(head, t.Target) },
		}
		targets = append(targets, one)
	}
	var withheld []diff.Withheld
	for _, one := range c.list {
		for i, err := range one.failed {
			if err == nil || i == 0 && one.failed[1] != nil {
				continue
			}
			f := hydrate.NewFailure(one.target().Cluster.Environment, one.target(), err)
			withheld = append(withheld, diff.Withheld{
				App: f.App, Cluster: f.Cluster, Environment: f.Environment, File: f.File, Line: f.Line, Column: f.Column,
				Message: c.out.Mask.Text(f.Message), Before: i == 0,
			})
		}
	}
	var environments []string
	for _, e := range head.Spec.Environments {
		environments = append(environments, e.Name)
	}
	c.out.Changes = diff.Compare(targets, withheld, environments, newPlacements(c.views))
	c.out.Changes.Unread = fleet.Unread(c.views[1].Fleet)
	c.out.Changes.Compared = len(c.list) - len(withheld)
}

// factsOf returns the values of a target's cluster that the files of its app refer to; nil if the fleet does not have the app.
func factsOf(f *fleet.Fleet, t fleet.Target) []diff.Fact {
	if _, ok := f.App(t.App.Name); !ok {
		return nil
	}
	list := f.Facts(t)
	out := make([]diff.Fact, len(list))
	for i, one := range list {
		out[i] = diff.Fact(one)
	}
	return out
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

// forces reports whether the Kustomization of an imported target has spec.force. As in keeps, it counts where the tool's own objects decide.
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

// placements counts the clusters that have an app on either side. It implements diff.Fleet.
type placements struct {
	views [2]*source.View
	known map[[2]string]int // app, environment
}

func newPlacements(views [2]*source.View) *placements {
	return &placements{views: views, known: map[[2]string]int{}}
}

// Placed returns the number of clusters of an environment that have an app.
func (p *placements) Placed(app, environment string) int {
	key := [2]string{app, environment}
	if n, ok := p.known[key]; ok {
		return n
	}
	names := map[string]bool{}
	for _, v := range p.views {
		if v == nil {
			continue
		}
		a, ok := v.Fleet.App(app)
		if !ok {
			continue
		}
		for _, c := range v.Fleet.ClustersOf(environment) {
			if c.State != "retired" && v.Fleet.Places(a, c) {
				names[c.Name] = true
			}
		}
	}
	p.known[key] = len(names)
	return len(names)
}
