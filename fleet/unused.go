package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

// unusedFiles warns about files that look like files of a layer with path templates, but that no target uses.
func (f *Fleet) unusedFiles(ctx context.Context) Problems {
	u := unused{fleet: f, taken: map[string]bool{fleetFile: true}}
	for _, c := range f.Clusters {
		u.taken[c.File] = true
	}
	for _, a := range f.Apps {
		u.taken[a.File] = true
	}
	targets := f.Targets()
	for _, t := range targets {
		values, _ := f.layerFiles(t)
		for _, file := range values {
			u.taken[file.Path] = true
		}
	}
	for _, l := range f.layers {
		for _, v := range l.Values {
			u.template(ctx, l.Layer, v.Path, targets)
		}
		for _, template := range l.Components {
			u.template(ctx, l.Layer, path.Join(template, "kustomization.yaml"), targets)
		}
	}
	return u.problems
}

type unused struct {
	fleet    *Fleet
	taken    map[string]bool // files that have a use
	problems Problems
}

// template compares the files that match a path template with the paths that it gives for the targets.
func (u *unused) template(ctx context.Context, l Layer, template string, targets []Target) {
	layer, paths := l.Name, map[string]bool{}
	for _, t := range targets {
		for _, in := range templateBases(t, "", template, slices.Contains(t.App.Spec.SkipLayers, layer)) {
			if p := templatePath(t, in, "", template); p != "" && (t.App.workspace != nil ||
				!slices.Contains(t.App.Spec.SkipLayers, layer)) {
				paths[p] = true
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		for _, other := range otherNames(p) {
			if !u.taken[other] && !u.fleet.has(p) && u.fleet.has(other) {
				u.taken[other] = true
				u.warn(other, "rename it to "+path.Base(p), "layer %s does not read %s", layer, path.Base(other))
			}
		}
	}
	pattern, ok := globOf(template)
	if !ok {
		return
	}
	g, err := parseGlob(pattern)
	if err != nil {
		return // such a path is matched literally, and a pattern cannot say it
	}
	names, err := walkGlobs(ctx, u.fleet.tree, []glob{g})
	if err != nil {
		u.warn(fleetFile, "run it again", "the files of layer %s cannot be listed: %v", layer, err)
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
		u.warn(fleetFile, "rename them, or remove them", "no target takes %d more files that match %s of layer %s",
			left-limit, template, layer)
	}
}

func (u *unused) warn(file, hint, format string, args ...any) {
	u.problems = append(u.problems, Problem{
		File: file, Severity: SeverityWarning,
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

// globOf returns a pattern that matches every result of a template; false if the template has no reference, or is one.
func globOf(template string) (string, bool) {
	segments, err := parseReferences(template)
	if err != nil {
		return "", false
	}
	var out strings.Builder
	found := false
	for _, s := range segments {
		if s.ref == nil {
			out.WriteString(strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "{",
				`\{`).Replace(s.literal))
			continue
		}
		if found = true; !strings.HasSuffix(out.String(), "*") {
			out.WriteString("*")
		}
	}
	// a variable that holds the whole path says nothing of other files
	return out.String(), found && out.String() != "*"
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
