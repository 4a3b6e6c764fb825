// Package reach finds the files that a directory may be built from without building it.
package reach

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// relative is a path that leaves its directory, as kustomizations name other directories and files.
var relative = regexp.MustCompile(`(?:\./)?\.\.(?:/[^\s"',\[\]{}]*)?`)

// maxKustomization bounds the bytes that are read of one kustomization.
const maxKustomization = 1 << 20

// Any reports whether match holds for a file that the build of dir may read: one below dir, or one that a kustomization
// there names by a relative path, and so on from there. It reads text, so it works where a build fails, and may name
// files that a build does not read. A file that cannot be read counts as a match. files are sorted.
func Any(files []string, read func(name string) ([]byte, error), dir string,
	match func(name string, data []byte) bool,
) bool {
	seen := map[string]bool{}
	queue := []string{path.Clean(dir)}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, name := range below(files, at) {
			if seen[name] {
				continue
			}
			seen[name] = true
			data, err := read(name)
			if err != nil || match(name, data) {
				return true
			}
			if !kustomization(name) {
				continue
			}
			for _, to := range relative.FindAll(data[:min(len(data), maxKustomization)], -1) {
				queue = append(queue, path.Join(path.Dir(name), string(to)))
			}
		}
	}
	return false
}

func kustomization(name string) bool {
	return slices.Contains([]string{"kustomization.yaml", "kustomization.yml", "Kustomization"}, path.Base(name))
}

// below returns the files in a directory and the directories in it, or the file of that name.
func below(files []string, at string) []string {
	if at == "." {
		return files
	}
	if _, ok := slices.BinarySearch(files, at); ok {
		return []string{at}
	}
	prefix := at + "/"
	first, _ := slices.BinarySearch(files, prefix)
	end := first
	for end < len(files) && strings.HasPrefix(files[end], prefix) {
		end++
	}
	return files[first:end]
}
