package hydrate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// rendered is a target as a tree of files.
type rendered struct {
	tree    gitstore.Hash
	objects int
	defines map[manifest.GroupKind]manifest.Scope
	assumes []string // custom kinds of objects that were rendered without a namespace
}

// shared is one rendering that all targets with an equal bundle use.
type shared struct {
	once    sync.Once
	objects []renderer.Object
	err     error
	result  *rendered
	pending bool // objects of custom kinds wait for all scopes to be known
}

// outcome is a target's rendering in one run.
type outcome struct {
	job    job
	work   *shared
	app    string // namespace of the app
	result *rendered
	err    error
}

// renderJobs renders targets in parallel and writes their trees. A failure stays in its outcome.
func (h *Hydrator) renderJobs(ctx context.Context, p *environmentPlan, jobs []job, w *gitstore.Writer) ([]*outcome, error) {
	out := make([]*outcome, len(jobs))
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(h.Jobs + 1) // one more than children, so that none waits for a bundle
	for i, j := range jobs {
		group.Go(func() error {
			out[i] = h.renderJob(ctx, p, j, w)
			h.Progress("render "+p.name, int(done.Add(1)), len(jobs))
			return ctx.Err()
		})
	}
	return out, group.Wait()
}

func (h *Hydrator) renderJob(ctx context.Context, p *environmentPlan, j job, w *gitstore.Writer) *outcome {
	o := &outcome{job: j}
	bundle, resolved, err := p.view.bundle(ctx, j.target)
	if err != nil {
		o.err = err
		return o
	}
	o.app = resolved.Namespace
	key := bundle.Digest()
	if resolved.Unstable == "keep" {
		key += " of " + j.target.String()
	}
	if p.view.fleet.AsRendered() {
		key += " as rendered"
	}
	for {
		work := h.shared(key)
		o.work = work
		rendered := false
		work.once.Do(func() {
			rendered = true
			work.err = h.renderOnce(ctx, p, o, bundle, resolved, w)
			if work.err != nil && ctx.Err() != nil { // the next run must not inherit a cancelled rendering
				h.forget(key, work)
			}
		})
		if rendered || work.result == nil || h.holds(ctx, work.result.tree) {
			break
		}
		h.forget(key, work) // it went with the writer of an earlier run, which pushed nothing
	}
	work := o.work
	o.result, o.err = work.result, work.err
	if o.err == nil && o.result != nil {
		o.err = h.adopt(ctx, o.result.tree, w)
	}
	return o
}

func (h *Hydrator) shared(key string) *shared {
	h.mu.Lock()
	defer h.mu.Unlock()
	work, ok := h.done[key]
	if !ok {
		work = &shared{}
		h.done[key] = work
	}
	return work
}

func (h *Hydrator) forget(key string, work *shared) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done[key] == work {
		delete(h.done, key)
	}
}

// holds says that a target's tree and all its files are here, in the store or in a writer that is open.
func (h *Hydrator) holds(ctx context.Context, tree gitstore.Hash) bool {
	if !h.store.Has(tree) {
		return false
	}
	entries, err := h.store.Tree(ctx, tree)
	return err == nil && !slices.ContainsFunc(entries, func(e gitstore.Entry) bool { return !h.store.Has(e.Hash) })
}

// adopt brings a target's tree into a writer that another environment's writer holds already.
func (h *Hydrator) adopt(ctx context.Context, tree gitstore.Hash, w *gitstore.Writer) error {
	if w.Has(tree) {
		return nil
	}
	entries, err := h.store.Tree(ctx, tree)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if w.Has(e.Hash) {
			continue
		}
		data, err := h.store.Blob(ctx, e.Hash)
		if err != nil {
			return err
		}
		if _, err := w.Blob(data); err != nil {
			return err
		}
	}
	_, err = w.Tree(entries)
	return err
}

func (h *Hydrator) renderOnce(ctx context.Context, p *environmentPlan, o *outcome, b *renderer.Bundle, resolved fleet.Resolved, w *gitstore.Writer) error {
	rendering, err := h.Renderer.Render(ctx, b)
	if err != nil {
		return err
	}
	if err := h.settleUnstable(ctx, o.job, resolved, rendering); err != nil {
		return err
	}
	o.work.objects = rendering.Objects
	if !p.view.fleet.AsRendered() {
		for _, object := range rendering.Objects {
			if object.ID.Namespace == "" && object.Scope == manifest.ScopeUnknown {
				o.work.pending = true
				return nil
			}
		}
	}
	o.work.result, err = finish(w, rendering.Objects, resolved.Namespace, p.view.fleet.AsRendered(), nil)
	o.work.objects = nil
	return err
}

// finish gives objects their namespaces and file names and writes them as a tree. scopes are those of custom kinds; a kind
// that nothing defines is taken as namespaced, as most are: a cluster drops the namespace of an object that has no use
// for one, and puts one without into `default`.
func finish(w *gitstore.Writer, objects []renderer.Object, namespace string, asRendered bool, scopes branch.Kinds) (*rendered, error) {
	out := &rendered{defines: map[manifest.GroupKind]manifest.Scope{}}
	ids := make([]manifest.Identity, 0, len(objects))
	seen := make(map[manifest.Identity]renderer.Object, len(objects))
	entries := make([]gitstore.Entry, 0, len(objects))
	for _, o := range objects {
		kind := manifest.GroupKind{Group: o.ID.Group, Kind: o.ID.Kind}
		text, id := o.YAML, o.ID
		if o.Defines != nil {
			out.defines[o.Defines.Kind] = o.Defines.Scope
		}
		scope := o.Scope
		if scope == manifest.ScopeUnknown && o.ID.Namespace == "" && !asRendered {
			out.assumes = append(out.assumes, kind.String())
			if scope = scopes[kind]; scope == manifest.ScopeUnknown {
				scope = manifest.ScopeNamespaced
			}
		}
		if scope == manifest.ScopeNamespaced && o.ID.Namespace == "" && !asRendered {
			var err error
			if text, err = withNamespace(text, namespace); err != nil {
				return nil, err
			}
			id.Namespace = namespace
		}
		blob, err := w.Blob(text)
		if err != nil {
			return nil, err
		}
		if first, twice := seen[id]; twice { // one names the namespace, the other leaves it out
			if !bytes.Equal(first.YAML, text) {
				return nil, fmt.Errorf("%s is rendered twice, from %s and from %s, with different content: remove or rename one", id, cmp.Or(first.Source, "a component"), cmp.Or(o.Source, "a component"))
			}
			continue
		}
		o.YAML = text
		seen[id] = o
		ids = append(ids, id)
		entries = append(entries, gitstore.Entry{Mode: gitstore.ModeFile, Hash: blob})
	}
	for i, name := range manifest.FileNames(ids, namespace) {
		entries[i].Name = name
	}
	out.objects = len(entries)
	slices.Sort(out.assumes)
	out.assumes = slices.Compact(out.assumes)
	var err error
	out.tree, err = w.Tree(entries)
	return out, err
}

func withNamespace(text []byte, namespace string) ([]byte, error) {
	objects, err := manifest.Decode(text, manifest.DefaultBudget())
	if err != nil || len(objects) != 1 {
		return nil, fmt.Errorf("give an object its namespace: %w", err)
	}
	objects[0].SetNamespace(namespace)
	return manifest.Encode(objects[0])
}

// settleUnstable refuses fields that change by themselves, or keeps what the branch has for them.
func (h *Hydrator) settleUnstable(ctx context.Context, j job, resolved fleet.Resolved, r *renderer.Rendering) error {
	if len(r.Unstable) == 0 {
		return nil
	}
	if resolved.Unstable != "keep" {
		return unstableError(j.target, r.Unstable)
	}
	before, err := h.objectsOf(ctx, j.old, resolved.Namespace)
	if err != nil {
		return err
	}
	fields := map[manifest.Identity][][]string{}
	for _, f := range r.Unstable {
		if f.Path == nil {
			return fmt.Errorf("%s has another name each time it is rendered, and nothing to keep: give it a fixed name", f.Object)
		}
		fields[f.Object] = append(fields[f.Object], f.Path)
	}
	for i, o := range r.Objects {
		old, ok := before[o.ID]
		if !ok || len(fields[o.ID]) == 0 {
			continue
		}
		kept, err := keepFields(o.YAML, old, fields[o.ID])
		if err != nil {
			return err
		}
		r.Objects[i].YAML = kept
	}
	return nil
}

func unstableError(t fleet.Target, fields []renderer.Field) error {
	const most = 5
	var list []string
	for _, f := range fields[:min(most, len(fields))] {
		list = append(list, strings.TrimSuffix(f.Object.String()+" "+strings.Join(f.Path, "."), " "))
	}
	if len(fields) > most {
		list = append(list, fmt.Sprintf("and %d more", len(fields)-most))
	}
	return fmt.Errorf("the output of app %s changes by itself in %s: give fixed values, or set `unstable: keep` in %s to keep what the branch has",
		t.App.Name, strings.Join(list, ", "), t.App.File)
}

// objectsOf reads the objects of a target's tree by the identity that they were rendered with.
func (h *Hydrator) objectsOf(ctx context.Context, tree gitstore.Hash, namespace string) (map[manifest.Identity]manifest.Object, error) {
	out := map[manifest.Identity]manifest.Object{}
	if tree.IsZero() {
		return out, nil
	}
	entries, err := h.store.Tree(ctx, tree)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data, err := h.store.Blob(ctx, e.Hash)
		if err != nil {
			return nil, err
		}
		objects, err := manifest.Decode(data, manifest.DefaultBudget())
		if err != nil {
			continue // a file that is not Sluice's
		}
		for _, o := range objects {
			id := o.Identity()
			out[id] = o
			if id.Namespace == namespace { // it may have been given by us
				id.Namespace = ""
				out[id] = o
			}
		}
	}
	return out, nil
}

// keepFields copies the given fields of old into an object. A field that old lacks stays new.
func keepFields(text []byte, old manifest.Object, paths [][]string) ([]byte, error) {
	objects, err := manifest.Decode(text, manifest.DefaultBudget())
	if err != nil || len(objects) != 1 {
		return nil, fmt.Errorf("keep fields of an object: %w", err)
	}
	for _, p := range paths {
		if v, ok := lookUp(map[string]any(old), p); ok {
			put(map[string]any(objects[0]), p, v)
		}
	}
	return manifest.Encode(objects[0])
}

func lookUp(v any, p []string) (any, bool) {
	for _, key := range p {
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[key]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, ok := index(key, len(x))
			if !ok {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

func put(v any, p []string, value any) {
	for len(p) > 1 {
		next, ok := lookUp(v, p[:1])
		if !ok {
			return
		}
		v, p = next, p[1:]
	}
	switch x := v.(type) {
	case map[string]any:
		x[p[0]] = value
	case []any:
		if i, ok := index(p[0], len(x)); ok {
			x[i] = value
		}
	}
}

func index(s string, length int) (int, bool) {
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
		if n >= length {
			return 0, false
		}
	}
	return n, s != ""
}

// settle finishes what waited for the scopes of custom kinds.
func settle(w *gitstore.Writer, outcomes []*outcome, scopes branch.Kinds) {
	for _, o := range outcomes {
		if o.err != nil || o.work == nil || !o.work.pending {
			continue
		}
		o.result, o.err = finish(w, o.work.objects, o.app, false, scopes)
	}
}

func failures(environment string, outcomes []*outcome) []Failure {
	var out []Failure
	for _, o := range outcomes {
		if o.err != nil && !errors.Is(o.err, context.Canceled) {
			out = append(out, failure(environment, o.job.target, o.err))
		}
	}
	return out
}
