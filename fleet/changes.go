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

	claimed map[string]bool // what touch and claim were asked for that changed; nil is not kept
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
	if c.claimed != nil && (c.files[read] || c.dirs[read]) {
		c.claimed[read] = true
	}
	return read == "." || c.files[read] || c.dirs[read]
}

// touchAny reports whether touch holds for a path. It asks for all of them if what is claimed is kept.
func (c *changes) touchAny(read []string) bool {
	any := false
	for _, p := range read {
		if any = c.touch(p) || any; any && c.claimed == nil {
			break
		}
	}
	return any
}

// touchFile reports whether a file changed.
func (c *changes) touchFile(name string) bool {
	if c.files[name] && c.claimed != nil {
		c.claimed[name] = true
	}
	return c.files[name]
}

// claims reports whether a changed path equals, is below, or is a source's file beside a path that was claimed.
func (c *changes) claims(p string) bool {
	if c.claimed[p] {
		return true
	}
	inner := strings.TrimSuffix(p, path.Ext(p))
	for ext := path.Ext(inner); ext != ""; ext = path.Ext(inner) {
		inner = strings.TrimSuffix(inner, ext)
		if c.claimed[stem(inner+path.Ext(p))] {
			return true
		}
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if c.claimed[dir] {
			return true
		}
	}
	return false
}

// stem records that a path also stands for the files with a source's name beside it.
func stem(p string) string { return p + "\x00" }
