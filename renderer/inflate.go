package renderer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/renderer/helm"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// root builds a Kustomize root, with the charts of its helmCharts.
func (e *Engine) root(ctx context.Context, b *Bundle, s *KustomizeSource, probe bool) (outcome, error) {
	seen := *b
	seen.KubeVersion, seen.APIVersions = cmp.Or(s.KubeVersion, b.KubeVersion), firstList(s.APIVersions, b.APIVersions)
	charts := inflation{engine: e, bundle: &seen, probe: probe, left: e.limits.MaxOutput}
	objects, err := e.kustomize.BuildCharts(ctx, kustomizeFiles(s.Files.Files), s.Root, charts.of(s.Charts))
	if err != nil {
		return outcome{}, err
	}
	out, err := encodeAll(objects, e.limits.MaxOutput)
	for i := range out {
		out[i].Source = "Kustomize root " + s.Root
	}
	return outcome{objects: out, notes: charts.notes, mayChange: charts.mayChange}, err
}

// inflation renders the charts of one Kustomize root, or of all components.
type inflation struct {
	engine *Engine
	bundle *Bundle
	probe  bool

	left      int      // bytes that the charts may still produce
	notes     []string // of the charts
	mayChange bool     // one of them calls a function whose result changes
}

// of returns a function that renders charts of a list.
func (n *inflation) of(charts []KustomizeChart) kustomize.Inflate {
	return func(ctx context.Context, r *kustomize.Release) ([]manifest.Object, error) {
		chart, err := n.engine.inflate(ctx, n.bundle, charts, r, n.probe)
		if err != nil {
			return nil, inflateError(r, err)
		}
		n.notes = append(n.notes, chart.notes...)
		n.mayChange = n.mayChange || chart.mayChange
		var out []manifest.Object
		for i := range chart.objects {
			if n.left -= len(chart.objects[i].YAML); n.left < 0 {
				return nil, r.Error(fmt.Errorf("the charts produce more than %d MiB of text",
					n.engine.limits.MaxOutput>>20))
			}
			decoded, err := manifest.Decode(chart.objects[i].YAML, n.engine.limits.Budget)
			if err != nil {
				return nil, r.Error(err)
			}
			out = append(out, decoded...)
		}
		return out, nil
	}
}

// inflate renders an entry of helmCharts like `kustomize build --enable-helm --helm-kube-version VERSION
// --helm-api-versions APIS` with the versions of the cluster.
func (e *Engine) inflate(ctx context.Context, b *Bundle, charts []KustomizeChart, r *kustomize.Release,
	probe bool,
) (outcome, error) {
	i := slices.IndexFunc(charts, func(c KustomizeChart) bool { return c.Dir == r.Dir && c.Index == r.Index })
	if i < 0 {
		return outcome{}, errors.New("the bundle does not have the chart")
	}
	of := &HelmSource{Chart: charts[i].Chart, Dependencies: charts[i].Dependencies, IncludeCRDs: r.IncludeCRDs}
	var err error
	if of.Release, err = helm.ReleaseName(r.Name, r.NameTemplate); err != nil {
		return outcome{}, err
	}
	chart, err := e.chart(b.helm(), of)
	if err != nil {
		return outcome{}, err
	}
	values, err := r.Values(chart.Defaults())
	if err != nil {
		return outcome{}, err
	}
	o := helm.Options{
		Namespace: r.Namespace, KubeVersion: cmp.Or(r.KubeVersion, b.KubeVersion),
		APIVersions: firstList(r.APIVersions, b.APIVersions), Values: values, Probe: probe,
	}
	return e.release(ctx, of, chart, o, func(h helm.Hook) bool {
		return !r.SkipHooks && (h == helm.KeptHook || h == helm.TestHook && !r.SkipTests)
	})
}

// inflateError adds the entry of helmCharts to an error of its chart, whose own file and line stay in front.
func inflateError(r *kustomize.Release, err error) error {
	if input, ok := errors.AsType[*InputError](err); ok {
		out := *input
		out.Message += " (chart of " + r.Place() + ")"
		return &out
	}
	return r.Error(err)
}
