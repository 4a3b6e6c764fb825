package fluxref

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/chartutil"
	ssautil "github.com/fluxcd/pkg/ssa/utils"
	"github.com/go-logr/logr"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	helmutil "helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// release renders a chart of the repository as helm-controller does. Its post-renderers are not among the public libraries.
func (c *cluster) release(u *Object) ([]*Object, error) {
	var r helmv2.HelmRelease
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &r); err != nil {
		return nil, err
	}
	switch {
	case r.Spec.ChartRef != nil:
		return nil, skipError("its chart is named by spec.chartRef")
	case len(r.Spec.PostRenderers) > 0:
		return nil, skipError("it has spec.postRenderers")
	case r.Spec.Chart == nil || r.Spec.Chart.Spec.SourceRef.Kind != "GitRepository" || r.Spec.Chart.Spec.SourceRef.Name != c.own:
		return nil, skipError("its chart is not in this repository")
	}
	loaded, err := c.chart(&r)
	if err != nil {
		return nil, err
	}
	values, err := chartutil.ChartValuesFromReferences(c.ctx, logr.Discard(), c.client(nil), r.Namespace, r.GetValues(), r.Spec.ValuesFrom...)
	if err != nil {
		return nil, err
	}
	install := action.NewInstall(&action.Configuration{})
	install.DryRun, install.ClientOnly, install.ReleaseName, install.Namespace = true, true, r.GetReleaseName(), r.GetReleaseNamespace()
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

// chart loads the chart of a release, with the values files that source-controller writes into it.
func (c *cluster) chart(r *helmv2.HelmRelease) (*chart.Chart, error) {
	loaded, err := loader.LoadDir(filepath.Join(c.Dir, r.Spec.Chart.Spec.Chart))
	if err != nil {
		return nil, err
	}
	if len(r.Spec.Chart.Spec.ValuesFiles) == 0 {
		return loaded, nil
	}
	merged := map[string]any{}
	for _, f := range r.Spec.Chart.Spec.ValuesFiles {
		values, err := helmutil.ReadValuesFile(filepath.Join(c.Dir, f))
		if errors.Is(err, fs.ErrNotExist) && r.Spec.Chart.Spec.IgnoreMissingValuesFiles {
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
