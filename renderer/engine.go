package renderer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/renderer/helm"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Limits bound one rendering.
type Limits struct {
	Archive   helm.Limits     // a packed chart, unpacked
	Budget    manifest.Budget // each YAML stream
	MaxOutput int             // bytes of text from one chart
	Objects   int             // objects of one target
}

// DefaultLimits are wide enough for every public chart we know and narrow enough for a small machine.
func DefaultLimits() Limits {
	return Limits{Archive: helm.DefaultLimits(), Budget: manifest.DefaultBudget(), MaxOutput: 64 << 20, Objects: 20_000}
}

// Engine renders in this process. It keeps the charts it has loaded, by digest.
type Engine struct {
	limits    Limits
	docs      *documents
	kustomize *kustomize.Builder

	mu     sync.Mutex
	charts map[string]*helm.Chart
}

// NewEngine makes an engine.
func NewEngine(limits Limits) *Engine {
	return &Engine{limits: limits, docs: newDocuments(limits.Budget), kustomize: kustomize.NewBuilder(limits.Budget), charts: map[string]*helm.Chart{}}
}

// Render renders a bundle; twice, if its charts can reach a function whose outcome changes by itself.
func (e *Engine) Render(ctx context.Context, b *Bundle) (*Rendering, error) {
	first, mayChange, err := e.pass(ctx, b, false)
	if err != nil {
		return nil, err
	}
	if len(first) > e.limits.Objects {
		return nil, fmt.Errorf("%d objects are more than the %d that one target may have", len(first), e.limits.Objects)
	}
	out := &Rendering{Objects: first}
	if mayChange {
		second, _, err := e.pass(ctx, b, true)
		if err != nil {
			return nil, err
		}
		if out.Unstable, err = unstable(first, second); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pass renders every source once and puts the components on top. With probe, functions of time give another time.
func (e *Engine) pass(ctx context.Context, b *Bundle, probe bool) ([]Object, bool, error) {
	var objects []Object
	mayChange := false
	for i := range b.Sources {
		got, may, err := e.source(ctx, b, &b.Sources[i], probe)
		if err != nil {
			return nil, false, err
		}
		objects = append(objects, got...)
		mayChange = mayChange || may
	}
	if len(b.Components) > 0 {
		patched, err := e.components(ctx, objects, b.Components)
		if err != nil {
			return nil, false, err
		}
		objects = patched
	}
	slices.SortStableFunc(objects, func(x, y Object) int { return manifest.Compare(x.ID, y.ID) })
	return objects, mayChange, nil
}

func (e *Engine) source(ctx context.Context, b *Bundle, s *Source, probe bool) ([]Object, bool, error) {
	switch {
	case s.Helm != nil:
		return e.helm(ctx, b, s.Helm, probe)
	case s.Kustomize != nil:
		files := kustomizeFiles(s.Kustomize.Files.Files)
		objects, err := e.kustomize.Build(ctx, files, s.Kustomize.Root)
		if err != nil {
			return nil, false, err
		}
		out, err := encodeAll(objects)
		return out, false, err
	case s.Manifests != nil:
		out, err := e.manifests(s.Manifests.Files)
		return out, false, err
	default:
		return nil, false, fmt.Errorf("a source needs helm, kustomize or manifests")
	}
}

func (e *Engine) helm(ctx context.Context, b *Bundle, s *HelmSource, probe bool) ([]Object, bool, error) {
	chart, err := e.chart(s)
	if err != nil {
		return nil, false, err
	}
	values := map[string]any{}
	if len(s.Values) > 0 {
		if err := json.Unmarshal(s.Values, &values); err != nil {
			return nil, false, fmt.Errorf("values of chart %s: %w", s.Chart.Name, err)
		}
	}
	result, err := chart.Render(ctx, helm.Options{
		ReleaseName: s.Release,
		Namespace:   b.Namespace,
		KubeVersion: b.KubeVersion,
		APIVersions: b.APIVersions,
		Values:      values,
		IncludeCRDs: s.IncludeCRDs,
		SkipSchema:  s.SkipSchema,
		Probe:       probe,
		MaxOutput:   e.limits.MaxOutput,
	})
	if err != nil {
		return nil, false, err
	}
	var out []Object
	for _, doc := range result.Documents {
		objects, err := e.docs.decode(doc.Text)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", doc.Source, err)
		}
		for _, o := range objects {
			if o.hook == helm.NoHook || o.hook == helm.KeptHook && !s.DropHooks {
				out = append(out, o)
			}
		}
	}
	return out, result.Unstable, nil
}

func (e *Engine) manifests(c Content) ([]Object, error) {
	var out []Object
	for _, f := range c.Files {
		if !isYAML(f.Path) {
			continue
		}
		objects, err := e.docs.decode(f.Data)
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", c.Name, f.Path, err)
		}
		out = append(out, objects...)
	}
	return out, nil
}

func (e *Engine) components(ctx context.Context, objects []Object, layers []Component) ([]Object, error) {
	base := make([]manifest.Object, 0, len(objects))
	for i := range objects {
		decoded, err := manifest.Decode(objects[i].YAML, e.limits.Budget)
		if err != nil {
			return nil, err
		}
		base = append(base, decoded...)
	}
	components := make([]kustomize.Component, len(layers))
	for i, c := range layers {
		components[i] = kustomize.Component{Name: c.Files.Name, Files: kustomizeFiles(c.Files.Files), Root: c.Root}
	}
	patched, err := e.kustomize.ApplyComponents(ctx, base, components)
	if err != nil {
		return nil, err
	}
	return encodeAll(patched)
}

// chart loads a chart and what was resolved for it, or takes it from the last time.
func (e *Engine) chart(s *HelmSource) (*helm.Chart, error) {
	parts := []string{s.Chart.Digest}
	for i := range s.Dependencies {
		parts = append(parts, s.Dependencies[i].Name, s.Dependencies[i].Chart.Digest)
	}
	key := strings.Join(parts, "+")
	e.mu.Lock()
	defer e.mu.Unlock()
	if c, ok := e.charts[key]; ok {
		return c, nil
	}
	c, err := e.load(s.Chart)
	if err != nil {
		return nil, err
	}
	for i := range s.Dependencies {
		dep, err := e.load(s.Dependencies[i].Chart)
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

func (e *Engine) load(c Content) (*helm.Chart, error) {
	var chart *helm.Chart
	var err error
	if c.Archive != nil {
		chart, err = helm.LoadArchive(c.Archive, e.limits.Archive)
	} else {
		files := make([]helm.File, len(c.Files))
		for i, f := range c.Files {
			files[i] = helm.File{Path: f.Path, Data: f.Data}
		}
		chart, err = helm.Load(files, e.limits.Archive)
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
