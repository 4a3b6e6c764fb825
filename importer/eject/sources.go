package eject

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/importer/internal/layered"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// appSources are the sources of an app, and those of the environments that differ.
type appSources struct {
	all          []fleet.Source
	environments map[string][]fleet.Source
}

// sources returns the sources of app.yaml. Charts and Kustomize roots stay where they are; the values of a chart become
// layers, and objects that neither makes become manifests. sources adds the layers and manifests to files.
//
// Each step fills lists, which has the sources of each target, in the order of a.targets.
func (a *App) sources(files map[string][]byte) (appSources, error) {
	lists := make([][]fleet.Source, len(a.targets))
	for n := range a.targets[0].Sources {
		name := ""
		if len(a.targets[0].Sources) > 1 {
			name = "source-" + strconv.Itoa(n)
		}
		if a.targets[0].Sources[n].Kustomize != nil {
			if err := a.roots(lists, n, name); err != nil {
				return appSources{}, err
			}
			continue
		}
		if a.targets[0].Sources[n].Helm == nil {
			if err := a.manifests(lists, n, name, files); err != nil {
				return appSources{}, err
			}
			continue
		}
		values := make([]map[string]any, len(a.targets))
		for i, t := range a.targets {
			s := t.Sources[n]
			if s.Helm == nil {
				return appSources{}, refusal(t, "its source is no chart, and one on %s", a.targets[0].Cluster)
			}
			lists[i] = append(lists[i], fleet.Source{Name: name, Helm: s.Helm})
			values[i] = s.Given()
		}
		if err := a.values(values, name, files); err != nil {
			return appSources{}, err
		}
	}
	return a.fold(lists)
}

// values writes the values of a chart, list has those of each target: the common part in the layer global, the rest in
// the layer cluster.
func (a *App) values(list []map[string]any, source string, files map[string][]byte) error {
	file := "values.yaml"
	if source != "" {
		file = "values." + source + ".yaml"
	}
	write := func(dir string, values map[string]any) error {
		if len(values) == 0 {
			return nil
		}
		text, err := yaml.Marshal(layered.Escaped(values))
		files[path.Join(a.dir, "layers", dir, file)] = text
		return err
	}
	shared := layered.Common(list)
	if err := write("global", shared); err != nil {
		return err
	}
	for i, t := range a.targets {
		if err := write("cluster/"+t.Cluster, layered.Rest(list[i], shared)); err != nil {
			return err
		}
	}
	return nil
}

// roots adds the source n, a Kustomize root with helmCharts, to the lists.
func (a *App) roots(lists [][]fleet.Source, n int, name string) error {
	for i, t := range a.targets {
		k := t.Sources[n].Kustomize
		if k == nil {
			return refusal(t, "its source has no helmCharts, and the one on %s has some", a.targets[0].Cluster)
		}
		if k.Edited != nil {
			return refusal(t, "its kustomization in %s has helmCharts, and the Application changes it (move the fields of spec.source.kustomize to the kustomization first)", k.Path)
		}
		lists[i] = append(lists[i], fleet.Source{Name: name, Kustomize: &fleet.PathSource{Path: k.Path}})
	}
	return nil
}

// texts returns the rendered objects of the source n of a target, as canonical YAML.
func (a *App) texts(t *fleet.Imported, n int) ([]string, error) {
	if t.Sources[n].Helm != nil {
		return nil, refusal(t, "its source is a chart, and none on %s", a.targets[0].Cluster)
	}
	if t.Sources[n].Kustomize != nil {
		return nil, refusal(t, "its source has helmCharts, and the one on %s has none", a.targets[0].Cluster)
	}
	objects, err := manifest.Decode([]byte(t.Sources[n].Objects), manifest.DefaultBudget())
	if err != nil {
		return nil, refusal(t, "%v", err)
	}
	var out []string
	for _, o := range objects {
		text, err := manifest.Encode(o)
		if err != nil {
			return nil, refusal(t, "%v", err)
		}
		out = append(out, string(text))
	}
	return out, nil
}

// manifests writes the rendered objects of the source n, and adds folders with them to the lists: `common` has the
// objects that are equal on all clusters, `cluster` has a folder of the others for each cluster.
func (a *App) manifests(lists [][]fleet.Source, n int, name string, files map[string][]byte) error {
	count, documents := map[string]int{}, make([][]string, len(a.targets))
	for i, t := range a.targets {
		texts, err := a.texts(t, n)
		if err != nil {
			return err
		}
		for _, text := range texts {
			count[text]++
		}
		documents[i] = texts
	}
	dir := path.Join(a.dir, "manifests", name)
	own := make([][]string, len(a.targets))
	var shared []string
	some, every := false, true // some clusters, and every cluster, have objects of their own
	for i := range documents {
		for _, text := range documents[i] {
			switch {
			case count[text] != len(a.targets):
				own[i] = append(own[i], text)
			case i == 0:
				shared = append(shared, text)
			}
		}
		some, every = some || len(own[i]) > 0, every && len(own[i]) > 0
	}
	if some && !every { // a source needs objects on every cluster: write all objects for each
		own, shared = documents, nil
	}
	sources := []fleet.Source{}
	if len(shared) > 0 {
		files[path.Join(dir, "common/objects.yaml")] = stream(shared)
		sources = append(sources, fleet.Source{
			Name:      partName(name, "common"),
			Manifests: &fleet.PathSource{Path: path.Join(dir, "common")},
		})
	}
	if some {
		for i, t := range a.targets {
			files[path.Join(dir, "cluster", t.Cluster, "objects.yaml")] = stream(own[i])
		}
		sources = append(sources, fleet.Source{
			Name:      partName(name, "cluster"),
			Manifests: &fleet.PathSource{Path: path.Join(dir, "cluster") + "/${cluster.name}"},
		})
	}
	for i := range lists {
		lists[i] = append(lists[i], sources...)
	}
	return nil
}

// partName returns the name of a part of a source; the only source of an app has no name.
func partName(source, part string) string {
	if source == "" {
		return part
	}
	return source + "-" + part
}

// stream joins YAML documents.
func stream(documents []string) []byte {
	var out bytes.Buffer
	for _, text := range documents {
		out.WriteString("---\n" + text)
	}
	return out.Bytes()
}

// fold turns the sources of each target into those of one app: the sources of the first target, and those of each
// environment that differs from it. It refuses sources that differ within an environment.
func (a *App) fold(lists [][]fleet.Source) (appSources, error) {
	out := appSources{all: lists[0]}
	first := a.environment(0)
	byEnvironment := map[string]int{} // index of the first target
	for i := range lists {
		name := a.environment(i)
		before, known := byEnvironment[name]
		if known && !equal(lists[before], lists[i]) {
			return out, refusal(a.targets[i], "its sources differ from those on %s in the same environment %s (%s)",
				a.targets[before].Cluster, name, difference(lists[i], lists[before]))
		}
		if known {
			continue
		}
		byEnvironment[name] = i
		if name != first && !equal(lists[0], lists[i]) {
			if out.environments == nil {
				out.environments = map[string][]fleet.Source{}
			}
			out.environments[name] = lists[i]
		}
	}
	return out, nil
}

// environment returns the environment of the target i.
func (a *App) environment(i int) string {
	c, _ := a.fleet.Cluster(a.targets[i].Cluster) // describable requires it
	return c.Environment
}

// difference names the first source of x and y that differs.
func difference(x, y []fleet.Source) string {
	for i := range min(len(x), len(y)) {
		if !equal(x[i], y[i]) {
			return fmt.Sprintf("%s and %s", describe(&x[i]), describe(&y[i]))
		}
	}
	return fmt.Sprintf("%d sources and %d", len(x), len(y))
}

// describe names a source in a message.
func describe(s *fleet.Source) string {
	if h := s.Helm; h != nil {
		return strings.TrimSpace(h.Chart + h.Path + " " + h.Version + " as " + h.ReleaseName)
	}
	if s.Kustomize != nil {
		return s.Kustomize.Path
	}
	return s.Manifests.Path
}

// inPlace returns the directories of a Kustomization as sources. It returns false if the Kustomization changes what its
// directory builds, or if the clusters of an environment have different directories.
func (a *App) inPlace() (appSources, bool) {
	lists := make([][]fleet.Source, len(a.targets))
	for i, t := range a.targets {
		dir, ok := a.directory(t)
		if !ok {
			return appSources{}, false
		}
		source := fleet.Source{Manifests: &fleet.PathSource{Path: dir}}
		for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
			if a.exists(path.Join(dir, name)) {
				source = fleet.Source{Kustomize: &fleet.PathSource{Path: dir}}
			}
		}
		lists[i] = []fleet.Source{source}
	}
	sources, err := a.fold(lists)
	return sources, err == nil
}

// directory reads spec.path of a Kustomization in its file. It returns false if it cannot, or if another field of the
// spec changes what the directory builds.
func (a *App) directory(t *fleet.Imported) (string, bool) {
	data, err := a.read(t.File)
	if err != nil {
		return "", false
	}
	lines := strings.SplitAfter(string(data), "\n")
	if t.Line < 1 || t.Line > len(lines) {
		return "", false
	}
	text, _, _ := strings.Cut(strings.Join(lines[t.Line-1:], ""), "\n---")
	var ks struct {
		Spec map[string]any `json:"spec"`
	}
	if yaml.Unmarshal([]byte(text), &ks) != nil {
		return "", false
	}
	for _, field := range []string{
		"patches", "images", "components", "targetNamespace", "namePrefix", "nameSuffix",
		"commonMetadata", "postBuild",
	} {
		if ks.Spec[field] != nil {
			return "", false
		}
	}
	dir, ok := ks.Spec["path"].(string)
	dir = strings.TrimPrefix(path.Clean("/"+dir), "/")
	return dir, ok && dir != ""
}
