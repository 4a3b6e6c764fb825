package flux

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/importer/internal/wire"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// leftOut returns the files of a chart, and of the charts that it depends on by path, that the repository has and the
// artifact lacks: files that source-controller ignores, and symbolic links. They are sorted paths in the tree.
func (i *Importer) leftOut(a *artifact, chart string) ([]string, error) {
	if known, ok := a.left[chart]; ok {
		return known, nil
	}
	found := map[string]bool{}
	if err := i.addLeftOut(a, chart, found, map[string]bool{}); err != nil {
		return nil, fmt.Errorf("chart %s: %w", chart, err)
	}
	if a.left == nil {
		a.left = map[string][]string{}
	}
	a.left[chart] = slices.Sorted(maps.Keys(found))
	return a.left[chart], nil
}

// addLeftOut adds to found the files that leftOut returns.
func (i *Importer) addLeftOut(a *artifact, chart string, found, seen map[string]bool) error {
	if seen[chart] || !a.isDir(chart) { // a dependency that is missing is an error of the rendering
		return nil
	}
	seen[chart] = true
	if err := a.addMissing(chart, found); err != nil {
		return err
	}
	for _, dir := range i.localDependencies(a, chart) {
		if err := i.addLeftOut(a, dir, found, seen); err != nil {
			return err
		}
	}
	return nil
}

// addMissing adds the files and links below a directory that the artifact lacks.
func (a *artifact) addMissing(dir string, found map[string]bool) error {
	entries, err := a.tree.ReadDir(a.of.at(dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
			if err := a.addMissing(name, found); err != nil {
				return err
			}
		case (e.Type().IsRegular() || e.Type()&fs.ModeSymlink != 0) && !a.isFile(name):
			found[a.of.at(name)] = true
		}
	}
	return nil
}

// localDependencies returns the directories of file:// dependencies, or recalls them. The rendering reports a
// Chart.yaml that cannot be read.
func (i *Importer) localDependencies(a *artifact, chart string) []string {
	name := path.Join(chart, "Chart.yaml")
	if i.Memory == nil || !a.isFile(name) {
		return readLocalDependencies(a, chart)
	}
	key := "dependencies\x00" + i.idOf(a, name)
	var out []string
	if wire.Unmarshal(i.Memory.Get(key), &out) == nil {
		return out
	}
	out = readLocalDependencies(a, chart)
	if text, err := wire.Marshal(out); err == nil { // otherwise they are read again
		i.Memory.Put(key, text)
	}
	return out
}

// readLocalDependencies reads the directories of file:// dependencies; none if Chart.yaml cannot be read.
func readLocalDependencies(a *artifact, chart string) []string {
	data, err := a.ReadFile(path.Join(chart, "Chart.yaml"))
	if err != nil || manifest.Check(data, manifest.DefaultBudget()) != nil {
		return nil
	}
	var file struct {
		Dependencies []struct{ Repository string } `yaml:"dependencies"`
	}
	if yaml.Unmarshal(data, &file) != nil {
		return nil
	}
	var out []string
	for _, d := range file.Dependencies {
		if local, ok := strings.CutPrefix(d.Repository, "file://"); ok {
			out = append(out, path.Join(chart, local))
		}
	}
	return out
}
