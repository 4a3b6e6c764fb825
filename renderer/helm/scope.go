package helm

import (
	"reflect"
	"slices"
)

// This file records which maps of the scope an execution changes. Results of files are kept and reused by digests of what the files read, and
// they stand for the text only. So the result of a file that changed a map of the scope is not kept, and the digests are computed again for
// the files that follow. A change of a map that a file made itself, such as a `dict` or a deepCopy, changes nothing for others.

// scopeMap is a map of the scope. It is kept, so no other map can get its address.
type scopeMap struct {
	m    map[string]any
	root bool // it is no value: a scope itself, `.Subcharts` or `.Template`. No digest describes it

	open          bool // it is being visited
	height, items int  // of the tree below it
}

// scopeMaps has the maps of all scopes of a rendering by address.
type scopeMaps map[uintptr]*scopeMap

// Limits of the values in a scope after a template changed them: a map can contain itself, or others many times.
const (
	maxScopeHeight = 1000
	maxScopeItems  = 1 << 20
)

func address(m map[string]any) uintptr { return reflect.ValueOf(m).Pointer() }

func (s scopeMaps) root(v any) {
	if m, ok := mapOf(v); ok && m != nil {
		s[address(m)] = &scopeMap{m: m, root: true}
	}
}

// scopesOf returns the maps of the scopes without shared ones, which nobody changes. It returns false if digests cannot describe the values.
func scopesOf(units map[string]unit, shared *defaults) (scopeMaps, bool) {
	out := scopeMaps{}
	for _, u := range units {
		out.root(u.scope)
		out.root(u.scope["Subcharts"])
		out.root(u.scope["Template"])
	}
	for _, u := range units {
		for _, key := range []string{"Values", "Release"} {
			if _, _, ok := out.add(u.scope[key], 0, shared); !ok {
				return out, false
			}
		}
	}
	return out, true
}

// add adds the maps that a value is or contains, and returns the height and the number of items of its tree. It returns false for a map that
// contains itself or a root, and for a tree that exceeds the limits.
func (s scopeMaps) add(v any, depth int, shared *defaults) (height, items int, ok bool) {
	if depth >= maxScopeHeight {
		return 0, 0, false
	}
	items = 1
	below := func(item any) bool {
		h, n, ok := s.add(item, depth+1, shared)
		height, items = max(height, h), items+n
		return ok && depth+height < maxScopeHeight && items <= maxScopeItems
	}
	if list, ok := v.([]any); ok {
		for _, item := range list {
			if !below(item) {
				return 0, 0, false
			}
		}
		return height + 1, items, true
	}
	m, isMap := mapOf(v)
	if !isMap || m == nil {
		return 0, 1, true
	}
	if t := shared.table(m); t != nil {
		return t.height, t.items, true
	}
	at := address(m)
	if known, ok := s[at]; ok {
		return known.height, known.items, !known.root && !known.open
	}
	entry := &scopeMap{m: m, open: true}
	s[at] = entry
	for _, item := range m {
		if !below(item) {
			return 0, 0, false
		}
	}
	entry.open, entry.height, entry.items = false, height+1, items
	return entry.height, items, true
}

// changes are the changes of the scope during a rendering.
type changes struct {
	watching bool // somebody wants to know
	shared   *defaults
	units    map[string]unit
	maps     scopeMaps // nil until a template changes a map
	changed  bool      // the current file changed a map of the scope
	times    int       // files that did
	written  []uintptr // maps that functions changed, since the current file began; at most maxWritten
	lost     bool      // digests cannot describe the scope
}

// maxChanges is the number of files that can change the scope before the rendering reuses nothing more: the digests are computed after each.
const maxChanges = 20

// maxWritten is the number of changed maps of a file that are known.
const maxWritten = 1 << 10

// harmless reports whether an include changed only maps that it made itself. n is the length of written before it. An include reaches only three kinds
// of maps: those of the scope, whose changes are recorded, those of its argument, and those that it makes, which nobody sees after it.
func (c *changes) harmless(n int, argument any) bool {
	written := c.written[n:]
	return !c.changed && !c.lost && len(c.written) < maxWritten && (len(written) == 0 || !c.among(written, argument))
}

// among reports whether one of the maps is the argument or in it. Those of the scope do not count.
func (c *changes) among(written []uintptr, argument any) bool {
	switch x := argument.(type) {
	case map[string]any:
		if c.maps[address(x)] != nil || c.shared.table(x) != nil {
			return false
		}
		if slices.Contains(written, address(x)) {
			return true
		}
		for _, item := range x {
			if c.among(written, item) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(x, func(item any) bool { return c.among(written, item) })
	}
	return false
}

// visit gives a file its `.Template`.
func (c *changes) visit(u unit, own map[string]any) {
	u.scope["Template"] = own
	if c.maps != nil {
		c.maps.root(own)
	}
}

// settle ends a file: the digests for the following ones describe what it left.
func (c *changes) settle() {
	if !c.changed || c.lost {
		return
	}
	c.changed = false
	c.times++
	var ok bool
	if c.maps, ok = scopesOf(c.units, c.shared); !ok || c.times > maxChanges {
		c.lost = true
		return
	}
	for _, u := range c.units {
		u.digests.forget()
	}
}

// write records that a function changes a map. After an error, the function must not change it. Whether the map is one of the scope must
// follow from what the analysis counts as read: another execution with equal reads is taken to change nothing if this one did not.
func (c *changes) write(m map[string]any) error {
	if len(c.written) < maxWritten {
		c.written = append(c.written, address(m))
	}
	if err := c.shared.write(m); err != nil {
		return err
	}
	if !c.watching || c.lost {
		return nil
	}
	if c.maps == nil {
		var ok bool
		if c.maps, ok = scopesOf(c.units, c.shared); !ok {
			c.lost = true
			return nil
		}
	}
	if known, ok := c.maps[address(m)]; ok {
		c.changed, c.lost = true, c.lost || known.root
	}
	return nil
}
