package fluxref

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/chartutil"
	"github.com/fluxcd/pkg/kustomize"
	ssautil "github.com/fluxcd/pkg/ssa/utils"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/go-logr/logr"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	helmutil "helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
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
	loaded, err := loadChart(from, dir)
	if err != nil {
		return nil, err
	}
	values, err := chartutil.ChartValuesFromReferences(c.ctx, logr.Discard(), c.client(nil), r.Namespace, r.GetValues(),
		r.Spec.ValuesFrom...)
	if err != nil {
		return nil, err
	}
	install := action.NewInstall(&action.Configuration{})
	install.DryRun, install.ClientOnly, install.ReleaseName, install.Namespace = true, true, r.GetReleaseName(),
		r.GetReleaseNamespace()
	install.IncludeCRDs = true
	if in := r.Spec.Install; in != nil {
		install.IncludeCRDs = in.CRDs != helmv2.Skip && !in.SkipCRDs
		install.DisableHooks, install.SkipSchemaValidation = in.DisableHooks, in.DisableSchemaValidation
	}
	install.APIVersions = c.APIVersions
	if c.KubeVersion != "" {
		if install.KubeVersion, err = helmutil.ParseKubeVersion(c.KubeVersion); err != nil {
			return nil, fmt.Errorf("kubeVersion: %w", err)
		}
	}
	done, err := install.RunWithContext(c.ctx, loaded, values)
	if err != nil {
		return nil, err
	}
	text := done.Manifest
	if !install.DisableHooks {
		for _, h := range done.Hooks {
			if !slices.Contains(h.Events, release.HookTest) {
				text += "\n---\n" + h.Manifest
			}
		}
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

// loadChart loads a chart as source-controller packs it: with its local dependencies, and with the values files in
// place of its own values.
func loadChart(from sourcev1.HelmChartSpec, dir string) (*chart.Chart, error) {
	loaded, err := withDependencies(filepath.Join(dir, from.Chart))
	if err != nil {
		return nil, err
	}
	if len(from.ValuesFiles) == 0 {
		return loaded, nil
	}
	merged := map[string]any{}
	for _, f := range from.ValuesFiles {
		values, err := helmutil.ReadValuesFile(filepath.Join(dir, f))
		if errors.Is(err, fs.ErrNotExist) && from.IgnoreMissingValuesFiles {
			continue
		}
		if err != nil {
			return nil, err
		}
		merged = chartutil.MergeMaps(merged, values)
	}
	loaded.Values = merged
	return loaded, nil
}

// withDependencies loads a chart, and adds the dependencies with a file:// address that its folder charts/ lacks.
func withDependencies(dir string) (*chart.Chart, error) {
	loaded, err := loader.LoadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, d := range loaded.Metadata.Dependencies {
		local, ok := strings.CutPrefix(d.Repository, "file://")
		if !ok || slices.ContainsFunc(loaded.Dependencies(),
			func(have *chart.Chart) bool { return have.Name() == d.Name }) {
			continue
		}
		inner, err := withDependencies(filepath.Join(dir, local))
		if err != nil {
			return nil, err
		}
		loaded.AddDependency(inner)
	}
	return loaded, nil
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
