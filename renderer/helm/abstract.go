package helm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// separator separates the keys of a path. The path "Values\x00image" is `.Values.image` of a file's scope; the empty path is the scope.
const separator = "\x00"

// kindKey is the last key of a path that reads only whether a mapping is at the path above; where there is none, it reads what is there.
const kindKey = "\x01"

// abstract is what the static analysis knows about a value in a template: a set of possibilities. The zero abstract is any value that was
// computed from what the file has read already, so reading a part of it reads nothing new.
type abstract struct {
	paths  []string            // sorted; the value can be what is at one of these paths
	fields map[string]abstract // the value can be a new map with these items, or a new list with the items "#0", "#1"
	known  any                 // the value is this string or int
}

// join returns the possibilities of both values.
func join(a, b abstract) abstract {
	out := abstract{paths: union(a.paths, b.paths)}
	if a.known == b.known && a.constant() && b.constant() {
		out.known = a.known
	}
	if a.fields == nil && b.fields == nil {
		return out
	}
	out.fields = map[string]abstract{}
	for name, item := range a.fields {
		if other, ok := b.fields[name]; ok {
			out.fields[name] = join(item, other)
		} else {
			out.fields[name] = item.forget()
		}
	}
	for name, item := range b.fields {
		if _, ok := a.fields[name]; !ok {
			out.fields[name] = item.forget()
		}
	}
	return out
}

// forget returns the value without what is known of strings and numbers in it.
func (a abstract) forget() abstract {
	a.known = nil
	if a.fields != nil {
		fields := make(map[string]abstract, len(a.fields))
		for name, item := range a.fields {
			fields[name] = item.forget()
		}
		a.fields = fields
	}
	return a
}

func union(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 || slices.Equal(a, b) {
		return a
	}
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// constant reports whether the value is known.
func (a abstract) constant() bool { return a.known != nil && a.paths == nil && a.fields == nil }

// text returns a known string.
func (a abstract) text() (string, bool) {
	s, ok := a.known.(string)
	return s, ok && a.constant()
}

// key is equal for equal values only.
func (a abstract) key() string {
	var out strings.Builder
	a.write(&out)
	return out.String()
}

func (a abstract) write(out *strings.Builder) {
	for _, p := range a.paths {
		fmt.Fprintf(out, "%q", p)
	}
	if a.known != nil {
		fmt.Fprintf(out, "=%T%q", a.known, fmt.Sprint(a.known))
	}
	if a.fields == nil {
		return
	}
	out.WriteByte('{')
	for _, name := range slices.Sorted(maps.Keys(a.fields)) {
		fmt.Fprintf(out, "%q:", name)
		a.fields[name].write(out)
		out.WriteByte(',')
	}
	out.WriteByte('}')
}

// Limits of an abstract value. A larger one counts as read.
const (
	maxAbstractDepth = 5
	maxAbstractItems = 64
	maxPathKeys      = 12
)

// large reports whether the value exceeds the limits.
func (a abstract) large() bool {
	items := maxAbstractItems
	return a.exceeds(maxAbstractDepth, &items)
}

func (a abstract) exceeds(depth int, items *int) bool {
	if *items -= 1 + len(a.paths); depth < 0 || *items < 0 {
		return true
	}
	for _, item := range a.fields {
		if item.exceeds(depth-1, items) {
			return true
		}
	}
	return false
}

// pathSet is a set of paths that a template reads, or everything.
type pathSet struct {
	paths map[string]bool
	all   bool
}

func (s *pathSet) add(path string) {
	if s.paths == nil {
		s.paths = map[string]bool{}
	}
	s.paths[path] = true
}

// implied returns the paths at which the set says already whether there is a mapping: digests of paths below them say where these end.
func (s *pathSet) implied() map[string]bool {
	out := map[string]bool{}
	for path := range s.paths {
		above, kind := strings.CutSuffix(path, separator+kindKey)
		if !kind {
			out[path] = true
		}
		for i := strings.LastIndex(above, separator); i >= 0; i = strings.LastIndex(above, separator) {
			above = above[:i]
			out[above] = true
		}
	}
	return out
}

func (s *pathSet) addAll(other *pathSet) {
	s.all = s.all || other.all
	for path := range other.paths {
		s.add(path)
	}
}
