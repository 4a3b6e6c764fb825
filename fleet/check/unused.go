package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/nearest"
)

// unusedFiles warns about files that look like files of a layer with path templates, but that no target uses.
func unusedFiles(ctx context.Context, f *fleet.Fleet) fleet.Problems {
	u := unused{fleet: f, taken: map[string]bool{fleet.File: true}}
	for _, c := range f.Clusters {
		u.taken[c.File] = true
	}
	for _, a := range f.Declared() {
		u.taken[a.File] = true
	}
	targets := f.Targets()
	for _, t := range targets {
		for _, file := range f.ValuesFiles(t) {
			u.taken[file.Path] = true
		}
	}
	for _, l := range f.Layers() {
		for _, v := range l.Values {
			u.template(ctx, l, v.Path, targets)
		}
		for _, template := range l.Components {
			u.template(ctx, l, path.Join(template, "kustomization.yaml"), targets)
		}
	}
	return u.problems
}

type unused struct {
	fleet    *fleet.Fleet
	taken    map[string]bool // files that have a use
	problems fleet.Problems
}

// template compares the files that match a path template with the paths that it gives for the targets.
func (u *unused) template(ctx context.Context, l fleet.Layer, template string, targets []fleet.Target) {
	layer, paths := l.Name, map[string]bool{}
	for _, t := range targets {
		for _, p := range l.Paths(t, template) {
			paths[p] = true
		}
	}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		for _, other := range otherNames(p) {
			if !u.taken[other] && !u.fleet.Has(p) && u.fleet.Has(other) {
				u.taken[other] = true
				u.warn(other, "rename it to "+path.Base(p), "layer %s does not read %s", layer, path.Base(other))
			}
		}
	}
	names, err := u.fleet.TemplateFiles(ctx, template)
	if err != nil {
		u.warn(fleet.File, "run it again", "the files of layer %s cannot be listed: %v", layer, err)
		return
	}
	const limit = 20
	left := 0
	for _, name := range names {
		if paths[name] || u.taken[name] || isForeign(name, template) {
			continue
		}
		u.taken[name] = true // another layer's template may match it, too
		if left++; left <= limit {
			u.warn(name, "rename it, or remove it", "no target takes this file, which matches %s of layer %s%s",
				template, layer, u.nearest(name, paths))
		}
	}
	if left > limit {
		u.warn(fleet.File, "rename them, or remove them", "no target takes %d more files that match %s of layer %s",
			left-limit, template, layer)
	}
}

func (u *unused) warn(file, hint, format string, args ...any) {
	u.problems = append(u.problems, fleet.Problem{
		File: file, Severity: fleet.SeverityWarning,
		Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

// nearest suggests a path of the same folder, or the same name in another folder.
func (u *unused) nearest(name string, paths map[string]bool) string {
	dir, base := path.Split(name)
	var names, folders []string
	for p := range paths {
		d, b := path.Split(p)
		switch {
		case d == dir:
			names = append(names, b)
		case b == base:
			folders = append(folders, p)
		}
	}
	const most = 1000
	if len(names)+len(folders) > most {
		return ""
	}
	slices.Sort(names)
	slices.Sort(folders)
	return cmp.Or(nearest.DidYouMean(base, names), nearest.DidYouMean(name, folders))
}

// isForeign reports whether a file of this name belongs to a chart, a Kustomize root or a cluster registry, although
// the template matches it.
func isForeign(name, template string) bool {
	if base := path.Base(template); base == path.Base(name) {
		return false
	}
	switch path.Base(name) {
	case "Chart.yaml", "Chart.yml", "values.yaml", "kustomization.yaml", "kustomization.yml", "app.yaml",
		"requirements.yaml":
		return true
	}
	return strings.HasPrefix(path.Base(name), ".")
}

// otherNames are names that people give to a values file by mistake.
func otherNames(p string) []string {
	if path.Base(p) == "kustomization.yaml" {
		return nil // kustomization.yml is read, too
	}
	stem, ext := strings.TrimSuffix(p, path.Ext(p)), path.Ext(p)
	var out []string
	switch ext {
	case ".yaml":
		out = append(out, stem+".yml")
	case ".yml":
		out = append(out, stem+".yaml")
	}
	if dir, base := path.Split(p); strings.HasPrefix(base, "values") {
		out = append(out, dir+"value"+strings.TrimPrefix(base, "values"))
	}
	return out
}
