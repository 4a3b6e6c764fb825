package renderer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/renderer/helm"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Limits limit one rendering.
type Limits struct {
	Archive   helm.Limits     // a packed chart, unpacked
	Budget    manifest.Budget // each YAML stream
	MaxOutput int             // bytes of text from one chart, and of a target's objects as encoded
	Objects   int             // of one target
}

// DefaultLimits returns limits that every public chart known to us stays below, and that suit a small machine.
func DefaultLimits() Limits {
	return Limits{Archive: helm.DefaultLimits(), Budget: manifest.DefaultBudget(), MaxOutput: 64 << 20, Objects: 20_000}
}

// Engine renders in this process. It caches loaded charts by digest.
type Engine struct {
	limits    Limits
	docs      *documents
	kustomize *kustomize.Builder

	mu     sync.Mutex
	charts map[string]*helm.Chart
}

// NewEngine returns an engine.
func NewEngine(limits Limits) *Engine {
	return &Engine{
		limits: limits, docs: newDocuments(limits), kustomize: kustomize.NewBuilder(limits.Budget),
		charts: map[string]*helm.Chart{},
	}
}

// Render renders a bundle. If a template called a non-deterministic function, it renders a second time to find the
// fields that differ.
func (e *Engine) Render(ctx context.Context, b *Bundle) (*Rendering, error) {
	first, err := e.pass(ctx, b, false)
	if err != nil {
		return nil, inputError(err)
	}
	out := &Rendering{Objects: first.objects, Notes: first.notes}
	if first.mayChange {
		second, err := e.pass(ctx, b, true)
		if err != nil {
			return nil, inputError(err)
		}
		if out.Unstable, err = unstable(out.Objects, second.objects); err != nil {
			return nil, inputError(err)
		}
	}
	return out, nil
}

// outcome is the result of one pass over a bundle, or over one of its sources.
type outcome struct {
	objects   []Object
	notes     []string
	mayChange bool
}

// within checks the objects of a target against the limits.
func (e *Engine) within(objects []Object, light bool) error {
	if len(objects) > e.limits.Objects {
		return fmt.Errorf("%d objects are more than the %d that one target may have: split the app", len(objects),
			e.limits.Objects)
	}
	total := 0
	for i := range objects {
		if total += len(objects[i].YAML); total > e.limits.MaxOutput {
			return fmt.Errorf("the objects take more than %d MiB of YAML: split the app", e.limits.MaxOutput>>20)
		}
	}
	if light && total > LightBytes {
		return ErrHeavy
	}
	return nil
}

// merge leaves one object of each identity, with a note for each that goes. It refuses what Twice refuses.
func merge(objects []Object) (merged []Object, notes []string, err error) {
	merged = objects[:0:0]
	seen := make(map[manifest.Identity]int, len(objects))
	for _, o := range objects {
		i, twice := seen[o.ID]
		if !twice {
			seen[o.ID] = len(merged)
			merged = append(merged, o)
			continue
		}
		one, note, err := Twice(o.ID, merged[i], o)
		if err != nil {
			return nil, nil, err
		}
		merged[i], notes = one, append(notes, note)
	}
	return merged, notes, nil
}

func (o *Object) origin() string { return cmp.Or(o.Source, "a component") }

// pass renders every source once and applies the components. With probe, functions of time return another time.
func (e *Engine) pass(ctx context.Context, b *Bundle, probe bool) (outcome, error) {
	var out outcome
	for i := range b.Sources {
		one, err := e.source(ctx, b, &b.Sources[i], probe)
		if err != nil {
			return outcome{}, err
		}
		out.objects = append(out.objects, one.objects...)
		out.notes = append(out.notes, one.notes...)
		out.mayChange = out.mayChange || one.mayChange
	}
	objects, notes, err := merge(out.objects)
	if err != nil {
		return outcome{}, err
	}
	out.objects, out.notes = objects, append(out.notes, notes...)
	if len(b.Components) > 0 {
		patched, err := e.components(ctx, out.objects, b, probe)
		if err != nil {
			return outcome{}, err
		}
		out.objects, out.notes = patched.objects, append(out.notes, patched.notes...)
		out.mayChange = out.mayChange || patched.mayChange
	}
	slices.SortStableFunc(out.objects, func(x, y Object) int { return manifest.Compare(x.ID, y.ID) })
	return out, e.within(out.objects, b.Light)
}

func (e *Engine) source(ctx context.Context, b *Bundle, s *Source, probe bool) (outcome, error) {
	switch {
	case s.Helm != nil:
		return e.helm(ctx, b, s.Helm, probe)
	case s.Kustomize != nil:
		return e.root(ctx, b, s.Kustomize, probe)
	case s.Manifests != nil:
		objects, err := e.manifests(s.Manifests.Files)
		return outcome{objects: objects}, err
	default:
		return outcome{}, fmt.Errorf("a source needs helm, kustomize or manifests")
	}
}

func (e *Engine) helm(ctx context.Context, b *Bundle, s *HelmSource, probe bool) (outcome, error) {
	values := map[string]any{}
	if len(s.Values) > 0 {
		if err := json.Unmarshal(s.Values, &values); err != nil {
			return outcome{}, fmt.Errorf("values of chart %s: %w", s.Chart.Name, err)
		}
	}
	chart, err := e.chart(b.helm(), s)
	if err != nil {
		return outcome{}, err
	}
	return e.release(ctx, s, chart, helm.Options{
		Namespace:   cmp.Or(s.Namespace, b.Namespace),
		KubeVersion: cmp.Or(s.KubeVersion, b.KubeVersion),
		APIVersions: firstList(s.APIVersions, b.APIVersions),
		Values:      values,
		Probe:       probe,
	}, func(h helm.Hook) bool { return h == helm.KeptHook && !s.DropHooks })
}

// firstList returns the first list with entries.
func firstList(lists ...[]string) []string {
	for _, l := range lists {
		if len(l) > 0 {
			return l
		}
	}
	return nil
}

// release renders a loaded chart. o has what does not come from s. Of hooks, it keeps those for which keep is true.
func (e *Engine) release(ctx context.Context, s *HelmSource, chart *helm.Chart, o helm.Options,
	keep func(helm.Hook) bool,
) (outcome, error) {
	o.ReleaseName, o.IncludeCRDs, o.SkipSchema, o.MaxOutput = s.Release, s.IncludeCRDs, s.SkipSchema, e.limits.MaxOutput
	result, err := chart.Render(ctx, o)
	if err != nil {
		return outcome{}, s.helmError(chart.Name(), err)
	}
	out := outcome{mayChange: result.Unstable}
	for _, doc := range result.Documents {
		source := s.sourceName(chart.Name(), doc.Source)
		objects, err := e.docs.decode(doc.Text, doc.Sum)
		if err != nil {
			return outcome{}, &InputError{File: source, Message: err.Error()}
		}
		for _, o := range objects {
			switch {
			case doc.CRD || o.hook == helm.NoHook || keep(o.hook):
				o.Source = source
				out.objects = append(out.objects, o)
			case o.hook == helm.NeverHook:
				out.notes = append(out.notes,
					fmt.Sprintf("%s from %s is left out, as Helm does: it is a hook of an event that Helm does not know (correct its annotation %s)", o.ID, source, helm.HookAnnotation))
			}
		}
	}
	return out, nil
}

func (e *Engine) manifests(c Content) ([]Object, error) {
	var out []Object
	for _, f := range c.Files {
		if !isYAML(f.Path) {
			continue
		}
		source := path.Join(c.Name, f.Path)
		objects, err := e.docs.decode(f.Data, sha256.Sum256(f.Data))
		if err != nil {
			return nil, &InputError{File: source, Message: err.Error()}
		}
		for _, o := range objects {
			o.Source = source
			out = append(out, o)
		}
	}
	return out, nil
}

func (e *Engine) components(ctx context.Context, objects []Object, b *Bundle, probe bool) (outcome, error) {
	base := make([]manifest.Object, 0, len(objects))
	for i := range objects {
		decoded, err := manifest.Decode(objects[i].YAML, e.limits.Budget)
		if err != nil {
			return outcome{}, err
		}
		base = append(base, decoded...)
	}
	components := make([]kustomize.Component, len(b.Components))
	charts := inflation{engine: e, bundle: b, probe: probe, left: e.limits.MaxOutput}
	for i, c := range b.Components {
		components[i] = kustomize.Component{
			Name: c.Files.Name, Files: kustomizeFiles(c.Files.Files), Root: c.Root,
			Inflate: charts.of(c.Charts),
		}
	}
	patched, err := e.kustomize.ApplyComponents(ctx, base, components, b.AllowUnmatched)
	if err != nil {
		return outcome{}, err
	}
	sources := make(map[manifest.Identity]string, len(objects))
	for i := range objects {
		sources[objects[i].ID] = objects[i].Source
	}
	out, err := encodeAll(patched, e.limits.MaxOutput)
	for i := range out {
		out[i].Source = sources[out[i].ID]
	}
	return outcome{objects: out, notes: charts.notes, mayChange: charts.mayChange}, err
}

// sourceName returns the name in the repository of a template that Helm calls `CHART/templates/FILE`. For a packed
// chart, the name begins with the chart's name.
func (s *HelmSource) sourceName(chart, name string) string {
	rest, ok := strings.CutPrefix(name, chart+"/")
	if !ok {
		return name
	}
	for i := range s.Dependencies {
		d := &s.Dependencies[i]
		if inner, ok := strings.CutPrefix(rest, "charts/"+d.Name+"/"); ok {
			return d.Chart.member(inner)
		}
	}
	return s.Chart.member(rest)
}

// member returns the name of a file of the content, for messages.
func (c *Content) member(name string) string {
	if c.Archive != nil {
		return "chart " + c.Name + ": " + name
	}
	return path.Join(c.Name, name)
}

// chart loads a chart with its resolved dependencies, or returns the cached one.
func (e *Engine) chart(v helm.Version, s *HelmSource) (*helm.Chart, error) {
	parts := []string{strconv.Itoa(int(v)), s.Chart.Digest}
	for i := range s.Dependencies {
		parts = append(parts, s.Dependencies[i].Name, s.Dependencies[i].Chart.Digest)
	}
	key := strings.Join(parts, "+")
	e.mu.Lock()
	defer e.mu.Unlock()
	if c, ok := e.charts[key]; ok {
		return c, nil
	}
	c, err := e.load(v, s.Chart)
	if err != nil {
		return nil, err
	}
	for i := range s.Dependencies {
		dep, err := e.load(v, s.Dependencies[i].Chart)
		if err != nil {
			return nil, err
		}
		c.Add(dep)
	}
	const most = 128
	if len(e.charts) >= most {
		clear(e.charts)
	}
	e.charts[key] = c
	return c, nil
}

func (e *Engine) load(v helm.Version, c Content) (*helm.Chart, error) {
	var chart *helm.Chart
	var err error
	if c.Archive != nil {
		chart, err = helm.LoadArchive(v, c.Archive, e.limits.Archive)
	} else {
		files := make([]helm.File, len(c.Files))
		for i, f := range c.Files {
			files[i] = helm.File{Path: f.Path, Data: f.Data}
		}
		chart, err = helm.Load(v, files, e.limits.Archive)
	}
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", c.Name, err)
	}
	return chart, nil
}

func kustomizeFiles(files []File) []kustomize.File {
	out := make([]kustomize.File, len(files))
	for i, f := range files {
		out[i] = kustomize.File{Path: f.Path, Data: f.Data}
	}
	return out
}
