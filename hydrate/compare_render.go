package hydrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// render gives every candidate its trees: those that a branch holds under the same digest, the others rendered.
func (c *comparison) render(ctx context.Context) error {
	read := map[string]branch.Inputs{}
	for _, one := range c.list {
		if err := c.plan(ctx, one, read); err != nil {
			return err
		}
	}
	for i, sides := range c.sides {
		for _, environment := range slices.Sorted(maps.Keys(sides)) {
			if err := c.renderSide(ctx, i, sides[environment]); err != nil {
				return fmt.Errorf("environment %s: %w", environment, err)
			}
		}
	}
	return nil
}

// plan computes a candidate's digests. Equal ones need no look at what they give.
func (c *comparison) plan(ctx context.Context, one *candidate, read map[string]branch.Inputs) error {
	targets := [2]*fleet.Target{one.before, one.after}
	var digests [2]string
	for i, t := range targets {
		if t == nil || c.views[i] == nil {
			continue
		}
		d, err := c.views[i].digest(*t)
		if err != nil {
			one.failed[i] = err.Error()
			continue
		}
		digests[i] = d
	}
	if digests[0] != "" && digests[0] == digests[1] && one.before.Cluster.Environment == one.after.Cluster.Environment && !one.anew {
		one.skip = true
		return nil
	}
	for i, t := range targets {
		if digests[i] == "" {
			continue
		}
		st, err := c.state(ctx, t.Cluster.Environment)
		if err != nil {
			return err
		}
		side := c.side(i, t.Cluster.Environment, st)
		held, err := c.held(ctx, st, t, digests[i], read)
		if err != nil {
			return err
		}
		if i == 1 && c.request.Against == AgainstBranches && !held.IsZero() && held == one.trees[0] {
			one.skip = true
			return nil
		}
		if !held.IsZero() {
			one.trees[i] = held
			continue
		}
		side.jobs = append(side.jobs, job{target: *t, digest: digests[i], old: one.trees[0]})
		side.owner[[2]string{t.Cluster.Name, t.App.Name}] = one
	}
	return nil
}

// side is one side of one environment, with a plan whose state tells what custom kinds there are.
func (c *comparison) side(i int, environment string, st *branch.State) *comparedSide {
	side, ok := c.sides[i][environment]
	if !ok {
		p := &environmentPlan{name: environment, view: c.views[i], state: st, clusters: map[string]*clusterPlan{}, unknown: map[string]bool{}}
		side = &comparedSide{plan: p, owner: map[[2]string]*candidate{}}
		c.sides[i][environment] = side
	}
	return side
}

// held is the tree that a branch holds for a digest; zero if it has another, or if somebody else wrote to it. A digest is looked for
// on one cluster: if that does not have it, it is rendered, once for all that share it, which costs less than to ask them all.
func (c *comparison) held(ctx context.Context, st *branch.State, t *fleet.Target, digest string, read map[string]branch.Inputs) (gitstore.Hash, error) {
	if tree, known := c.trees[digest]; known {
		return tree, nil
	}
	tree, err := c.heldBy(ctx, st, t, digest, read)
	c.trees[digest] = tree
	return tree, err
}

func (c *comparison) heldBy(ctx context.Context, st *branch.State, t *fleet.Target, digest string, read map[string]branch.Inputs) (gitstore.Hash, error) {
	if !st.Exists() || st.Foreign != "" || st.Record.Renderer != Epoch {
		return gitstore.Hash{}, nil
	}
	tree := st.Clusters[t.Cluster.Name]
	if tree.IsZero() {
		return tree, nil
	}
	key := st.Branch + "\x00" + t.Cluster.Name
	in, ok := read[key]
	if !ok {
		var err error
		if in, err = branch.ReadInputs(ctx, c.h.store, st.Inputs[t.Cluster.Name]); err != nil {
			return gitstore.Hash{}, err
		}
		read[key] = in
	}
	if in.Apps[t.App.Name] != digest {
		return gitstore.Hash{}, nil
	}
	entries, err := c.h.store.Tree(ctx, tree)
	if err != nil {
		return gitstore.Hash{}, err
	}
	i := slices.IndexFunc(entries, func(e gitstore.Entry) bool { return e.Name == t.App.Name })
	if i < 0 {
		return gitstore.Hash{}, nil
	}
	return entries[i].Hash, nil
}

func (c *comparison) renderSide(ctx context.Context, i int, side *comparedSide) error {
	slices.SortStableFunc(side.jobs, func(a, b job) int { return cmp.Compare(a.target.App.Name, b.target.App.Name) })
	outcomes, err := c.h.renderJobs(ctx, side.plan, side.jobs, c.writer)
	if err != nil {
		return err
	}
	scopes, err := c.h.scopes(ctx, side.plan, outcomes)
	if err != nil {
		return err
	}
	settle(c.writer, outcomes, scopes)
	side.plan.noteUnknown(outcomes, scopes)
	if i == 1 {
		c.out.Notes = append(c.out.Notes, side.plan.unknownKinds()...)
	}
	side.outcomes = outcomes
	c.out.Rendered += len(outcomes)
	for _, o := range outcomes {
		one := side.owner[[2]string{o.job.target.Cluster.Name, o.job.target.App.Name}]
		if o.err != nil {
			one.failed[i] = o.err.Error()
			continue
		}
		one.trees[i] = o.result.tree
	}
	return nil
}

// entryKey is a file of a target's tree.
type file struct {
	name string
	hash gitstore.Hash
}

// treePair is what two trees do not have in common, read once for all targets that have them.
type treePair struct {
	before, after, same []ComparedObject
	unchanged           int
}

// differingFiles are the files that only one of two trees has, and those that both have if somebody wants them.
type differingFiles struct {
	before, after, same []file
	anew                bool
}

// objects reads what differs. Secrets are learned from all files of the trees first, and everything is masked before it is
// given to anybody.
func (c *comparison) objects(ctx context.Context) error {
	c.reader = &objectReader{c: c, blobs: map[gitstore.Hash]*diff.Object{}, learned: map[gitstore.Hash]bool{}}
	files := map[[2]gitstore.Hash]*differingFiles{}
	for _, one := range c.list {
		if one.skip || one.withheld() || one.trees[0] == one.trees[1] && !one.anew {
			continue
		}
		if d, ok := files[one.trees]; ok {
			d.anew = d.anew || one.anew
			continue
		}
		d, err := c.reader.differing(ctx, one.trees)
		if err != nil {
			return err
		}
		d.anew = one.anew
		files[one.trees] = d
	}
	known := map[[2]gitstore.Hash]*treePair{}
	for trees, d := range files { // all secrets are learned by now
		pair := &treePair{unchanged: len(d.same)}
		if !d.anew {
			d.same = nil
		}
		for _, list := range []struct {
			files []file
			into  *[]ComparedObject
		}{{d.before, &pair.before}, {d.after, &pair.after}, {d.same, &pair.same}} {
			var err error
			if *list.into, err = c.reader.read(ctx, list.files); err != nil {
				return err
			}
		}
		known[trees] = pair
	}
	return c.targets(known)
}

// targets gives every target what its trees do not have in common.
func (c *comparison) targets(known map[[2]gitstore.Hash]*treePair) error {
	for _, one := range c.list {
		pair := known[one.trees]
		if one.skip || one.withheld() || pair == nil {
			continue
		}
		t := one.target()
		out := ComparedTarget{
			Target: t, Old: one.before, Environment: t.Cluster.Environment, Unchanged: pair.unchanged, Gone: one.after == nil,
			Before: inApp(one.app, pair.before), After: inApp(one.app, pair.after),
		}
		if one.anew {
			out.Same = inApp(one.app, pair.same)
		}
		view := c.views[1]
		if one.after == nil {
			view = c.views[0]
		}
		if view != nil && t.App.File != "" {
			resolved, err := view.fleet.Resolve(t)
			if err != nil {
				return err
			}
			out.Namespace = resolved.Namespace
		}
		c.out.Targets = append(c.out.Targets, out)
	}
	return nil
}

// inApp names the files as the branch has them. Objects of one tree under several apps' names are rare; the list is shared else.
func inApp(app string, objects []ComparedObject) []ComparedObject {
	out := slices.Clone(objects)
	for i := range out {
		out[i].File = path.Join(app, out[i].File)
	}
	return out
}

func (one *candidate) withheld() bool { return one.failed[0] != "" || one.failed[1] != "" }

func (one *candidate) target() fleet.Target {
	if one.after != nil {
		return *one.after
	}
	return *one.before
}

type objectReader struct {
	c       *comparison
	blobs   map[gitstore.Hash]*diff.Object // masked
	learned map[gitstore.Hash]bool
}

// differing lists the files of two trees, those that are not in both apart, and learns from the Secrets among all of them.
func (r *objectReader) differing(ctx context.Context, trees [2]gitstore.Hash) (*differingFiles, error) {
	var lists [2][]gitstore.Entry
	for i, tree := range trees {
		if tree.IsZero() {
			continue
		}
		var err error
		if lists[i], err = r.c.h.store.Tree(ctx, tree); err != nil {
			return nil, err
		}
		for _, e := range lists[i] {
			if err := r.learn(ctx, e); err != nil {
				return nil, err
			}
		}
	}
	out := &differingFiles{}
	for i, list := range [][]gitstore.Entry{lists[0], lists[1]} {
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

// learn takes in a Secret, which its file's name tells.
func (r *objectReader) learn(ctx context.Context, e gitstore.Entry) error {
	if !strings.Contains(e.Name, "secret-") || r.learned[e.Hash] {
		return nil
	}
	r.learned[e.Hash] = true
	data, err := r.c.h.store.Blob(ctx, e.Hash)
	if err != nil {
		return err
	}
	objects, err := manifest.Decode(data, manifest.DefaultBudget())
	if err != nil {
		return nil //nolint:nilerr // somebody else's file: it is read, and named, below if it differs
	}
	for _, o := range objects {
		r.c.out.Mask.Learn(o)
	}
	return nil
}

func (r *objectReader) read(ctx context.Context, files []file) ([]ComparedObject, error) {
	out := make([]ComparedObject, 0, len(files))
	for _, f := range files {
		o, ok := r.blobs[f.hash]
		if !ok {
			data, err := r.c.h.store.Blob(ctx, f.hash)
			if err != nil {
				return nil, err
			}
			objects, err := manifest.Decode(data, manifest.DefaultBudget())
			if err == nil && len(objects) == 1 {
				o = &diff.Object{Key: f.hash.String(), Object: r.c.out.Mask.Mask(objects[0])}
			} else {
				r.c.out.Notes = append(r.c.out.Notes, fmt.Sprintf("%s on the branch is not a file of Sluice's: it is left out", f.name))
			}
			r.blobs[f.hash] = o
		}
		if o != nil {
			out = append(out, ComparedObject{Object: *o, File: f.name})
		}
	}
	return out, nil
}

// compare makes the change set.
func (c *comparison) compare() {
	c.h.Progress("compare", 0, 0)
	targets := make([]diff.Target, 0, len(c.out.Targets))
	for i := range c.out.Targets {
		t := &c.out.Targets[i]
		one := diff.Target{
			App: t.Target.App.Name, Cluster: t.Target.Cluster.Name, Environment: t.Environment,
			Before: plainObjects(t.Before), After: plainObjects(t.After), Unchanged: t.Unchanged,
		}
		if _, ok := c.views[1].fleet.App(one.App); ok {
			for _, f := range c.views[1].fleet.Facts(t.Target) {
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
	for _, e := range c.views[1].fleet.Spec.Environments {
		environments = append(environments, e.Name)
	}
	c.out.Changes = diff.Compare(targets, withheld, environments, newPlaced(c.views))
	c.out.Changes.Compared = len(c.list)
}

func plainObjects(list []ComparedObject) []diff.Object {
	out := make([]diff.Object, len(list))
	for i := range list {
		out[i] = list[i].Object
	}
	return out
}

// placed counts the clusters that have an app on either side.
type placed struct {
	views [2]*view
	known map[[2]string]int
}

func newPlaced(views [2]*view) *placed { return &placed{views: views, known: map[[2]string]int{}} }

// Placed implements diff.Fleet.
func (p *placed) Placed(app, environment string) int {
	key := [2]string{app, environment}
	if n, ok := p.known[key]; ok {
		return n
	}
	names := map[string]bool{}
	for _, v := range p.views {
		if v == nil {
			continue
		}
		a, ok := v.fleet.App(app)
		if !ok {
			continue
		}
		for _, c := range v.fleet.ClustersOf(environment) {
			if c.State != "retired" && v.fleet.Places(a, c) {
				names[c.Name] = true
			}
		}
	}
	p.known[key] = len(names)
	return len(names)
}
