package hydrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/render"
	"github.com/sluice-gitops/sluice/rollout"
)

// written is the new tree of an environment.
type written struct {
	tree     gitstore.Hash
	clusters map[string]gitstore.Hash // every cluster of the environment → its subtree
	changed  []ChangedTarget          // rendered targets whose tree differs from the branch
	confined []ChangedTarget          // rendered targets of workspaces
	source   rollout.Source           // what the branch will record
	counts   ObjectCounts
	// removed objects by workspace; those of the fleet itself and of removed clusters have the name ""
	removed map[string]int
	// edits of the clusters that have fewer objects than before
	lost map[string]*branch.Edited
}

// execute renders the targets of a plan and writes the environment's tree. It returns the number of rendered targets.
// If targets fail, it adds their failures to the plan and writes no tree.
func (h *Hydrator) execute(ctx context.Context, p *environmentPlan, source string, w *gitstore.Writer) (*written, int,
	error,
) {
	outcomes, err := h.render(ctx, p.name, p.jobs(), w)
	if err != nil {
		return nil, 0, err
	}
	scopes, err := p.scopes(ctx, h.Store, outcomes)
	if err != nil {
		return nil, 0, err
	}
	if changed := p.state.Kinds.Differing(scopes); len(changed) > 0 {
		more, err := h.rescope(ctx, p, changed, w)
		if err != nil {
			return nil, 0, err
		}
		outcomes = append(outcomes, more...)
	}
	render.Complete(w, outcomes, scopes)
	p.addNotes(outcomes, scopes)
	p.failures = append(p.failures, failures(p.name, outcomes)...)
	if len(p.failures) > 0 {
		return nil, len(outcomes), nil
	}
	b := &builder{
		store: h.Store, plan: p, w: w, inputs: p.state.InputFiles(),
		out: &written{
			clusters: maps.Clone(p.state.Clusters), removed: map[string]int{},
			lost: map[string]*branch.Edited{},
		},
	}
	b.edits = branch.NewEdits(h.Store, w, b.workspaceOf)
	if err := b.build(ctx, outcomes); err != nil {
		return nil, 0, err
	}
	if b.out.source, err = p.source(ctx, h.Store, source); err != nil {
		return nil, 0, fmt.Errorf("environment %s: %w", p.name, err)
	}
	root := branch.Root{
		Record: branch.RecordOf(p.name, b.out.source, Epoch, b.out.counts.Total),
		Kinds:  scopes, Clusters: b.out.clusters,
	}
	if err := b.inputs.Write(ctx, h.Store, w, &root); err != nil {
		return nil, 0, err
	}
	if b.out.tree, err = h.writeRoot(ctx, root, w); err != nil {
		return nil, 0, fmt.Errorf("environment %s: %w", p.name, err)
	}
	return b.out, len(outcomes), nil
}

// builder combines the trees of targets into trees of clusters.
type builder struct {
	store  *gitstore.Store
	plan   *environmentPlan
	w      *gitstore.Writer
	out    *written
	inputs *branch.InputFiles
	edits  *branch.Edits
}

func (b *builder) build(ctx context.Context, outcomes []*render.Outcome) error {
	byCluster := map[string][]*render.Outcome{}
	for _, o := range outcomes {
		name := o.Target.Cluster.Name
		byCluster[name] = append(byCluster[name], o)
	}
	for _, name := range slices.Sorted(maps.Keys(b.plan.clusters)) {
		if err := b.cluster(ctx, b.plan.clusters[name], byCluster[name]); err != nil {
			return err
		}
	}
	for _, name := range b.plan.left {
		e, err := branch.CountEdit(ctx, b.store, b.plan.state.Clusters[name], gitstore.Hash{},
			func(string) string { return "" })
		if err != nil {
			return err
		}
		b.add(name, e)
		delete(b.out.clusters, name)
		b.inputs.Remove(name)
	}
	return b.total(ctx)
}

// cluster writes the tree and the inputs of one cluster.
func (b *builder) cluster(ctx context.Context, c *clusterPlan, outcomes []*render.Outcome) error {
	name := c.cluster.Name
	old := b.plan.state.Clusters[name]
	apps := map[string]gitstore.Hash{}
	for _, app := range c.removed {
		apps[app] = gitstore.Hash{}
		if err := c.inputs.Remove(ctx, app); err != nil {
			return err
		}
	}
	for _, o := range outcomes {
		app := o.Target.App.Name
		apps[app] = o.Tree()
		if err := c.inputs.Set(ctx, app, o.Target.Digest, o.Assumes()); err != nil {
			return err
		}
		if o.Target.App.Workspace() != nil {
			b.out.confined = append(b.out.confined, ChangedTarget{Target: o.Target, New: o.Tree()})
		}
		if o.Tree() != o.Old {
			b.out.changed = append(b.out.changed, ChangedTarget{Target: o.Target, Old: o.Old, New: o.Tree()})
		}
	}
	var err error
	if old.IsZero() { // all files are new: reading the trees again took half of the time after the rendering
		for _, o := range outcomes {
			b.out.counts.Added += o.Files()
		}
		b.out.clusters[name], err = branch.EditApps(ctx, b.store, b.w, old, apps)
	} else {
		var e *branch.Edited
		if e, err = b.edits.Edit(ctx, old, apps); err == nil {
			b.add(name, e)
			b.out.clusters[name] = e.Tree
		}
	}
	if err != nil {
		return err
	}
	return b.inputs.Put(b.w, c.inputs)
}

// workspaceOf is the declared workspace that a file of a cluster belongs to; "" for a file of the fleet itself.
func (b *builder) workspaceOf(file string) string {
	rest, _ := strings.CutPrefix(file, fleet.WorkspacesDir+"/")
	name, _, _ := strings.Cut(rest, "/")
	if _, declared := b.plan.view.Fleet.Workspace(name); !declared || rest == file {
		return ""
	}
	return name
}

// add adds the edit of a cluster to the counts of the environment.
func (b *builder) add(cluster string, e *branch.Edited) {
	if e.Loss() > 0 {
		b.out.lost[cluster] = e
	}
	b.out.counts.Added += e.Added
	b.out.counts.Changed += e.Changed
	for workspace, n := range e.Removed {
		b.out.counts.Removed += n
		b.out.removed[workspace] += n
	}
}

// total sets the number of objects of the environment. It uses the recorded number, unless somebody else wrote the
// branch; then it counts all files.
func (b *builder) total(ctx context.Context) error {
	counts := &b.out.counts
	if b.plan.state.Foreign == "" {
		counts.Total = b.plan.state.Record.Objects + counts.Added - counts.Removed
		return nil
	}
	for _, cluster := range b.out.clusters {
		apps, err := branch.Apps(ctx, b.store, cluster)
		if err != nil {
			return err
		}
		for _, app := range apps {
			files, err := b.store.Tree(ctx, app.Hash)
			if err != nil {
				return err
			}
			counts.Total += len(files)
		}
	}
	return nil
}
