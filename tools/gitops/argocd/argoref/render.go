package argoref

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/reposerver/apiclient"
	"github.com/argoproj/argo-cd/v3/reposerver/repository"
	apppath "github.com/argoproj/argo-cd/v3/util/app/path"
	"github.com/argoproj/argo-cd/v3/util/git"
	utilio "github.com/argoproj/argo-cd/v3/util/io"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// render does the same as the repository server with the sources of an Application. Argo CD edits kustomizations in
// place, so each Application gets a copy of the repository.
func (b *builder) render(ctx context.Context, app *v1alpha1.Application, cluster Cluster) ([]*unstructured.Unstructured,
	error,
) {
	if app.Spec.SourceHydrator != nil {
		return nil, skip("it has spec.sourceHydrator")
	}
	sources := app.Spec.GetSources()
	for i := range sources {
		if err := b.inCommit(&sources[i]); err != nil {
			return nil, err
		}
	}
	work, err := os.MkdirTemp(b.work, "app")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	files, temp := filepath.Join(work, "files"), filepath.Join(work, "temp")
	if err := errors.Join(os.Mkdir(temp, 0o700), os.CopyFS(files, os.DirFS(b.Dir))); err != nil {
		return nil, err
	}
	refs := map[string]*v1alpha1.RefTarget{}
	paths := utilio.NewRandomizedTempPaths(temp)
	for _, s := range sources {
		paths.Add(git.NormalizeGitURL(s.RepoURL), files)
		if s.Ref != "" {
			refs["$"+s.Ref] = &v1alpha1.RefTarget{
				Repo:           v1alpha1.Repository{Repo: s.RepoURL},
				TargetRevision: s.TargetRevision,
			}
		}
	}
	var out []*unstructured.Unstructured
	for _, s := range sources {
		if s.Ref != "" && s.Path == "" {
			continue // others take values files from it
		}
		objects, err := b.source(ctx, files, &apiclient.ManifestRequest{
			Repo: &v1alpha1.Repository{Repo: s.RepoURL}, AppName: app.Name, Namespace: app.Spec.Destination.Namespace,
			ApplicationSource: &s,
			NoCache:           true, RefSources: refs, HasMultipleSources: app.Spec.HasMultipleSources(),
			ProjectName: app.Spec.Project, ProjectSourceRepos: []string{"*"},
			KubeVersion: cluster.KubeVersion, ApiVersions: cluster.APIVersions,
			KustomizeOptions: b.kustomize(&s),
		}, paths)
		if err != nil {
			var why skip
			if errors.As(err, &why) {
				return nil, err
			}
			return nil, errors.New(strings.ReplaceAll(err.Error(), files+"/", ""))
		}
		out = append(out, objects...)
	}
	return out, nil
}

// kustomize returns the options of Kustomize. A version that a source names is registered as the kustomize in PATH: what
// is registered is not in the repository.
func (b *builder) kustomize(s *v1alpha1.ApplicationSource) *v1alpha1.KustomizeOptions {
	out := &v1alpha1.KustomizeOptions{BuildOptions: b.BuildOptions}
	if s.Kustomize != nil && s.Kustomize.Version != "" {
		out.Versions = []v1alpha1.KustomizeVersion{
			{Name: s.Kustomize.Version, Path: "kustomize", BuildOptions: b.BuildOptions},
		}
	}
	return out
}

// source renders one source.
func (b *builder) source(ctx context.Context, files string, q *apiclient.ManifestRequest,
	paths utilio.TempPaths,
) ([]*unstructured.Unstructured, error) {
	dir, err := apppath.Path(files, q.ApplicationSource.Path)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(vendored(files, dir), inRepository(files, dir, map[string]bool{})); err != nil {
		return nil, err
	}
	response, err := repository.GenerateManifests(ctx, dir, files, "revision", q, true, nil, resource.MustParse("0"),
		paths)
	if err != nil {
		return nil, err
	}
	out := make([]*unstructured.Unstructured, len(response.Manifests))
	for i, text := range response.Manifests {
		out[i] = &unstructured.Unstructured{}
		if err := out[i].UnmarshalJSON([]byte(text)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// inCommit reports a source that needs more than the files of the commit.
func (b *builder) inCommit(s *v1alpha1.ApplicationSource) error {
	switch {
	case s.Chart != "":
		return skip(fmt.Sprintf("its chart %s is in %s", s.Chart, s.RepoURL))
	case s.Plugin != nil:
		return skip("a plugin builds it")
	}
	if s.Helm != nil {
		for _, name := range s.Helm.ValueFiles {
			if strings.Contains(name, "://") {
				return skip("its values file " + name + " is not in the repository")
			}
		}
	}
	return b.thisCommit(s.RepoURL, s.TargetRevision)
}

// vendored reports a dependency of a chart that is not in its charts directory: Argo CD fetches it.
func vendored(files, dir string) error {
	for _, name := range []string{"Chart.yaml", "requirements.yaml"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue // no chart, or none of Helm 2
		}
		var chart struct {
			Dependencies []struct {
				Name       string `json:"name"`
				Repository string `json:"repository"`
			} `json:"dependencies"`
		}
		if yaml.Unmarshal(data, &chart) != nil {
			return nil // Helm reports it
		}
		for _, d := range chart.Dependencies {
			_, missing := os.Stat(filepath.Join(dir, "charts", d.Name))
			archives, err := filepath.Glob(filepath.Join(dir, "charts", d.Name+"-*.tgz"))
			if err != nil {
				return err
			}
			if missing != nil && len(archives) == 0 && d.Repository != "" &&
				!strings.HasPrefix(d.Repository, "file://") {
				return skip(fmt.Sprintf("%s needs the chart %s from %s", relative(files, filepath.Join(dir, name)),
					d.Name, d.Repository))
			}
		}
	}
	return nil
}

// inRepository reports a resource or a chart of a kustomization that is not in the repository: Kustomize fetches it.
func inRepository(files, dir string, seen map[string]bool) error {
	if seen[dir] {
		return nil
	}
	seen[dir] = true
	for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		var k struct {
			Resources, Bases, Components, Crds, Generators, Transformers, Validators []string

			HelmGlobals struct{ ChartHome string }
			HelmCharts  []struct{ Name, Repo, Version string }
		}
		if yaml.Unmarshal(data, &k) != nil {
			return nil // Kustomize reports it
		}
		for _, c := range k.HelmCharts {
			home := filepath.Join(dir, cmp.Or(k.HelmGlobals.ChartHome, "charts"))
			if c.Repo != "" && c.Version != "" {
				home = filepath.Join(home, c.Name+"-"+c.Version)
			}
			if info, err := os.Stat(filepath.Join(home, c.Name)); c.Repo != "" && (err != nil || !info.IsDir()) {
				return skip(fmt.Sprintf("%s needs the chart %s from %s", relative(files, filepath.Join(dir, name)),
					c.Name, c.Repo))
			}
		}
		for _, r := range slices.Concat(k.Resources, k.Bases, k.Components, k.Crds, k.Generators, k.Transformers,
			k.Validators) {
			full := filepath.Join(dir, r)
			info, err := os.Stat(full)
			switch {
			case err == nil && info.IsDir():
				if err := inRepository(files, full, seen); err != nil {
					return err
				}
			case err != nil && (strings.Contains(r, "://") || strings.Contains(r, "?ref=") ||
				strings.Contains(r, "@") || strings.HasPrefix(r, "github.com")):
				return skip(fmt.Sprintf("%s reads %s", relative(files, filepath.Join(dir, name)), r))
			}
		}
	}
	return nil
}

func relative(root, name string) string {
	if rel, err := filepath.Rel(root, name); err == nil {
		return filepath.ToSlash(rel)
	}
	return name
}
