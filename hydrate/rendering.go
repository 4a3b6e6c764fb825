package hydrate

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// targetTree is the rendering of a target, written as a tree of files.
type targetTree struct {
	tree    gitstore.Hash
	objects int
	defines branch.Kinds // kinds that its own CustomResourceDefinitions define
	assumes []string     // custom kinds of objects without a namespace
	notes   []string     // merged copies and the like
}

// rendering is shared by all targets with equal bundles. once guards the other fields.
type rendering struct {
	once    sync.Once
	objects []renderer.Object // set while result is nil because the scopes of some custom kinds are unknown
	notes   []string          // notes of the renderer
	result  *targetTree
	err     error
	kept    int // bytes of objects; renderings.mu guards it
}

// Limits of the renderings that a Hydrator caches.
const (
	maxRenderings  = 65_536    // about 300 bytes each
	maxObjectBytes = 256 << 20 // total YAML that waits for the scopes of custom kinds
)

// renderings caches the latest renderings of one Hydrator by bundle.
type renderings struct {
	store *gitstore.Store

	mu       sync.Mutex
	byBundle *lru.Cache[string, *rendering]
	bytes    int // of cached objects
}

func newRenderings(store *gitstore.Store) *renderings {
	r := &renderings{store: store}
	var err error
	// The cache calls this function only while mu is held, so it may change bytes.
	if r.byBundle, err = lru.NewWithEvict(maxRenderings, func(_ string, old *rendering) { r.bytes -= old.kept }); err != nil {
		panic(err) // the size is a positive constant
	}
	return r
}

// keep adds the objects of a rendering to the total, and evicts the oldest renderings while the total exceeds the
// limit.
func (r *renderings) keep(key string, work *rendering) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byBundle.Peek(key); !ok || known != work {
		return
	}
	for _, o := range work.objects {
		work.kept += len(o.YAML)
	}
	r.bytes += work.kept
	for r.bytes > maxObjectBytes {
		if _, _, ok := r.byBundle.RemoveOldest(); !ok {
			return
		}
	}
}

func (r *renderings) get(key string) *rendering {
	r.mu.Lock()
	defer r.mu.Unlock()
	work, ok := r.byBundle.Get(key)
	if !ok {
		work = &rendering{}
		r.byBundle.Add(key, work)
	}
	return work
}

func (r *renderings) forget(key string, work *rendering) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.byBundle.Peek(key); ok && known == work {
		r.byBundle.Remove(key)
	}
}

// do returns the rendering for a bundle. It calls render if there is none, or if the writer that holds it was closed
// without a push.
func (r *renderings) do(ctx context.Context, key string, render func(*rendering) error) *rendering {
	for {
		work := r.get(key)
		ran := false
		work.once.Do(func() {
			ran = true
			work.err = render(work)
			if work.err != nil && ctx.Err() != nil { // do not cache a cancelled rendering for the next call
				r.forget(key, work)
			}
			r.keep(key, work)
		})
		if ran || work.result == nil || r.holds(ctx, work.result.tree) {
			return work
		}
		r.forget(key, work)
	}
}

// holds reports whether the store, or an open writer, has a target's tree and all its files.
func (r *renderings) holds(ctx context.Context, tree gitstore.Hash) bool {
	if !r.store.Has(tree) {
		return false
	}
	entries, err := r.store.Tree(ctx, tree)
	return err == nil && !slices.ContainsFunc(entries, func(e gitstore.Entry) bool { return !r.store.Has(e.Hash) })
}

// outcome is the result of a job.
type outcome struct {
	job    Job
	work   *rendering
	result *targetTree // nil if err is set; also nil before complete runs, for objects of custom kinds
	err    error
}

// defines returns the kinds that the rendering's CustomResourceDefinitions define.
func (o *outcome) defines() branch.Kinds {
	if o.result != nil {
		return o.result.defines
	}
	out := branch.Kinds{}
	if o.work != nil {
		for _, object := range o.work.objects {
			if object.Defines != nil {
				out[object.Defines.Kind] = object.Defines.Scope
			}
		}
	}
	return out
}

// renderJobs renders jobs in parallel and writes their trees into w. Each outcome has the error of its job;
// renderJobs itself returns only the error of the context.
func (h *Hydrator) renderJobs(ctx context.Context, environment string, jobs []Job, w *gitstore.Writer) ([]*outcome, error) {
	out := make([]*outcome, len(jobs))
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(h.Jobs + 1) // one more than the workers, so that no worker waits for a bundle
	for i, j := range jobs {
		group.Go(func() error {
			out[i] = h.renderJob(ctx, j, w)
			h.Progress("render "+environment, int(done.Add(1)), len(jobs))
			return ctx.Err()
		})
	}
	return out, group.Wait()
}

func (h *Hydrator) renderJob(ctx context.Context, j Job, w *gitstore.Writer) *outcome {
	o := &outcome{job: j}
	bundle, err := j.Target.Bundle(ctx)
	if err != nil {
		o.err = err
		return o
	}
	key := bundle.Digest()
	if j.Target.KeepsUnstable() { // it reuses values from the tree on the branch
		key += " of " + j.Target.String() + " " + j.Old.String()
	}
	if j.Target.ForcesHookJobs() {
		key += " forcing hook jobs"
	}
	if j.Target.AsRendered() {
		key += " as rendered"
	}
	o.work = h.renderings.do(ctx, key, func(work *rendering) error { return h.render(ctx, j, bundle, work, w) })
	o.result, o.err = o.work.result, j.Target.Locate(o.work.err)
	if o.err == nil && o.result != nil {
		o.err = branch.CopyTree(ctx, h.Store, w, o.result.tree)
	}
	return o
}

// render renders a bundle. If the scope of one of its kinds is unknown, it leaves the objects in work.
func (h *Hydrator) render(ctx context.Context, j Job, b *renderer.Bundle, work *rendering, w *gitstore.Writer) error {
	rendered, err := h.Renderer.Render(ctx, b)
	if err != nil {
		return err
	}
	if err := resolveUnstable(ctx, h.Store, j, rendered); err != nil {
		return err
	}
	work.objects, work.notes = rendered.Objects, rendered.Notes
	if !j.Target.AsRendered() && slices.ContainsFunc(rendered.Objects, scopeUnknown) {
		return nil
	}
	work.result, err = writeObjects(w, rendered.Objects, j.Target, nil)
	work.objects = nil
	return err
}

func scopeUnknown(o renderer.Object) bool {
	return o.ID.Namespace == "" && o.Scope == manifest.ScopeUnknown
}

// complete writes the objects of outcomes that waited for the scopes of custom kinds.
func complete(w *gitstore.Writer, outcomes []*outcome, scopes branch.Kinds) {
	for _, o := range outcomes {
		if o.err == nil && o.result == nil {
			o.result, o.err = writeObjects(w, o.work.objects, o.job.Target, scopes)
		}
	}
}

// failures returns the targets that could not be rendered. A target without a result always counts as failed, since
// renderJobs already returned any error of the context.
func failures(environment string, outcomes []*outcome) []Failure {
	var out []Failure
	for _, o := range outcomes {
		if o.err != nil {
			out = append(out, NewFailure(environment, o.job.Target.Target, o.err))
		}
	}
	return out
}

// Batch is a set of targets of one environment that are rendered without a plan.
type Batch struct {
	Environment string
	State       *branch.State // its kinds give the scopes of custom kinds
	Jobs        []Job
}

// Rendered is a target of a batch.
type Rendered struct {
	Job
	Tree gitstore.Hash
	Err  error // why the target could not be rendered
}

// RenderBatch renders the targets of a batch into w, and returns them in order.
func (h *Hydrator) RenderBatch(ctx context.Context, b Batch, w *gitstore.Writer) ([]Rendered, []Note, error) {
	p := &environmentPlan{name: b.Environment, state: b.State, notes: notes{}}
	outcomes, err := h.renderJobs(ctx, b.Environment, b.Jobs, w)
	if err != nil {
		return nil, nil, err
	}
	scopes, err := p.scopes(ctx, h.Store, outcomes)
	if err != nil {
		return nil, nil, err
	}
	complete(w, outcomes, scopes)
	p.addNotes(outcomes, scopes)
	out := make([]Rendered, len(outcomes))
	for i, o := range outcomes {
		out[i] = Rendered{Job: o.job, Err: o.err}
		if o.err == nil {
			out[i].Tree = o.result.tree
		}
	}
	return out, p.notes.list(), nil
}
