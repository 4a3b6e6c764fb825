package fleet

import (
	"path"
	"strings"
)

// changes is a set of changed paths with constant-time lookup.
type changes struct {
	paths []string
	files map[string]bool // the paths, and stem of the values file beside each values.<source>.yaml
	dirs  map[string]bool // their parent directories
}

func newChanges(paths []string) *changes {
	c := &changes{paths: paths, files: make(map[string]bool, len(paths)), dirs: map[string]bool{}}
	for _, p := range paths {
		c.files[p] = true
		inner := strings.TrimSuffix(p, path.Ext(p))
		for ext := path.Ext(inner); ext != ""; ext = path.Ext(inner) { // the name of a source may contain dots
			inner = strings.TrimSuffix(inner, ext)
			c.files[stem(inner+path.Ext(p))] = true
		}
		for dir := path.Dir(p); dir != "." && !c.dirs[dir]; dir = path.Dir(dir) {
			c.dirs[dir] = true
		}
	}
	return c
}

// touch reports whether a changed path equals or is below a path that is read.
func (c *changes) touch(read string) bool {
	return read == "." || c.files[read] || c.dirs[read]
}

// stem records that a path also stands for the files with a source's name beside it.
func stem(p string) string { return p + "\x00" }
