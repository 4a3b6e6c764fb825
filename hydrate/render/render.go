package render

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
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

// inFlight is the number of targets that are rendered or wait for it.
func (t *Targets) inFlight() int {
	return max(t.parallel+1, min(t.parallel*renderer.InFlight, renderer.FarmInFlight))
}

// written is the rendering of a target, written as a tree of files.
type written struct {
	hash    gitstore.Hash
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

// Render renders jobs in parallel and writes their trees into w. It renders equal targets once: a change of a whole fleet has thousands of
// them. Each outcome has the error of its job; Render itself returns only the error of the context. Several goroutines call progress with the
// number of jobs that are done. Complete must follow.
func (t *Targets) Render(ctx context.Context, jobs []Job, w *gitstore.Writer, progress func(done int)) ([]*Outcome, error) {
	out := make([]*Outcome, len(jobs))
	var done atomic.Int64
	render := func(indices []int) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(t.inFlight())
		for _, i := range indices {
			group.Go(func() error {
				out[i] = t.job(ctx, jobs[i], w)
				progress(int(done.Add(1)))
				return ctx.Err()
			})
		}
		return group.Wait()
	}
	like := alike(jobs)
	var first, left []int
	for i := range jobs {
		if like[i] == i {
			first = append(first, i)
		}
	}
	if err := render(first); err != nil {
		return out, err
	}
	for i, j := range jobs {
		switch one := out[like[i]]; {
		case like[i] == i:
		case one.Err != nil: // an error can name its target
			left = append(left, i)
		default:
			out[i] = &Outcome{Job: j, work: one.work, result: one.result, first: one}
		}
	}
	progress(int(done.Add(int64(len(jobs) - len(first) - len(left)))))
	return out, render(left)
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

func (t *Targets) job(ctx context.Context, j Job, w *gitstore.Writer) *Outcome {
	o := &Outcome{Job: j}
	bundle, err := j.Target.Bundle(ctx)
	if err != nil {
		o.Err = err
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
	o.work = t.renderings.do(ctx, key, func(work *rendering) error { return t.render(ctx, j, bundle, work, w) })
	o.result, o.Err = o.work.result, j.Target.Locate(o.work.err)
	if o.Err == nil && o.result != nil {
		o.Err = branch.CopyTree(ctx, t.store, w, o.result.hash)
	}
	return o
}

// render renders a bundle. It tries a light one if the app has rendered targets and all were light. At most cap(t.heavy) renderings
// that are not light exist at once, which bounds memory.
func (t *Targets) render(ctx context.Context, j Job, b *renderer.Bundle, work *rendering, w *gitstore.Writer) error {
	app := j.Target.App.Name
	if t.isLight(app) {
		light := *b
		light.Light = true
		rendered, err := t.renderer.Render(ctx, &light)
		if !errors.Is(err, renderer.ErrHeavy) {
			return t.use(ctx, j, rendered, err, work, w)
		}
		t.noteLight(app, false)
	}
	select {
	case t.heavy <- struct{}{}:
		defer func() { <-t.heavy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	rendered, err := t.renderer.Render(ctx, b)
	if err == nil {
		t.noteLight(app, rendered.Light())
	}
	return t.use(ctx, j, rendered, err, work, w)
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

// use writes a rendering. If the scope of one of its kinds is unknown, it leaves the objects in work.
func (t *Targets) use(ctx context.Context, j Job, rendered *renderer.Rendering, err error, work *rendering, w *gitstore.Writer) error {
	if err != nil {
		return err
	}
	if err := resolveUnstable(ctx, t.store, j, rendered); err != nil {
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

// Complete writes the objects of outcomes that waited for the scopes of custom kinds. outcomes are those of one or several calls of Render,
// in its order.
func Complete(w *gitstore.Writer, outcomes []*Outcome, scopes branch.Kinds) {
	for _, o := range outcomes {
		switch {
		case o.Err != nil || o.result != nil:
		case o.first != nil:
			o.result, o.Err = o.first.result, o.first.Err
		default:
			o.result, o.Err = writeObjects(w, o.work.objects, o.Target, scopes)
		}
	}
}
