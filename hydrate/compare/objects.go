package compare

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// file is a file of a target's tree.
type file struct {
	name string
	hash gitstore.Hash
}

// treePair holds the objects that differ between two trees. It is read once for all targets with these trees.
type treePair struct {
	before, after, same []Object
	unchanged           int
}

// differingFiles are the files of two trees that only one of them has, and those that both have.
type differingFiles struct {
	before, after, same []file
	readSame            bool
}

// readObjects reads what differs. It learns the secrets of all trees before it masks and returns any object.
func (c *run) readObjects(ctx context.Context) error {
	c.reader = &objectReader{store: c.h.Store, out: c.out, blobs: map[gitstore.Hash]*diff.Object{}, learned: map[gitstore.Hash]bool{}}
	files := map[[2]gitstore.Hash]*differingFiles{}
	for _, one := range c.list {
		if !one.compared() || one.trees[0] == one.trees[1] && !one.upgraded {
			continue
		}
		if d, ok := files[one.trees]; ok {
			d.readSame = d.readSame || one.upgraded
			continue
		}
		d, err := c.reader.differing(ctx, one.trees)
		if err != nil {
			return err
		}
		d.readSame = one.upgraded
		files[one.trees] = d
	}
	pairs := map[[2]gitstore.Hash]*treePair{}
	for trees, d := range files {
		pair, err := c.reader.readPair(ctx, d)
		if err != nil {
			return err
		}
		pairs[trees] = pair
	}
	return c.setTargets(pairs)
}

// setTargets makes the targets of the result.
func (c *run) setTargets(pairs map[[2]gitstore.Hash]*treePair) error {
	for _, one := range c.list {
		pair := pairs[one.trees]
		if !one.compared() || pair == nil {
			continue
		}
		t := one.target()
		out := Target{
			Target: t, Old: one.sides[0], Environment: t.Cluster.Environment, Unchanged: pair.unchanged, Gone: one.sides[1] == nil,
			Before: inApp(one.app, pair.before), After: inApp(one.app, pair.after),
		}
		if one.upgraded {
			out.Same = inApp(one.app, pair.same)
		}
		view := c.views[1]
		if out.Gone {
			view = c.views[0]
		}
		if view != nil && t.App.File != "" {
			resolved, err := view.Fleet.Resolve(t)
			if err != nil {
				return err
			}
			out.Namespace = resolved.Namespace
		}
		c.out.Targets = append(c.out.Targets, out)
	}
	return nil
}

// inApp returns the objects with their files below the app's folder.
func inApp(app string, objects []Object) []Object {
	out := slices.Clone(objects)
	for i := range out {
		out[i].File = path.Join(app, out[i].File)
	}
	return out
}

// objectReader reads objects by blob, once each, and masks them.
type objectReader struct {
	store   *gitstore.Store
	out     *Comparison
	blobs   map[gitstore.Hash]*diff.Object // masked; nil for a file that Sluice did not write
	learned map[gitstore.Hash]bool
}

// differing compares the files of two trees by content, and learns the Secrets of both.
func (r *objectReader) differing(ctx context.Context, trees [2]gitstore.Hash) (*differingFiles, error) {
	var lists [2][]gitstore.Entry
	for i, tree := range trees {
		if tree.IsZero() {
			continue
		}
		var err error
		if lists[i], err = r.store.Tree(ctx, tree); err != nil {
			return nil, err
		}
		for _, e := range lists[i] {
			if err := r.learn(ctx, e); err != nil {
				return nil, err
			}
		}
	}
	out := &differingFiles{}
	for i, list := range lists {
		have := map[gitstore.Hash]int{}
		for _, e := range lists[1-i] {
			have[e.Hash]++
		}
		for _, e := range list {
			f := file{e.Name, e.Hash}
			switch {
			case have[e.Hash] > 0:
				have[e.Hash]--
				if i == 1 {
					out.same = append(out.same, f)
				}
			case i == 0:
				out.before = append(out.before, f)
			default:
				out.after = append(out.after, f)
			}
		}
	}
	return out, nil
}

func (r *objectReader) readPair(ctx context.Context, d *differingFiles) (*treePair, error) {
	out := &treePair{unchanged: len(d.same)}
	var err error
	if out.before, err = r.read(ctx, d.before); err != nil {
		return nil, err
	}
	if out.after, err = r.read(ctx, d.after); err != nil {
		return nil, err
	}
	if d.readSame {
		out.same, err = r.read(ctx, d.same)
	}
	return out, err
}

// learn tells the masker the values of a Secret, which it finds by file name.
func (r *objectReader) learn(ctx context.Context, e gitstore.Entry) error {
	if !strings.Contains(e.Name, "secret-") || r.learned[e.Hash] {
		return nil
	}
	r.learned[e.Hash] = true
	data, err := r.store.Blob(ctx, e.Hash)
	if err != nil {
		return err
	}
	objects, err := manifest.Decode(data, manifest.DefaultBudget())
	if err != nil {
		return nil //nolint:nilerr // Sluice did not write this file: read notes it if it differs
	}
	for _, o := range objects {
		r.out.Mask.Learn(o)
	}
	return nil
}

func (r *objectReader) read(ctx context.Context, files []file) ([]Object, error) {
	out := make([]Object, 0, len(files))
	for _, f := range files {
		o, ok := r.blobs[f.hash]
		if !ok {
			data, err := r.store.Blob(ctx, f.hash)
			if err != nil {
				return nil, err
			}
			objects, err := manifest.Decode(data, manifest.DefaultBudget())
			if err == nil && len(objects) == 1 {
				o = &diff.Object{Key: f.hash.String(), Object: r.out.Mask.Mask(objects[0])}
			} else {
				r.out.Notes = append(r.out.Notes, fmt.Sprintf("%s on the branch was not written by Sluice: it is not compared", f.name))
			}
			r.blobs[f.hash] = o
		}
		if o != nil {
			out = append(out, Object{Object: *o, File: f.name})
		}
	}
	return out, nil
}

// changes makes the change set.
func (c *run) changes() {
	c.h.Progress("compare", 0, 0)
	head := c.views[1].Fleet
	targets := make([]diff.Target, 0, len(c.out.Targets))
	for i := range c.out.Targets {
		t := &c.out.Targets[i]
		one := diff.Target{
			App: t.Target.App.Name, Cluster: t.Target.Cluster.Name, Environment: t.Environment, Sync: diff.Sync(head.SyncOf(t.Environment)),
			Before: plainObjects(t.Before), After: plainObjects(t.After), Unchanged: t.Unchanged,
		}
		if _, ok := head.App(one.App); ok {
			for _, f := range head.Facts(t.Target) {
				one.Facts = append(one.Facts, diff.Fact(f))
			}
		}
		targets = append(targets, one)
	}
	var withheld []diff.Withheld
	for _, one := range c.list {
		for i, message := range one.failed {
			if message == "" || i == 0 && one.failed[1] != "" {
				continue
			}
			withheld = append(withheld, diff.Withheld{
				App: one.app, Cluster: one.cluster, Environment: one.target().Cluster.Environment, Message: c.out.Mask.Text(message), Before: i == 0,
			})
		}
	}
	var environments []string
	for _, e := range head.Spec.Environments {
		environments = append(environments, e.Name)
	}
	c.out.Changes = diff.Compare(targets, withheld, environments, newPlacements(c.views))
	c.out.Changes.Compared = len(c.list)
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
