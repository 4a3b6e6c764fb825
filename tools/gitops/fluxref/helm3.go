package fluxref

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	helmutil "helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
)

// helm3 renders a chart with Helm 3. The result is a stream of documents, with the hooks but for those of tests.
func helm3(ctx context.Context, in *install) (string, error) {
	loaded, err := loaded3(filepath.Join(in.dir, in.Chart))
	if err != nil {
		return "", err
	}
	values, err := in.defaults(func(name string) (map[string]any, error) { return helmutil.ReadValuesFile(name) })
	if err != nil {
		return "", err
	}
	if values != nil {
		loaded.Values = values
	}
	i := action.NewInstall(&action.Configuration{})
	i.DryRun, i.ClientOnly = true, true
	i.ReleaseName, i.Namespace, i.APIVersions = in.name, in.namespace, in.apiVersions
	i.IncludeCRDs, i.DisableHooks, i.SkipSchemaValidation = in.crds, in.noHooks, in.noSchema
	if in.kubeVersion != "" {
		if i.KubeVersion, err = helmutil.ParseKubeVersion(in.kubeVersion); err != nil {
			return "", fmt.Errorf("kubeVersion: %w", err)
		}
	}
	done, err := i.RunWithContext(ctx, loaded, in.values)
	if err != nil {
		return "", err
	}
	text := done.Manifest
	for _, h := range done.Hooks {
		if !in.noHooks && !slices.Contains(h.Events, release.HookTest) {
			text += "\n---\n" + h.Manifest
		}
	}
	return text, nil
}

// loaded3 loads a chart, and adds the dependencies with a file:// address that its folder charts/ lacks.
func loaded3(dir string) (*chart.Chart, error) {
	out, err := loader.LoadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, d := range out.Metadata.Dependencies {
		path, ok := local(dir, d.Repository)
		known := func(have *chart.Chart) bool { return have.Name() == d.Name }
		if !ok || slices.ContainsFunc(out.Dependencies(), known) {
			continue
		}
		inner, err := loaded3(path)
		if err != nil {
			return nil, err
		}
		out.AddDependency(inner)
	}
	return out, nil
}
