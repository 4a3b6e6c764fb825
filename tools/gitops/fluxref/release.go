package fluxref

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/chartutil"
	"github.com/fluxcd/pkg/kustomize"
	ssautil "github.com/fluxcd/pkg/ssa/utils"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// release renders a chart of the repository as helm-controller does.
func (c *cluster) release(u *Object) ([]*Object, error) {
	var r helmv2.HelmRelease
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &r); err != nil {
		return nil, err
	}
	from, dir, err := c.chartOf(&r)
	if err != nil {
		return nil, err
	}
	values, err := chartutil.ChartValuesFromReferences(c.ctx, logr.Discard(), c.client(nil), r.Namespace, r.GetValues(),
		r.Spec.ValuesFrom...)
	if err != nil {
		return nil, err
	}
	in := install{
		HelmChartSpec: from, dir: dir, values: values, name: r.GetReleaseName(), namespace: r.GetReleaseNamespace(),
		crds: true, kubeVersion: c.KubeVersion, apiVersions: c.APIVersions,
	}
	if own := r.Spec.Install; own != nil {
		in.crds = own.CRDs != helmv2.Skip && !own.SkipCRDs
		in.noHooks, in.noSchema = own.DisableHooks, own.DisableSchemaValidation
	}
	render := helm4
	if c.Helm == 3 {
		render = helm3
	}
	text, err := render(c.ctx, &in)
	if err != nil {
		return nil, err
	}
	if text, err = c.postRendered(text, r.Spec.PostRenderers); err != nil {
		return nil, err
	}
	out, err := decode(text)
	if err != nil {
		return nil, err
	}
	if m := r.Spec.CommonMetadata; m != nil {
		ssautil.SetCommonMetadata(out, m.Labels, m.Annotations)
	}
	return out, nil
}

// releaseNamespace returns the namespace of a release.
func releaseNamespace(u *Object) string {
	target, _, _ := unstructured.NestedString(u.Object, "spec", "targetNamespace")
	return cmp.Or(target, u.GetNamespace())
}

// chartOf returns the chart of a release, its own or that of the HelmChart that it names, and the directory of its
// source.
func (c *cluster) chartOf(r *helmv2.HelmRelease) (sourcev1.HelmChartSpec, string, error) {
	var out sourcev1.HelmChartSpec
	namespace := r.Namespace
	switch ref := r.Spec.ChartRef; {
	case ref != nil && ref.Kind != "HelmChart":
		return out, "", skipError("its chart is in a registry")
	case ref != nil:
		key := ref.Kind + "/" + cmp.Or(ref.Namespace, r.Namespace) + "/" + ref.Name
		o, ok := c.store[key]
		if !ok {
			return out, "", fmt.Errorf("%s is missing", key)
		}
		var chart sourcev1.HelmChart
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &chart); err != nil {
			return out, "", err
		}
		out, namespace = chart.Spec, o.GetNamespace()
	case r.Spec.Chart == nil:
		return out, "", errors.New("it names no chart")
	default:
		t := r.Spec.Chart.Spec
		out.Chart, out.ValuesFiles, out.IgnoreMissingValuesFiles = t.Chart, t.ValuesFiles, t.IgnoreMissingValuesFiles
		out.SourceRef.Kind, out.SourceRef.Name = t.SourceRef.Kind, t.SourceRef.Name
		namespace = cmp.Or(t.SourceRef.Namespace, namespace)
	}
	dir, err := c.source(out.SourceRef.Kind, namespace, out.SourceRef.Name)
	if errors.Is(err, errForeign) {
		return out, "", skipError("its chart is not in this repository")
	}
	return out, dir, err
}

// install is what helm-controller tells Helm to render. The chart is loaded as source-controller packs it: with its
// local dependencies, and with the values files in place of its own values.
type install struct {
	sourcev1.HelmChartSpec
	dir               string // of the source
	values            map[string]any
	name, namespace   string
	crds              bool
	noHooks, noSchema bool
	kubeVersion       string // "" for Helm's default
	apiVersions       []string
}

// defaults returns the values of the values files, read by a version of Helm; nil for none.
func (i *install) defaults(read func(name string) (map[string]any, error)) (map[string]any, error) {
	if len(i.ValuesFiles) == 0 {
		return nil, nil
	}
	merged := map[string]any{}
	for _, f := range i.ValuesFiles {
		values, err := read(filepath.Join(i.dir, f))
		if errors.Is(err, fs.ErrNotExist) && i.IgnoreMissingValuesFiles {
			continue
		}
		if err != nil {
			return nil, err
		}
		merged = chartutil.MergeMaps(merged, values)
	}
	return merged, nil
}

// local returns the directory of a dependency with a file:// address.
func local(dir, repository string) (string, bool) {
	path, ok := strings.CutPrefix(repository, "file://")
	return filepath.Join(dir, path), ok
}

// postRendered has Kustomize change the output of Helm, one post-renderer after the other. helm-controller's code for
// it is not among the public libraries; it writes the same kustomization.
func (c *cluster) postRendered(text string, list []helmv2.PostRenderer) (string, error) {
	for _, p := range list {
		if p.Kustomize == nil {
			continue
		}
		dir, err := os.MkdirTemp(c.temp, "post")
		if err != nil {
			return "", err
		}
		config, err := json.Marshal(map[string]any{
			"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
			"resources": []string{"helm.yaml"},
			"patches":   p.Kustomize.Patches, "images": p.Kustomize.Images,
		})
		if err := errors.Join(err, os.WriteFile(filepath.Join(dir, "helm.yaml"), []byte(text), 0o600),
			os.WriteFile(filepath.Join(dir, "kustomization.yaml"), config, 0o600)); err != nil {
			return "", err
		}
		built, err := kustomize.SecureBuild(dir, dir, false)
		if err != nil {
			return "", err
		}
		out, err := built.AsYaml()
		if err != nil {
			return "", err
		}
		text = string(out)
	}
	return text, nil
}
