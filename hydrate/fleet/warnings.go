package fleet

import (
	"fmt"
	"path"
	"slices"
)

func (l *loader) warnf(doc document, at []string, hint, format string, args ...any) {
	before := len(l.problems)
	l.errorf(doc, at, hint, format, args...)
	l.problems[before].Severity = SeverityWarning
}

// warnings name what does nothing: it is most often a typing error.
func (l *loader) warnings() {
	f := l.fleet
	for _, a := range f.Apps {
		if !slices.ContainsFunc(f.Clusters, func(c *Cluster) bool { return a.selector.matches(c.Labels) }) && len(f.Clusters) > 0 {
			l.warnf(a.doc, []string{"spec", "placement"}, "compare it with the labels of clusters and classes", "app %s goes to no cluster", a.Name)
		}
		l.layerFolders(path.Join(a.Dir, "layers"), a)
	}
	l.layerFolders("layers", nil)
	for _, e := range f.Spec.Environments {
		if len(f.ClustersOf(e.Name)) == 0 {
			l.warnf(l.file, []string{"spec", "environments"}, "", "environment %s has no cluster", e.Name)
		}
		for _, w := range e.Promotion.Waves {
			if w.Clusters != nil && !slices.ContainsFunc(f.ClustersOf(e.Name), func(c *Cluster) bool { return w.Clusters.Matches(c.Labels) }) {
				l.warnf(l.file, []string{"spec", "environments"}, "", "environment %s, wave %s selects no cluster", e.Name, w.Name)
			}
		}
	}
	for _, layer := range f.layers[1:] {
		if !layer.custom && !slices.ContainsFunc(f.Clusters, func(c *Cluster) bool { return c.Labels[layer.Name] != "" }) && len(f.Clusters) > 0 {
			l.warnf(l.file, []string{"spec", "layers"}, "", "no cluster has the label of layer %s", layer.Name)
		}
	}
}

// layerFolders looks for folders that no cluster takes.
func (l *loader) layerFolders(dir string, a *App) {
	entries, err := l.tree.ReadDir(dir)
	if err != nil {
		return // none there
	}
	warn := func(p, format string, args ...any) {
		l.problems = append(l.problems, Problem{
			File: p, Severity: SeverityWarning, Message: fmt.Sprintf(format, args...), Hint: "rename it, or remove it",
		})
	}
	for _, e := range entries {
		p := path.Join(dir, e.Name())
		if !e.IsDir() {
			continue
		}
		if e.Name() == layerGlobal {
			l.useless(p, a, warn)
			continue
		}
		if !slices.ContainsFunc(l.fleet.layers, func(x layer) bool { return x.Name == e.Name() }) {
			warn(p, "%s is no layer of the fleet", e.Name())
			continue
		}
		values, err := l.tree.ReadDir(p)
		if err != nil {
			continue
		}
		for _, v := range values {
			inner := path.Join(p, v.Name())
			if !v.IsDir() {
				warn(inner, "a layer has folders, one for each value of its label")
				continue
			}
			if !slices.ContainsFunc(l.fleet.Clusters, func(c *Cluster) bool { return c.Labels[e.Name()] == v.Name() }) {
				warn(inner, "no cluster has %s=%s", e.Name(), v.Name())
				continue
			}
			l.useless(inner, a, warn)
		}
	}
}

// useless warns of values for an app without a chart, and of folders in which nothing is read.
func (l *loader) useless(dir string, a *App, warn func(string, string, ...any)) {
	if a == nil {
		return
	}
	hasHelm := slices.ContainsFunc(a.Sources, func(s Source) bool { return s.Helm != nil })
	if values := path.Join(dir, "values.yaml"); !hasHelm && l.fleet.has(values) {
		warn(values, "app %s has no Helm source that could take values", a.Name)
	}
}
