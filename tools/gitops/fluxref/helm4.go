package fluxref

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
)

// helm4 renders a chart with Helm 4. The result is a stream of documents, with the hooks but for those of tests.
func helm4(ctx context.Context, in *install) (string, error) {
	loaded, err := loaded4(filepath.Join(in.dir, in.Chart))
	if err != nil {
		return "", err
	}
	values, err := in.defaults(func(name string) (map[string]any, error) { return common.ReadValuesFile(name) })
	if err != nil {
		return "", err
	}
	if values != nil {
		loaded.Values = values
	}
	i := action.NewInstall(action.NewConfiguration())
	i.DryRunStrategy = action.DryRunClient
	i.ReleaseName, i.Namespace, i.APIVersions = in.name, in.namespace, in.apiVersions
	i.IncludeCRDs, i.DisableHooks, i.SkipSchemaValidation = in.crds, in.noHooks, in.noSchema
	if in.kubeVersion != "" {
		if i.KubeVersion, err = common.ParseKubeVersion(in.kubeVersion); err != nil {
			return "", fmt.Errorf("kubeVersion: %w", err)
		}
	}
	result, err := i.RunWithContext(ctx, loaded, in.values)
	if err != nil {
		return "", err
	}
	done, ok := result.(*release.Release)
	if !ok {
		return "", fmt.Errorf("helm returned a release of the type %T", result)
	}
	text := done.Manifest
	for _, h := range done.Hooks {
		if !in.noHooks && !slices.Contains(h.Events, release.HookTest) {
			text += "\n---\n" + h.Manifest
		}
	}
	return text, nil
}

// loaded4 loads a chart, and adds the dependencies with a file:// address that its folder charts/ lacks.
func loaded4(dir string) (*chart.Chart, error) {
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
		inner, err := loaded4(path)
		if err != nil {
			return nil, err
		}
		out.AddDependency(inner)
	}
	return out, nil
}
