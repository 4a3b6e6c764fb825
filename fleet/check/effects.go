package check

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/nearest"
)

// Effects finds declarations and folders without effect, which are mostly typing errors. A folder that cannot be read
// is an error. It is what a fleet.Loader calls.
func Effects(f *fleet.Fleet) fleet.Problems {
	ef := &effects{fleet: f}
	ef.all()
	return ef.problems
}

// effects looks for declarations and folders without effect.
type effects struct {
	fleet    *fleet.Fleet
	read     int // files whose content was looked at
	problems fleet.Problems
}

func (ef *effects) add(found fleet.Problems) { ef.problems = append(ef.problems, found...) }

func (ef *effects) all() {
	f := ef.fleet
	values := labelValues{f, map[string]map[string]bool{}}
	folders := map[string]*fleet.App{}
	for _, a := range f.Declared() {
		if a.Spec.ForEach != nil && len(f.Clusters) > 0 && !slices.ContainsFunc(f.Apps,
			func(one *fleet.App) bool { return one.Declared() == a.Name && one.Describes() != nil }) {
			ef.add(a.Warning([]string{"spec", "forEach"}, "compare it with the labels of clusters and classes",
				"app %s describes no cluster", a.Name))
		}
		ef.described(a)
		if first, ok := folders[a.Dir]; ok && a.Dir != "" && f.Has(path.Join(a.Dir, "layers")) {
			ef.add(a.Warning([]string{"metadata", "name"},
				"give each app a folder, or give the layers paths with ${app}",
				"apps %s and %s are in one folder and share its layers", first.Name, a.Name))
		}
		folders[a.Dir] = a
		if !a.Imported() && !slices.ContainsFunc(f.Clusters, a.Selects) && len(f.Clusters) > 0 {
			ef.add(a.Warning([]string{"spec", "placement"}, "compare it with the labels of clusters and classes",
				"app %s is placed on no cluster", a.Name))
		}
		if a.Dir != "" {
			ef.layerFolders(path.Join(a.Dir, "layers"), a, values)
		}
	}
	ef.layerFolders("layers", nil, values)
	ef.misplaced()
	for _, w := range f.Workspaces {
		ef.layerFolders(path.Join(w.Root, "layers"), nil, values)
	}
	for _, e := range f.Spec.Environments {
		if len(f.ClustersOf(e.Name)) == 0 {
			ef.add(f.Warning([]string{"spec", "environments"}, "", "environment %s has no cluster", e.Name))
		}
		for _, w := range e.Promotion.Waves {
			if w.Clusters != nil && !slices.ContainsFunc(f.ClustersOf(e.Name),
				func(c *fleet.Cluster) bool { return w.Clusters.Matches(c.Labels) }) {
				ef.add(f.Warning([]string{"spec", "environments"}, "", "environment %s, wave %s selects no cluster",
					e.Name, w.Name))
			}
		}
	}
}

// described warns about described clusters that all move at once, although their environments have an order.
func (ef *effects) described(a *fleet.App) {
	f := ef.fleet
	promoted := func(c *fleet.Cluster) bool {
		e, ok := f.Environment(c.Environment)
		return ok && len(e.After) > 0
	}
	if a.Spec.ForEach == nil || !slices.ContainsFunc(f.Apps, func(one *fleet.App) bool {
		return one.Describes() != nil && one.Declared() == a.Name && promoted(one.Describes())
	}) {
		return
	}
	i := slices.IndexFunc(f.Clusters, func(c *fleet.Cluster) bool { return f.Places(a, c) && !promoted(c) })
	if i < 0 {
		return
	}
	c := f.Clusters[i]
	ef.add(a.Warning([]string{"spec", "placement"}, "give the environment of the management cluster an `after`",
		"environment %s of cluster %s follows the trunk, so the clusters that app %s describes all move at once", c.Environment,
		c.Name, a.Name))
}

// labelValues are the values that clusters have for labels. Only the labels of folders are looked up, in thousands of
// clusters.
type labelValues struct {
	fleet *fleet.Fleet
	known map[string]map[string]bool // by label
}

// of returns the values of a label.
func (v labelValues) of(label string) map[string]bool {
	out, ok := v.known[label]
	if !ok {
		out = map[string]bool{}
		last := ""
		for _, c := range v.fleet.Clusters {
			if value := c.Labels[label]; value != last && value != "" {
				out[value], last = true, value
			}
		}
		v.known[label] = out
	}
	return out
}

// has reports whether a cluster has a label with a value.
func (v labelValues) has(label, value string) bool {
	if label == fleet.LabelCluster {
		_, ok := v.fleet.Cluster(value)
		return ok
	}
	return v.of(label)[value]
}

// layerFolders reports folders that no cluster uses.
func (ef *effects) layerFolders(dir string, a *fleet.App, values labelValues) {
	warn := func(p, hint, format string, args ...any) {
		ef.problems = append(ef.problems, fleet.Problem{
			File: p, Severity: fleet.SeverityWarning, Message: fmt.Sprintf(format, args...), Hint: hint,
		})
	}
	if !ef.fleet.Has(dir) {
		return
	}
	expected := map[string]fleet.Layer{} // folders, and those on the way to a label with a slash
	for _, x := range ef.fleet.Layers() {
		for name := x.Name; name != "."; name = path.Dir(name) {
			if _, longer := expected[name]; !longer || name == x.Name {
				expected[name] = x
			}
		}
	}
	var walk func(below string)
	walk = func(below string) {
		for _, e := range ef.entries(path.Join(dir, below)) {
			name := path.Join(below, e.Name())
			p := path.Join(dir, name)
			x, ok := expected[name]
			switch {
			case !ef.fleet.IsDir(path.Join(dir, below), e):
				if isYAMLName(e.Name()) {
					warn(p, "move it to "+path.Join(dir, fleet.LayerGlobal, e.Name())+", or into the folder of another layer",
						"no layer reads %s: a layer is a folder", e.Name())
				}
			case !ok:
				warn(p, "rename it, or name it in spec.layers", "%s is not a layer of the fleet%s", name,
					nearest.DidYouMean(name, slices.Sorted(maps.Keys(expected))))
			case x.Name != name:
				walk(name)
			case x.Custom():
				warn(p, "move its files to the layer's own paths, or remove it",
					"layer %s has paths of its own and does not read this folder", name)
			case name == fleet.LayerGlobal:
				ef.useless(p, a, warn)
			default:
				ef.valueFolders(p, name, a, values, warn)
			}
		}
	}
	walk("")
}

// misplaced warns about files of apps and clusters that have nearly the conventional place, and that nothing reads.
func (ef *effects) misplaced() {
	f := ef.fleet
	if len(f.Spec.Import) > 0 {
		return // apps and clusters are folders of other tools
	}
	warn := func(p, hint, format string, args ...any) {
		ef.problems = append(ef.problems, fleet.Problem{
			File: p, Severity: fleet.SeverityWarning, Message: fmt.Sprintf(format, args...), Hint: hint,
		})
	}
	if len(f.Spec.Files.Apps) == 0 {
		for _, e := range ef.entries("apps") {
			ef.misplacedApp(path.Join("apps", e.Name()), f.IsDir("apps", e), warn)
		}
	}
	if len(f.Spec.Files.Clusters) == 0 {
		for _, e := range ef.entries("clusters") {
			name := path.Join("clusters", e.Name())
			switch stem, yml := strings.CutSuffix(name, ".yml"); {
			case f.IsDir("clusters", e):
				for _, inner := range ef.entries(name) {
					if ef.declares(path.Join(name, inner.Name())) {
						warn(path.Join(name, inner.Name()), "move it, or write spec.files.clusters: [clusters/**/*.yaml]",
							"clusters/*.yaml does not match this file")
						break
					}
				}
			case yml && ef.declares(name):
				warn(name, "rename it to "+path.Base(stem)+".yaml", "clusters/*.yaml does not match this file")
			}
		}
	}
	for _, a := range f.Declared() {
		ef.misplacedValues(a, warn)
	}
}

func (ef *effects) misplacedApp(name string, folder bool, warn warnFunc) {
	if !folder {
		if ef.declares(name) {
			stem := strings.TrimSuffix(name, path.Ext(name))
			warn(name, "move it to "+stem+"/app.yaml", "apps/*/app.yaml does not match this file")
		}
		return
	}
	if ef.fleet.Has(path.Join(name, "app.yaml")) {
		return
	}
	for _, e := range ef.entries(name) {
		file := path.Join(name, e.Name())
		if isYAMLName(e.Name()) && !ef.fleet.IsDir(name, e) && ef.declares(file) {
			warn(file, "rename it to app.yaml", "apps/*/app.yaml does not match this file")
		}
	}
}

// declares reports whether a file has a declaration of Sluice's.
func (ef *effects) declares(name string) bool {
	const most = 100 // files that are read for a warning
	if ef.read++; !isYAMLName(name) || ef.read > most {
		return false
	}
	data, err := ef.fleet.ReadFile(name)
	return err == nil && bytes.Contains(data, []byte("apiVersion: sluice.dev/"))
}

// misplacedValues warns about values beside app.yaml, and about a folder with nearly the name of layers.
func (ef *effects) misplacedValues(a *fleet.App, warn warnFunc) {
	custom := slices.ContainsFunc(ef.fleet.Layers(), func(l fleet.Layer) bool { return l.Custom() })
	if a.Imported() || a.Dir == "" || a.Dir == "." || custom {
		return
	}
	if values := path.Join(a.Dir, "values.yaml"); ef.fleet.Has(values) && !ef.fleet.IsComponent(a.Dir) &&
		!ef.fleet.Has(path.Join(a.Dir, "Chart.yaml")) &&
		slices.ContainsFunc(a.AllSources(), func(s fleet.Source) bool {
			return s.Helm != nil && (s.Helm.VersionFrom == nil || s.Helm.VersionFrom.File == "")
		}) {
		warn(values, "move it to "+path.Join(a.Dir, "layers", fleet.LayerGlobal, "values.yaml"), "no layer reads this file")
	}
	if ef.fleet.Has(path.Join(a.Dir, "layers")) {
		return
	}
	for _, e := range ef.entries(a.Dir) {
		if ef.fleet.IsDir(a.Dir, e) && nearest.Name(e.Name(), []string{"layers"}) != "" {
			warn(path.Join(a.Dir, e.Name()), "rename it to layers", "no layer reads this folder")
		}
	}
}

func isYAMLName(name string) bool {
	return slices.Contains([]string{".yaml", ".yml"}, strings.ToLower(path.Ext(name)))
}

// entries lists a folder; a missing one is empty.
func (ef *effects) entries(dir string) []fs.DirEntry {
	if !ef.fleet.Has(dir) {
		return nil
	}
	entries, err := ef.fleet.ReadDir(dir)
	if err != nil {
		ef.problems = append(ef.problems, fleet.Unreadable(dir, err))
	}
	return entries
}

type warnFunc func(file, hint, format string, args ...any)

func (ef *effects) valueFolders(dir, label string, a *fleet.App, values labelValues, warn warnFunc) {
	if a == nil && label != fleet.LabelCluster { // most clusters need no file of their own
		ef.gaps(dir, label, values.of(label), warn)
	}
	for _, v := range ef.entries(dir) {
		inner := path.Join(dir, v.Name())
		switch {
		case !ef.fleet.IsDir(dir, v):
			warn(inner, "move it into one", "a layer has folders, one for each value of its label")
		case !values.has(label, v.Name()):
			warn(inner, "rename it, or remove it", "no cluster has %s=%s%s", label, v.Name(),
				nearestOfFew(v.Name(), values.of(label)))
		default:
			ef.useless(inner, a, warn)
		}
	}
}

// nearestOfFew suggests a name, but only out of at most 100 values.
func nearestOfFew(got string, values map[string]bool) string {
	const most = 100
	if len(values) > most {
		return ""
	}
	return nearest.DidYouMean(got, slices.Sorted(maps.Keys(values)))
}

// useless warns about values of an app without a chart, and about files whose names no layer reads.
func (ef *effects) useless(dir string, a *fleet.App, warn warnFunc) {
	var sources []string
	hasHelm := a == nil
	if a != nil {
		for _, s := range a.AllSources() {
			hasHelm = hasHelm || s.Helm != nil
			if s.Helm != nil && s.Name != "" {
				sources = append(sources, s.Name)
			}
		}
	}
	if values := path.Join(dir, "values.yaml"); !hasHelm && ef.fleet.Has(values) {
		warn(values, "remove it, or write a Kustomize component", "app %s has no Helm source that could take values",
			a.Name)
	}
	if ef.fleet.IsComponent(dir) {
		return // its files may have any names
	}
	for _, e := range ef.entries(dir) {
		name := strings.ToLower(e.Name())
		source, named := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".yaml"), "values.")
		switch {
		case e.Name() == "values.yaml" || ef.fleet.IsDir(dir, e):
		case slices.Contains([]string{
			"values.yml", "value.yaml", "value.yml", "values.yaml", "values.json",
			"vaules.yaml",
		}, name):
			warn(path.Join(dir, e.Name()), "rename it to values.yaml", "no layer reads %s", e.Name())
		case a != nil && named && strings.HasSuffix(e.Name(), ".yaml") && !slices.Contains(sources, source):
			warn(path.Join(dir, e.Name()), "name a source so, or rename the file", "app %s has no Helm source %q%s",
				a.Name, source, nearest.DidYouMean(source, sources))
		}
	}
}

// gaps warns about a label value without a values file in a layer of the whole fleet where the other values have one:
// after adding an environment or a region, charts that count on the layer fail with a nil pointer. An app's own layers
// are often sparse, and its chart has defaults.
func (ef *effects) gaps(dir, label string, values map[string]bool, warn warnFunc) {
	var have, lack []string
	for _, v := range slices.Sorted(maps.Keys(values)) {
		if ef.fleet.Has(path.Join(dir, v, "values.yaml")) {
			have = append(have, v)
		} else {
			lack = append(lack, v)
		}
	}
	if len(have) < 2 || 2*len(lack) > len(have) {
		return
	}
	for _, v := range lack {
		file := path.Join(dir, v, "values.yaml")
		warn(file, "add the file; {} if it needs no values", "%s=%s has no values in this layer, though %s have", label,
			v, strings.Join(have[:min(len(have), 3)], ", "))
	}
}
