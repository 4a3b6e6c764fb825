package hydrate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/render"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/rollout"
)

// Composition describes an environment's tree whose apps may come from several source commits.
type Composition struct {
	Environment string
	Source      branch.Source              // what the tree should run
	Running     *branch.State              // what the branch holds. Apps that keep their source commit come from it
	Commits     map[string]gitstore.Commit // source commits that may be rendered, by id
	All         bool                       // render every target of the commits, even if Running has its digest
}

// Composed is the result of Compose.
type Composed struct {
	Tree    gitstore.Hash
	Failure string                   // why targets cannot be rendered; then there is no tree
	Parts   map[string]*branch.State // the trees of the environment at the source commits that were rendered, by id
}

// Compose writes the tree of a composition. It renders the apps whose source commit changes, and takes the others
// from the branch, on every cluster.
func (h *Hydrator) Compose(ctx context.Context, c Composition, w *gitstore.Writer) (Composed, error) {
	out := Composed{Parts: map[string]*branch.State{}}
	if err := c.Source.Validate(); err != nil {
		return out, fmt.Errorf("environment %s: %w", c.Environment, err)
	}
	keep := c.Running.Exists() && !c.All
	var running branch.Source
	if keep {
		running = c.Running.Source()
	}
	for _, commit := range changedCommits(running, c.Source) {
		part, why, err := h.renderCommit(ctx, c, commit, w)
		if err != nil || why != "" {
			return Composed{Failure: why}, err
		}
		out.Parts[commit] = part
	}
	base := out.Parts[c.Source.Commit]
	if base == nil {
		base = c.Running
	}
	if len(c.Source.Apps)+len(c.Source.Clusters) == 0 && base != c.Running {
		out.Tree = base.Tip.Tree
		return out, nil
	}
	of := func(cluster, app string) *branch.State {
		commit := c.Source.On(cluster).Of(app)
		if keep && commit == running.On(cluster).Of(app) {
			return c.Running
		}
		return out.Parts[commit]
	}
	var err error
	out.Tree, err = h.Assemble(ctx, Recipe{c.Environment, c.Source, base, running.Exceptions(), of}, w)
	return out, err
}

// changedCommits lists the commits of next that running does not have in the same place.
func changedCommits(running, next branch.Source) []string {
	set := map[string]bool{}
	compare := func(have, want rollout.ClusterSource) {
		if want.Commit != have.Commit {
			set[want.Commit] = true
		}
		for _, apps := range []map[string]string{have.Apps, want.Apps} {
			for app := range apps {
				if want.Of(app) != have.Of(app) {
					set[want.Of(app)] = true
				}
			}
		}
	}
	compare(rollout.ClusterSource{Commit: running.Commit, Apps: running.Apps},
		rollout.ClusterSource{Commit: next.Commit, Apps: next.Apps})
	for name := range next.Clusters {
		compare(running.On(name), next.On(name))
	}
	for name := range running.Clusters {
		compare(running.On(name), next.On(name))
	}
	return slices.Sorted(maps.Keys(set))
}

// renderCommit renders one source commit for an environment.
func (h *Hydrator) renderCommit(ctx context.Context, c Composition, id string, w *gitstore.Writer) (*branch.State,
	string, error,
) {
	commit, ok := c.Commits[id]
	if !ok {
		return nil, fmt.Sprintf("%.10s is not on the trunk", id), nil
	}
	v, err := h.Open(ctx, commit.Tree)
	if err != nil {
		return nil, fmt.Sprintf("the fleet of %.10s cannot be read: %v", id, err), ctx.Err()
	}
	held := elsewhere(v.Fleet, c.Source, id)
	for _, w := range v.Fleet.Workspaces {
		if w.Err != nil && held[w.Name] == nil {
			return nil, fmt.Sprintf("the workspace %s of %.10s cannot be read: %v", w.Name, id, w.Err), nil
		}
	}
	if _, ok := v.Fleet.Environment(c.Environment); !ok {
		return nil, fmt.Sprintf("%.10s has no environment %s", id, c.Environment), nil
	}
	done, err := h.RenderCommit(ctx, CommitRequest{
		Environment: c.Environment, Commit: commit, State: c.Running,
		All: c.All, held: held,
	}, w)
	if err != nil {
		return nil, "", err
	}
	if len(done.Failures) > 0 {
		return nil, fmt.Sprintf("%d of %d targets cannot be rendered: %s", len(done.Failures), done.Targets,
			done.Failures[0].Message), nil
	}
	st, err := branch.ReadTree(ctx, h.Store, done.Tree)
	return st, "", err
}

// CommitRequest describes an environment's tree at one source commit.
type CommitRequest struct {
	Environment string
	Commit      gitstore.Commit
	State       *branch.State // what the branch holds
	All         bool          // render every target, even if State has its digest

	held holds // workspaces that are not rendered
}

// CommitResult is the tree of an environment, or the failures that prevent it.
type CommitResult struct {
	Tree     gitstore.Hash
	Targets  int
	Failures []Failure
}

// RenderCommit writes the tree of an environment at one source commit into w. It moves no branch.
func (h *Hydrator) RenderCommit(ctx context.Context, r CommitRequest, w *gitstore.Writer) (*CommitResult, error) {
	v, err := h.Open(ctx, r.Commit.Tree)
	if err != nil {
		return nil, err
	}
	plan, err := h.plan(ctx, planRequest{
		view: v, environment: r.Environment, state: r.State, touched: &source.Touched{All: true}, all: r.All,
		held: r.held,
	})
	if err != nil {
		return nil, err
	}
	done, _, err := h.execute(ctx, plan, r.Commit.Hash.String(), w)
	if err != nil {
		return nil, err
	}
	out := &CommitResult{Targets: plan.total, Failures: plan.failures}
	if done != nil {
		out.Tree = done.tree
	}
	return out, nil
}

// Recipe lists the parts that Assemble combines.
type Recipe struct {
	Environment string
	Source      branch.Source // content of the new record
	Base        *branch.State // gives the list of clusters
	Apps        []string      // besides those of the other fields; Of tells which clusters have them
	// Of returns the trees and digests of an app on a cluster. With no app, it gives the state of the cluster's other
	// apps.
	Of func(cluster, app string) *branch.State
}

// Assemble writes an environment's tree from targets that are already rendered.
func (h *Hydrator) Assemble(ctx context.Context, r Recipe, w *gitstore.Writer) (gitstore.Hash, error) {
	root := branch.Root{Clusters: map[string]gitstore.Hash{}}
	files := branch.NewState("").InputFiles()
	objects := 0
	trees := map[gitstore.Hash]bool{} // trees of apps
	same := true                      // every part defines the same custom kinds as the base
	of := r.Of
	r.Of = func(cluster, app string) *branch.State {
		st := of(cluster, app)
		same = same && (st == r.Base || st != nil && len(st.Kinds.Differing(r.Base.Kinds)) == 0)
		return st
	}
	for _, cluster := range r.Base.ClusterNames() {
		apps, in, err := r.cluster(ctx, h.Store, cluster)
		if err != nil {
			return gitstore.Hash{}, err
		}
		for _, a := range apps {
			trees[a.Hash] = true
			files, err := h.Store.Tree(ctx, a.Hash)
			if err != nil {
				return gitstore.Hash{}, err
			}
			objects += len(files)
		}
		if root.Clusters[cluster], err = branch.WriteApps(w, apps); err != nil {
			return gitstore.Hash{}, err
		}
		if err := files.Put(w, in); err != nil {
			return gitstore.Hash{}, err
		}
	}
	if err := files.Write(ctx, h.Store, w, &root); err != nil {
		return gitstore.Hash{}, err
	}
	if err := r.Source.Validate(); err != nil { // a record without a commit would block every later promotion
		return gitstore.Hash{}, fmt.Errorf("environment %s: %w", r.Environment, err)
	}
	var err error
	if root.Kinds, err = r.kinds(ctx, h.Store, same, trees); err != nil {
		return gitstore.Hash{}, err
	}
	root.Record = branch.RecordOf(r.Environment, r.Source, Epoch, objects)
	return h.writeRoot(ctx, root, w)
}

// kinds returns the custom kinds that the environment defines. If every part defines the same kinds as the base, it
// returns those; otherwise it reads the definitions in the trees.
func (r *Recipe) kinds(ctx context.Context, store *gitstore.Store, same bool,
	trees map[gitstore.Hash]bool,
) (branch.Kinds, error) {
	if same {
		return r.Base.Kinds, nil
	}
	out := branch.Kinds{}
	for tree := range trees {
		defined, err := render.Definitions(ctx, store, tree)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, defined)
	}
	return out, nil
}

// clusterPart is what one state holds of a cluster.
type clusterPart struct {
	apps   map[string]gitstore.Entry
	inputs branch.Inputs
}

func readClusterPart(ctx context.Context, store *gitstore.Store, st *branch.State, cluster string) (clusterPart,
	error,
) {
	out := clusterPart{apps: map[string]gitstore.Entry{}, inputs: branch.NewInputs()}
	if st == nil {
		return out, nil
	}
	if tree := st.Clusters[cluster]; !tree.IsZero() {
		list, err := branch.Apps(ctx, store, tree)
		if err != nil {
			return out, err
		}
		for _, e := range list {
			out.apps[e.Name] = e
		}
	}
	var err error
	out.inputs, err = st.Recorded(store, cluster).All(ctx)
	return out, err
}

// cluster takes each app of a cluster, and its digest, from the state that Of names.
func (r *Recipe) cluster(ctx context.Context, store *gitstore.Store, cluster string) ([]gitstore.Entry,
	*branch.Recorded, error,
) {
	in := branch.NewState("").Recorded(store, cluster)
	parts := map[*branch.State]clusterPart{}
	names := map[string]bool{}
	load := func(st *branch.State) error {
		if _, ok := parts[st]; ok {
			return nil
		}
		part, err := readClusterPart(ctx, store, st, cluster)
		if err != nil {
			return err
		}
		parts[st] = part
		for name := range part.apps {
			names[name] = true
		}
		return nil
	}
	if err := load(r.Of(cluster, "")); err != nil {
		return nil, in, err
	}
	// the cluster's state need not have all of them
	apps := slices.Concat(slices.Sorted(maps.Keys(names)), slices.Sorted(maps.Keys(r.Source.On(cluster).Apps)), r.Apps)
	for _, app := range apps {
		if err := load(r.Of(cluster, app)); err != nil {
			return nil, in, err
		}
	}
	var out []gitstore.Entry
	for _, name := range slices.Sorted(maps.Keys(names)) {
		part := parts[r.Of(cluster, name)]
		e, ok := part.apps[name]
		if !ok {
			continue // this app's state does not have it on this cluster
		}
		out = append(out, e)
		if err := in.Set(ctx, name, part.inputs.Apps[name], part.inputs.Scopes[name]); err != nil {
			return nil, in, err
		}
	}
	return out, in, nil
}

// writeRoot writes an environment's tree, with hydrator.metadata if the fleet of its source commit asks for it.
func (h *Hydrator) writeRoot(ctx context.Context, root branch.Root, w *gitstore.Writer) (gitstore.Hash, error) {
	hash, err := gitstore.ParseHash(root.Record.Source)
	if err != nil {
		return gitstore.Hash{}, err
	}
	if root.Source, err = h.Store.Commit(ctx, hash); err != nil {
		return gitstore.Hash{}, fmt.Errorf("source commit %s: %w", hash.Short(), err)
	}
	v, err := h.Open(ctx, root.Source.Tree)
	if err != nil {
		return gitstore.Hash{}, err
	}
	root.MetadataURL = v.Fleet.Spec.Output.HydratorMetadata
	return root.Write(w)
}
