package reach

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
)

// named is a field of a declaration of Flux or Argo CD that names a path: that of a Kustomization or an Application, or
// the chart of a HelmRelease.
var named = regexp.MustCompile(`\b(?:path|chart|basePath)["']?[ \t]*:[ \t]*["']?([^\s"'#,}\]]+)`)

// declares reports whether a file may declare a Kustomization, a HelmRelease or an Application.
func declares(data []byte) bool {
	return slices.ContainsFunc([]string{"toolkit.fluxcd.io/", "fluxcd.controlplane.io/", "argoproj.io/"},
		func(group string) bool {
			return bytes.Contains(data, []byte(group))
		})
}

// Paths returns the files and directories that a target may be built from that cannot be built, sorted: those that it
// names, whether or not they exist, and what files in them name: kustomizations by relative paths, declarations of Flux
// and Argo CD by the paths of this repository. It reads text, so it may name more than a build would read. files are
// sorted.
func Paths(files []string, read func(name string) ([]byte, error), names ...string) []string {
	out, seen := map[string]bool{}, map[string]bool{}
	queue := make([]string, 0, len(names))
	for _, name := range names {
		queue = append(queue, path.Clean(name))
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if out[at] || at == ".." || strings.HasPrefix(at, "../") {
			continue
		}
		out[at] = true
		for _, name := range below(files, at) {
			if seen[name] {
				continue
			}
			seen[name] = true
			if !kustomization(name) && !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
				continue
			}
			data, err := read(name)
			if err != nil {
				continue // the file itself is among the result
			}
			data = data[:min(len(data), maxKustomization)]
			if kustomization(name) {
				for _, to := range relative.FindAll(data, -1) {
					queue = append(queue, path.Join(path.Dir(name), string(to)))
				}
			}
			if declares(data) {
				queue = append(queue, Named(files, data)...)
			}
		}
	}
	return outermost(out)
}

// Named returns the paths of the repository that a declaration of Flux or Argo CD names and that exist. Of a path with
// a variable or a pattern, it is the directory before it.
func Named(files []string, text []byte) []string {
	var out []string
	for _, m := range named.FindAllSubmatch(text, -1) {
		if at := Literal(string(m[1])); at != "" && len(below(files, at)) > 0 {
			out = append(out, at)
		}
	}
	return out
}

// Literal returns the path of the repository that a declaration names; the directory before a variable or a pattern; ""
// if that is the repository.
func Literal(name string) string {
	if i := strings.IndexAny(name, "{$*?["); i >= 0 {
		name = name[:strings.LastIndex(name[:i], "/")+1]
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

// outermost returns the paths that are not below others.
func outermost(all map[string]bool) []string {
	var out []string
	for name := range all {
		inner := false
		for dir := path.Dir(name); !inner && dir != "."; dir = path.Dir(dir) {
			inner = all[dir]
		}
		if !inner && (name == "." || !all["."]) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
