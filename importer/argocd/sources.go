package argocd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/gobwas/glob"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// sources reads the sources of an Application into the unit, and returns the Applications and ApplicationSets that they
// bring.
func (i *importer) sources(ctx context.Context, u *Unit, app *application) ([]located, error) {
	list := app.Spec.Sources
	if len(list) == 0 && app.Spec.Source != nil {
		list = []source{*app.Spec.Source}
	}
	switch {
	case app.Spec.SourceHydrator != nil:
		return nil, errors.New("spec.sourceHydrator is not supported (Sluice writes rendered branches itself)")
	case len(list) == 0:
		return nil, errors.New("spec.source is missing")
	}
	var children []located
	for n := range list {
		s := &list[n]
		if s.Ref != "" && s.Path == "" && s.Chart == "" {
			continue // others take values files from it
		}
		out, err := i.source(ctx, app, s, list)
		if err != nil {
			field := "spec.source"
			if len(app.Spec.Sources) > 0 {
				field = fmt.Sprintf("spec.sources[%d]", n)
			}
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		if out.Chart != nil {
			if out, err = i.followed(ctx, u, out); err != nil {
				return nil, err
			}
		}
		u.Reads = append(u.Reads, out.reads...)
		var more []located
		out.Objects, more = i.divide(out.Objects, u)
		children = append(children, more...)
		if out.Root != nil {
			out.Objects = nil
			for _, child := range more {
				u.Followed = append(u.Followed, child.object)
			}
		}
		u.Sources = append(u.Sources, out)
	}
	return children, nil
}

// divide tells the Applications and ApplicationSets to follow from the other objects.
func (i *importer) divide(objects []manifest.Object, u *Unit) (ordinary []manifest.Object, children []located) {
	ordinary = make([]manifest.Object, 0, len(objects))
	for _, o := range objects {
		if at := i.childOrigin(o, u); isApplication(o) && !i.ignored(at.File) {
			children = append(children, located{o, at})
			continue
		}
		ordinary = append(ordinary, o)
	}
	return ordinary, children
}

// childOrigin is where an Application is written that another one brings. One that a chart renders is at its parent's
// place.
func (i *importer) childOrigin(o manifest.Object, parent *Unit) Origin {
	if at, ok := i.origins[o.Kind()+"/"+o.Name()]; ok {
		return at
	}
	return parent.Origin
}

// followed renders a chart of the repository if one of its templates may make an Application.
func (i *importer) followed(ctx context.Context, u *Unit, s Source) (Source, error) {
	if s.Chart.Path == "" || i.Render == nil {
		return s, nil
	}
	may := false
	from, dir := i.holding(s.Chart.Path)
	for _, name := range from.files {
		if !strings.HasPrefix(name, dir+"/templates/") && !strings.HasPrefix(name, dir+"/charts/") {
			continue
		}
		data, err := from.Tree.ReadFile(name)
		if err != nil {
			return s, err
		}
		if may = bytes.Contains(data, []byte(group+"/")); may {
			break
		}
	}
	if !may {
		return s, nil
	}
	objects, err := i.Render(ctx, s.Chart, u)
	if err != nil || !slices.ContainsFunc(objects, isApplication) {
		return s, err
	}
	return Source{Objects: objects, reads: append(s.reads, s.Chart.Path)}, nil
}

// source reads one source.
func (i *importer) source(ctx context.Context, app *application, s *source, all []source) (Source, error) {
	env := environment(app, s)
	if s.Chart != "" {
		chart, err := i.chart(app, s, all, "", env)
		if err != nil {
			return Source{}, err
		}
		chart.Version = s.TargetRevision
		switch url := strings.TrimSuffix(s.RepoURL, "/"); {
		case strings.HasPrefix(url, "oci://"):
			chart.Chart = url + "/" + s.Chart
		case strings.Contains(url, "://"):
			chart.Repo, chart.Chart = s.RepoURL, s.Chart
		default: // a registry, as Argo CD writes it
			chart.Chart = "oci://" + url + "/" + s.Chart
		}
		return Source{Chart: chart}, nil
	}
	from, err := i.contentOf(s.RepoURL, s.TargetRevision)
	if err != nil {
		return Source{}, err
	}
	out, err := from.local(ctx, app, s, all, env)
	if err != nil && from != i {
		return Source{}, fmt.Errorf("%s at %.7s: %w", s.RepoURL, s.TargetRevision, err)
	}
	return from.placed(out), err
}

// local reads a source whose files the importer has.
func (i *importer) local(ctx context.Context, app *application, s *source, all []source,
	env map[string]string,
) (Source, error) {
	dir, err := inside(".", s.Path)
	if err != nil {
		return Source{}, fmt.Errorf("path: %w", err)
	}
	if info, err := i.Tree.Stat(dir); err != nil || !info.IsDir() {
		return Source{}, fmt.Errorf("path: %q is not a directory of the repository", s.Path)
	}
	s, overrides, err := i.overridden(app, s, dir)
	if err != nil {
		return Source{}, err
	}
	var out Source
	switch kind, err := i.kind(s, dir); {
	case err != nil:
		return Source{}, err
	case kind == "helm":
		out.Chart, err = i.chart(app, s, all, dir, env)
		if s.Helm != nil {
			for _, p := range s.Helm.FileParameters {
				if name, err := inside(dir, p.Path); err == nil { // chart has returned the error
					overrides = append(overrides, name)
				}
			}
		}
		if err != nil {
			return Source{}, err
		}
	case kind == "kustomize":
		if out, err = i.kustomize(ctx, s.Kustomize, dir, env); err != nil {
			return Source{}, err
		}
	default:
		if out.Objects, out.reads, err = i.directory(s.Directory, dir); err != nil {
			return Source{}, err
		}
	}
	out.reads = append(out.reads, overrides...)
	return out, nil
}

// kind is the tool that Argo CD uses for a source: the one that the source names, or what the directory has.
func (i *importer) kind(s *source, dir string) (string, error) {
	var named []string
	if s.Helm != nil {
		named = append(named, "helm")
	}
	if s.Kustomize != nil {
		named = append(named, "kustomize")
	}
	if s.Directory != nil {
		named = append(named, "directory")
	}
	if s.Plugin != nil {
		return "", errors.New("plugin: config management plugins are not supported")
	}
	if len(named) > 1 {
		return "", fmt.Errorf("the source is for several tools: %s", strings.Join(named, ", "))
	}
	if len(named) == 1 {
		return named[0], nil
	}
	if kustomizationOf(i, dir) != "" {
		return "kustomize", nil
	}
	if i.isFile(path.Join(dir, "Chart.yaml")) {
		return "helm", nil
	}
	return "directory", nil
}

func (i *importer) isFile(name string) bool {
	_, ok := slices.BinarySearch(i.sortedFiles(), name)
	return ok
}

func (i *importer) sortedFiles() []string {
	if !slices.IsSorted(i.files) {
		slices.Sort(i.files)
	}
	return i.files
}

// overridden applies the files .argocd-source.yaml and .argocd-source-<app>.yaml of a directory, in this order. It
// returns those that exist, too.
func (i *importer) overridden(app *application, s *source, dir string) (out *source, files []string, err error) {
	for _, base := range []string{".argocd-source.yaml", ".argocd-source-" + app.Metadata.Name + ".yaml"} {
		name := path.Join(dir, base)
		if !i.isFile(name) {
			continue
		}
		files = append(files, name)
		data, err := i.Tree.ReadFile(name)
		if err != nil {
			return nil, nil, err
		}
		var patch, own map[string]any
		if err := yaml.Unmarshal(data, &patch); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := decode(s, &own); err != nil {
			return nil, nil, err
		}
		s = &source{}
		if err := decode(withoutNull(patched(own, patch)), s); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return s, files, nil
}

func withoutNull(m map[string]any) map[string]any {
	for k, v := range m {
		if v == nil {
			delete(m, k)
		}
	}
	return m
}

// inside joins a path of a source to a directory. `/x` is relative to the repository.
func inside(dir, name string) (string, error) {
	full := path.Join(dir, name)
	if rest, ok := strings.CutPrefix(name, "/"); ok {
		full = path.Clean(rest)
	}
	if full == ".." || strings.HasPrefix(full, "../") {
		return "", fmt.Errorf("%q leaves the repository", name)
	}
	return full, nil
}

// environment are the variables of a build.
// https://argo-cd.readthedocs.io/en/stable/user-guide/build-environment/
func environment(app *application, s *source) map[string]string {
	return map[string]string{
		"ARGOCD_APP_NAME": app.Metadata.Name, "ARGOCD_APP_NAMESPACE": app.Spec.Destination.Namespace,
		"ARGOCD_APP_PROJECT_NAME": app.Spec.Project,
		"ARGOCD_APP_SOURCE_PATH":  s.Path, "ARGOCD_APP_SOURCE_REPO_URL": s.RepoURL,
		"ARGOCD_APP_SOURCE_TARGET_REVISION": s.TargetRevision,
	}
}

// expand replaces variables of a build. One that only a cluster or a commit knows is an error.
func expand(text string, env map[string]string) (string, error) {
	var failed error
	out := os.Expand(text, func(name string) string {
		if name == "$" {
			return "$"
		}
		value, ok := env[name]
		if !ok && strings.HasPrefix(name, "ARGOCD_APP_REVISION") || name == "KUBE_VERSION" ||
			name == "KUBE_API_VERSIONS" {
			failed = fmt.Errorf("the variable %s is not supported: its value changes with each commit or cluster", name)
		}
		return value
	})
	return out, failed
}

// directory reads plain manifests. It returns the names of the files, too.
func (i *importer) directory(d *directorySource, dir string) (out []manifest.Object, files []string, err error) {
	if d == nil {
		d = &directorySource{}
	}
	include, err := patternOf("directory.include", d.Include)
	if err != nil {
		return nil, nil, err
	}
	exclude, err := patternOf("directory.exclude", d.Exclude)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range i.sortedFiles() {
		rel, ok := relativeTo(dir, name)
		if !ok || !d.Recurse && strings.Contains(rel, "/") || !isManifest(rel) && path.Ext(rel) != ".jsonnet" {
			continue
		}
		if exclude != nil && exclude.Match(rel) || include != nil && !include.Match(rel) {
			continue
		}
		objects, err := i.plain(name)
		if err != nil {
			return nil, nil, err
		}
		out, files = append(out, objects...), append(files, name)
	}
	return out, files, nil
}

// relativeTo returns the path of a file below a directory; false if the file is not in it.
func relativeTo(dir, name string) (string, bool) {
	if dir == "." {
		return name, true
	}
	return strings.CutPrefix(name, dir+"/")
}

// plain returns the objects of one file of plain manifests; none if Argo CD ignores the file.
func (i *importer) plain(name string) ([]manifest.Object, error) {
	if path.Ext(name) == ".jsonnet" {
		return nil, fmt.Errorf("%s: Jsonnet is not supported", name)
	}
	data, err := i.Tree.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(data, []byte("+argocd:skip-file-rendering")) {
		return nil, nil
	}
	objects, err := manifest.Decode(data, manifest.DefaultBudget())
	switch {
	case err == nil:
		return objects, nil
	case path.Ext(name) != ".json" && !looksLikeManifest(data):
		return nil, nil // such as values of a chart; Argo CD ignores it too
	}
	return nil, fmt.Errorf("%s: %w", name, err)
}

// looksLikeManifest tells an object with a mistake from YAML that is for something else, as Argo CD does.
func looksLikeManifest(data []byte) bool {
	return bytes.Contains(data, []byte("apiVersion:")) && bytes.Contains(data, []byte("kind:")) &&
		bytes.Contains(data, []byte("metadata:"))
}

// patternOf compiles a pattern with the library that Argo CD uses: a wildcard matches slashes.
func patternOf(field, text string) (*glob.Pattern, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxPattern {
		return nil, fmt.Errorf("%s has more than %d characters", field, maxPattern)
	}
	g, err := glob.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: bad pattern %q", field, text)
	}
	return g, nil
}
