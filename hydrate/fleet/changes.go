package fleet

import (
	"path"
	"strings"
)

// changes are changed paths, with an index that makes asking for one cost the same however many there are.
type changes struct {
	paths []string
	files map[string]bool // them, and what a values.<source>.yaml among them stands beside
	dirs  map[string]bool // above them
}

func newChanges(paths []string) *changes {
	c := &changes{paths: paths, files: make(map[string]bool, len(paths)), dirs: map[string]bool{}}
	for _, p := range paths {
		c.files[p] = true
		inner := strings.TrimSuffix(p, path.Ext(p))
		for ext := path.Ext(inner); ext != ""; ext = path.Ext(inner) { // a source's name may hold dots
			inner = strings.TrimSuffix(inner, ext)
			c.files[stem(inner+path.Ext(p))] = true
		}
		for dir := path.Dir(p); dir != "." && !c.dirs[dir]; dir = path.Dir(dir) {
			c.dirs[dir] = true
		}
	}
	return c
}

// touch says whether a changed path is, or is below, a path that is read.
func (c *changes) touch(read string) bool {
	return read == "." || c.files[read] || c.dirs[read]
}

// stem marks a path that stands for files beside it.
func stem(p string) string { return p + "\x00" }
