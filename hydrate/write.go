package hydrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// written is an environment as it will be: its tree, and what became of its parts.
type written struct {
	tree     gitstore.Hash
	clusters map[string]gitstore.Hash // all clusters of the environment → subtree
	moved    []string                 // clusters whose subtree is another than before
	objects  int
	added    int
	changed  int
	removed  int
}

const crdPrefix = "customresourcedefinition-"

// render renders what a plan asks for and builds the environment's tree. Failures are in the plan; the tree is only
// built if there are none.
func (h *Hydrator) render(ctx context.Context, p *environmentPlan, source string, w *gitstore.Writer) (*written, int, error) {
	outcomes, err := h.renderJobs(ctx, p, p.jobs(), w)
	if err != nil {
		return nil, 0, err
	}
	scopes, err := h.scopes(ctx, p, outcomes)
	if err != nil {
		return nil, 0, err
	}
	if changed := p.state.Kinds.Differing(scopes); len(changed) > 0 {
		more, err := h.rescoped(ctx, p, changed, w)
		if err != nil {
			return nil, 0, err
		}
		outcomes = append(outcomes, more...)
	}
	settle(w, outcomes, scopes)
	p.noteUnknown(outcomes, scopes)
	p.failures = append(p.failures, failures(p.name, outcomes)...)
	if len(p.failures) > 0 {
		return nil, len(outcomes), nil
	}
	out, err := h.build(ctx, p, outcomes, scopes, source, w)
	return out, len(outcomes), err
}

func (p *environmentPlan) noteUnknown(outcomes []*outcome, scopes branch.Kinds) {
	for _, o := range outcomes {
		if o.result == nil {
			continue
		}
		for _, kind := range o.result.assumes {
			if scopes[branch.ParseKind(kind)] == manifest.ScopeUnknown {
				p.unknown[fmt.Sprintf("no CustomResourceDefinition in %s defines %s: it is taken as namespaced", p.name, kind)] = true
			}
		}
	}
}

func (p *environmentPlan) jobs() []job {
	var out []job
	for _, name := range slices.Sorted(maps.Keys(p.clusters)) {
		out = append(out, p.clusters[name].jobs...)
	}
	// By app: neighbours share their chart.
	slices.SortStableFunc(out, func(a, b job) int { return strings.Compare(a.target.App.Name, b.target.App.Name) })
	return out
}

// scopes are the custom kinds that the environment defines once the outcomes are in place. What the branch recorded is
// taken over; only if a definition goes or changes is the whole branch looked through.
func (h *Hydrator) scopes(ctx context.Context, p *environmentPlan, outcomes []*outcome) (branch.Kinds, error) {
	out := maps.Clone(p.state.Kinds)
	stale := len(p.left) > 0
	for _, c := range p.clusters {
		stale = stale || len(c.removed) > 0
	}
	for _, o := range outcomes {
		if o.err != nil {
			continue
		}
		was, err := h.definitions(ctx, o.job.old)
		if err != nil {
			return nil, err
		}
		now := o.defines()
		for kind, scope := range was {
			stale = stale || now[kind] != scope
		}
		maps.Copy(out, now)
	}
	if !stale || len(p.state.Kinds) == 0 {
		return out, nil
	}
	return h.rescan(ctx, p, outcomes)
}

func (o *outcome) defines() map[manifest.GroupKind]manifest.Scope {
	if o.result != nil {
		return o.result.defines
	}
	out := map[manifest.GroupKind]manifest.Scope{}
	if o.work != nil {
		for _, object := range o.work.objects {
			if object.Defines != nil {
				out[object.Defines.Kind] = object.Defines.Scope
			}
		}
	}
	return out
}

// definitions reads the CustomResourceDefinitions of a target's tree, which their file names tell.
func (h *Hydrator) definitions(ctx context.Context, tree gitstore.Hash) (branch.Kinds, error) {
	out := branch.Kinds{}
	if tree.IsZero() {
		return out, nil
	}
	entries, err := h.store.Tree(ctx, tree)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name, crdPrefix) {
			continue
		}
		data, err := h.store.Blob(ctx, e.Hash)
		if err != nil {
			return nil, err
		}
		objects, err := manifest.Decode(data, manifest.DefaultBudget())
		if err != nil {
			continue
		}
		for _, o := range objects {
			if kind, scope, ok := manifest.CRDScope(o); ok {
				out[kind] = scope
			}
		}
	}
	return out, nil
}

// rescan collects the definitions of all targets that stay, and of those rendered now.
func (h *Hydrator) rescan(ctx context.Context, p *environmentPlan, outcomes []*outcome) (branch.Kinds, error) {
	out := branch.Kinds{}
	seen := map[gitstore.Hash]bool{}
	gone := map[[2]string]bool{}
	for _, o := range outcomes {
		gone[[2]string{o.job.target.Cluster.Name, o.job.target.App.Name}] = true
		if o.err == nil {
			maps.Copy(out, o.defines())
		}
	}
	for name, c := range p.clusters {
		for _, app := range c.removed {
			gone[[2]string{name, app}] = true
		}
	}
	for name, tree := range p.state.Clusters {
		if slices.Contains(p.left, name) {
			continue
		}
		apps, err := h.store.Tree(ctx, tree)
		if err != nil {
			return nil, err
		}
		for _, app := range apps {
			if gone[[2]string{name, app.Name}] || seen[app.Hash] {
				continue
			}
			seen[app.Hash] = true
			defined, err := h.definitions(ctx, app.Hash)
			if err != nil {
				return nil, err
			}
			maps.Copy(out, defined)
		}
	}
	return out, nil
}

// rescoped renders again what was taken from the branch but has objects of kinds whose scope is another now.
func (h *Hydrator) rescoped(ctx context.Context, p *environmentPlan, changed map[string]bool, w *gitstore.Writer) ([]*outcome, error) {
	var jobs []job
	for _, c := range p.view.fleet.ClustersOf(p.name) {
		tree := p.state.Clusters[c.Name]
		if tree.IsZero() || c.State != "active" {
			continue
		}
		in, err := branch.ReadInputs(ctx, h.store, p.state.Inputs[c.Name])
		if err != nil {
			return nil, err
		}
		for app, uses := range in.Scopes {
			if !slices.ContainsFunc(uses, func(kind string) bool { return changed[kind] }) {
				continue
			}
			j, ok := h.rescopedJob(ctx, p, c, tree, app, in)
			if ok {
				jobs = append(jobs, j)
			}
		}
	}
	return h.renderJobs(ctx, p, jobs, w)
}

// rescopedJob makes a kept target a job; it is not ok for one that is rendered anyway or gone.
func (h *Hydrator) rescopedJob(ctx context.Context, p *environmentPlan, c *fleet.Cluster, tree gitstore.Hash, name string, in branch.Inputs) (job, bool) {
	app, ok := p.view.fleet.App(name)
	if !ok || !p.view.fleet.Places(app, c) {
		return job{}, false
	}
	entry, err := h.store.Snapshot(ctx, tree).Entry(name)
	if err != nil {
		return job{}, false
	}
	plan := p.clusters[c.Name]
	if plan == nil {
		plan = &clusterPlan{cluster: c, inputs: in, keep: maps.Clone(in.Apps)}
		p.clusters[c.Name] = plan
	}
	digest, kept := plan.keep[name]
	if !kept {
		return job{}, false
	}
	delete(plan.keep, name)
	return job{target: fleet.Target{App: app, Cluster: c}, digest: digest, old: entry.Hash}, true
}

// build puts the trees of targets together to those of clusters and of the environment.
func (h *Hydrator) build(ctx context.Context, p *environmentPlan, outcomes []*outcome, scopes branch.Kinds, source string, w *gitstore.Writer) (*written, error) {
	b := &builder{h: h, ctx: ctx, plan: p, w: w, out: &written{clusters: maps.Clone(p.state.Clusters)}, inputs: maps.Clone(p.state.Inputs)}
	byCluster := map[string][]*outcome{}
	for _, o := range outcomes {
		name := o.job.target.Cluster.Name
		byCluster[name] = append(byCluster[name], o)
	}
	for _, name := range slices.Sorted(maps.Keys(p.clusters)) {
		if err := b.cluster(p.clusters[name], byCluster[name]); err != nil {
			return nil, err
		}
	}
	for _, name := range p.left {
		if err := b.count(p.state.Clusters[name], gitstore.Hash{}); err != nil {
			return nil, err
		}
		delete(b.out.clusters, name)
		delete(b.inputs, name)
	}
	if err := b.root(scopes, source); err != nil {
		return nil, err
	}
	return b.out, nil
}

type builder struct {
	h      *Hydrator
	ctx    context.Context //nolint:containedctx // one build
	plan   *environmentPlan
	w      *gitstore.Writer
	out    *written
	inputs map[string]gitstore.Hash
}

func (b *builder) cluster(c *clusterPlan, outcomes []*outcome) error {
	name := c.cluster.Name
	old := b.plan.state.Clusters[name]
	var before []gitstore.Entry
	if !old.IsZero() {
		var err error
		if before, err = b.h.store.Tree(b.ctx, old); err != nil {
			return err
		}
	}
	apps := map[string]gitstore.Entry{}
	in := branch.NewInputs()
	for _, e := range before {
		if digest, ok := c.keep[e.Name]; ok {
			apps[e.Name] = e
			in.Apps[e.Name], in.Scopes[e.Name] = digest, c.inputs.Scopes[e.Name]
		}
	}
	for _, o := range outcomes {
		app := o.job.target.App.Name
		apps[app] = gitstore.Entry{Name: app, Mode: gitstore.ModeTree, Hash: o.result.tree}
		in.Apps[app], in.Scopes[app] = o.job.digest, o.result.assumes
	}
	tree, err := b.w.Tree(slices.Collect(maps.Values(apps)))
	if err != nil {
		return err
	}
	if err := b.count(old, tree); err != nil {
		return err
	}
	b.out.clusters[name] = tree
	if tree != old {
		b.out.moved = append(b.out.moved, name)
	}
	data, err := in.Encode()
	if err != nil {
		return err
	}
	b.inputs[name], err = b.w.Blob(data)
	return err
}

// count compares two trees of objects, file by file.
func (b *builder) count(old, tree gitstore.Hash) error {
	if old == tree {
		return nil
	}
	changes, err := b.h.store.Changes(b.ctx, old, tree)
	if err != nil {
		return err
	}
	for _, c := range changes {
		switch {
		case c.Old.Hash.IsZero():
			b.out.added++
		case c.New.Hash.IsZero():
			b.out.removed++
		default:
			b.out.changed++
		}
	}
	return nil
}

// recount counts all objects of the environment.
func (b *builder) recount() error {
	b.out.objects = 0
	for _, cluster := range b.out.clusters {
		apps, err := b.h.store.Tree(b.ctx, cluster)
		if err != nil {
			return err
		}
		for _, app := range apps {
			files, err := b.h.store.Tree(b.ctx, app.Hash)
			if err != nil {
				return err
			}
			b.out.objects += len(files)
		}
	}
	return nil
}

// root writes the environment's tree with its record.
func (b *builder) root(scopes branch.Kinds, source string) error {
	b.out.objects = b.plan.state.Record.Objects + b.out.added - b.out.removed
	if b.plan.state.Foreign != "" { // the record is not Sluice's
		if err := b.recount(); err != nil {
			return err
		}
	}
	root := branch.Root{
		Record: branch.Record{Environment: b.plan.name, Source: source, Renderer: Epoch, Objects: b.out.objects},
		Kinds:  scopes, Clusters: b.out.clusters, Inputs: b.inputs,
	}
	var err error
	if b.out.tree, err = b.h.writeRoot(b.ctx, root, b.w); err != nil {
		return fmt.Errorf("environment %s: %w", b.plan.name, err)
	}
	return nil
}
