package render

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Job is a target to render.
type Job struct {
	Target *source.Target
	Old    gitstore.Hash // tree of the target on the branch; zero if the branch does not have it
}

// Targets renders targets, and caches the renderings between calls.
type Targets struct {
	store      *gitstore.Store
	renderer   renderer.Renderer
	parallel   int           // processes that the renderer may use
	heavy      chan struct{} // places of targets that are not light, from the rendering to its writing
	renderings *renderings

	mu    sync.Mutex
	light map[string]bool // apps with a rendered target: whether all were light
}

// New returns a Targets without cached renderings.
func New(store *gitstore.Store, r renderer.Renderer, parallel int) *Targets {
	return &Targets{
		store: store, renderer: r, parallel: parallel, renderings: newRenderings(store),
		heavy: make(chan struct{}, parallel+1), // one more than the processes, so that no process waits for a bundle
		light: map[string]bool{},
	}
}

// maxInFlight bounds the targets in flight on a machine with many processors.
const maxInFlight = 1024

// inFlight is the number of targets that are rendered or wait for it, with so many processes.
func inFlight(processes int) int {
	return max(processes+1, min(processes*renderer.InFlight, maxInFlight))
}

// written is the rendering of a target, written as a tree of files.
type written struct {
	hash    gitstore.Hash
	files   int
	defines branch.Kinds // kinds that its own CustomResourceDefinitions define
	assumes []string     // custom kinds of objects without a namespace
	notes   []string     // merged copies and the like
}

// Outcome is the result of a job.
type Outcome struct {
	Job
	Err error // why the target could not be rendered

	work   *rendering
	result *written // nil if the target cannot be rendered, and before Complete for objects of custom kinds
	first  *Outcome // of the first target with the same rendering; nil for that one
}

// Tree returns the tree of the target; zero if it could not be rendered.
func (o *Outcome) Tree() gitstore.Hash {
	if o.Err != nil || o.result == nil {
		return gitstore.Hash{}
	}
	return o.result.hash
}

// Files returns the number of files in the tree of the target.
func (o *Outcome) Files() int {
	if o.Err != nil || o.result == nil {
		return 0
	}
	return o.result.files
}

// Assumes returns the custom kinds of the target's objects without a namespace, sorted.
func (o *Outcome) Assumes() []string {
	if o.result == nil {
		return nil
	}
	return o.result.assumes
}

// Notes returns remarks about the rendering, such as equal copies of an object that were merged.
func (o *Outcome) Notes() []string {
	if o.result == nil {
		return nil
	}
	return slices.Concat(o.work.notes, o.result.notes)
}

// Defines returns the kinds that the rendering's CustomResourceDefinitions define.
func (o *Outcome) Defines() branch.Kinds {
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

// Render renders jobs in parallel and writes their trees into w. It renders equal targets once: a change of a whole
// fleet has thousands of them. The outcomes are in the order of the jobs. Each has the error of its job; Render itself
// returns only the error of the context. Several goroutines call progress with the number of jobs that are done.
// Complete must follow.
func (t *Targets) Render(ctx context.Context, jobs []Job, w *gitstore.Writer, progress func(done int)) ([]*Outcome,
	error,
) {
	r := &round{t: t, jobs: jobs, w: w, out: make([]*Outcome, len(jobs)), progress: progress}
	return r.out, r.run(ctx)
}

// Sort sorts jobs by apps, because those of one app share a chart, and by clusters.
func Sort(jobs []Job) {
	slices.SortFunc(jobs, func(a, b Job) int {
		return cmp.Or(strings.Compare(a.Target.App.Name, b.Target.App.Name),
			strings.Compare(a.Target.Cluster.Name, b.Target.Cluster.Name))
	})
}

// alike returns the index of the first job with the same rendering, for each job.
func alike(jobs []Job) []int {
	out := make([]int, len(jobs))
	seen := map[source.Rendering]int{}
	for i, j := range jobs {
		out[i] = i
		rendering, ok := j.Target.Rendering()
		if !ok {
			continue
		}
		if first, known := seen[rendering]; known {
			out[i] = first
		} else {
			seen[rendering] = i
		}
	}
	return out
}

// round is one call of Render.
type round struct {
	t        *Targets
	jobs     []Job
	w        *gitstore.Writer
	out      []*Outcome
	progress func(done int)
	ended    atomic.Int64 // jobs
}

// run renders all jobs.
func (r *round) run(ctx context.Context) error {
	like := alike(r.jobs)
	var first, left []int
	for i := range r.jobs {
		if like[i] == i {
			first = append(first, i)
		}
	}
	if err := r.each(ctx, first); err != nil {
		return err
	}
	for i, j := range r.jobs {
		switch one := r.out[like[i]]; {
		case like[i] == i:
		case one.Err != nil: // an error can name its target
			left = append(left, i)
		default:
			r.out[i] = &Outcome{Job: j, work: one.work, result: one.result, first: one}
		}
	}
	r.progress(int(r.ended.Add(int64(len(r.jobs) - len(first) - len(left)))))
	return r.each(ctx, left)
}

// each renders some of the jobs.
func (r *round) each(ctx context.Context, jobs []int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight(r.t.parallel))
	for _, i := range jobs {
		group.Go(func() error { return r.job(ctx, i) })
	}
	return group.Wait()
}

// job renders a job in this process, or waits until this process has rendered its bundle.
func (r *round) job(ctx context.Context, i int) error {
	bundle, key, err := r.t.prepare(ctx, r.jobs[i])
	if err != nil {
		return r.end(ctx, i, nil, err)
	}
	return r.end(ctx, i, r.t.renderings.do(ctx, key, func() rendered {
		return r.t.render(ctx, r.jobs[i], bundle,
			r.w)
	}), nil)
}

// end sets the outcome of a job, once for each job. It returns only the error of the context.
func (r *round) end(ctx context.Context, i int, work *rendering, err error) error {
	r.out[i] = r.outcome(ctx, r.jobs[i], work, err)
	r.progress(int(r.ended.Add(1)))
	return ctx.Err()
}

func (r *round) outcome(ctx context.Context, j Job, work *rendering, err error) *Outcome {
	o := &Outcome{Job: j, Err: err}
	if err != nil {
		return o
	}
	if !work.ended() {
		o.Err = ctx.Err()
		return o
	}
	o.work, o.result, o.Err = work, work.result, j.Target.Locate(work.err)
	if o.Err == nil && o.result != nil {
		o.Err = branch.CopyTree(ctx, r.t.store, r.w, o.result.hash)
	}
	return o
}

// prepare returns the bundle of a job, and the key of its rendering: jobs with equal keys have equal trees.
func (t *Targets) prepare(ctx context.Context, j Job) (*renderer.Bundle, string, error) {
	bundle, err := j.Target.Bundle(ctx)
	if err != nil {
		return nil, "", err
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
	return bundle, key, nil
}

// render renders a bundle. It tries a light one if the app has rendered targets and all were light. At most
// cap(t.heavy) renderings that are not light exist at once, which bounds memory.
func (t *Targets) render(ctx context.Context, j Job, b *renderer.Bundle, w *gitstore.Writer) rendered {
	app := j.Target.App.Name
	if t.isLight(app) {
		light := *b
		light.Light = true
		rendering, err := t.renderer.Render(ctx, &light)
		if !errors.Is(err, renderer.ErrHeavy) {
			return t.use(ctx, j, rendering, err, w)
		}
		t.noteLight(app, false)
	}
	select {
	case t.heavy <- struct{}{}:
		defer func() { <-t.heavy }()
	case <-ctx.Done():
		return rendered{err: ctx.Err()}
	}
	rendering, err := t.renderer.Render(ctx, b)
	if err == nil {
		t.noteLight(app, rendering.Light())
	}
	return t.use(ctx, j, rendering, err, w)
}

func (t *Targets) isLight(app string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.light[app]
}

func (t *Targets) noteLight(app string, light bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.light[app]
	t.light[app] = light && (before || !known)
}

// use writes a rendering. If the scope of one of its kinds is unknown, it keeps the objects.
func (t *Targets) use(ctx context.Context, j Job, r *renderer.Rendering, err error, w *gitstore.Writer) rendered {
	if err == nil {
		err = resolveUnstable(ctx, t.store, j, r)
	}
	if err != nil {
		return rendered{err: err}
	}
	p := placeOf(j.Target)
	if p.waits(r.Objects) {
		return rendered{objects: r.Objects, notes: r.Notes}
	}
	result, err := writeObjects(w, r.Objects, p, nil)
	return rendered{notes: r.Notes, result: result, err: err}
}

func scopeUnknown(o renderer.Object) bool {
	return o.ID.Namespace == "" && o.Scope == manifest.ScopeUnknown
}

// Complete writes the objects of outcomes that waited for the scopes of custom kinds. outcomes are those of one or
// several calls of Render, in its order.
func Complete(w *gitstore.Writer, outcomes []*Outcome, scopes branch.Kinds) {
	for _, o := range outcomes {
		switch {
		case o.Err != nil || o.result != nil:
		case o.first != nil:
			o.result, o.Err = o.first.result, o.first.Err
		default:
			o.result, o.Err = writeObjects(w, o.work.objects, placeOf(o.Target), scopes)
		}
	}
}
