package helm

import (
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// Most values of most targets are the chart's defaults. Renderings share the maps of the defaults, so that nobody copies them, and so that
// their digests are computed once. A template must never change a shared map: the functions that change maps ask first, and then the
// rendering begins again with a copy of that map.

// defaults are the default values of a chart with one selection of dependencies. They are safe for concurrent use.
type defaults struct {
	chart *chart.Chart             // keeps the maps in memory: a freed map could give its address to another one
	maps  map[uintptr]*sharedTable // all maps of the values of the chart and its subcharts, and those in whole

	top     map[string]any        // the values that a rendering without values gets; like chart, it keeps its maps in memory
	merging bool                  // add gets maps of top, which are no defaults
	whole   map[string]wholeTable // by the name of the subchart

	off      atomic.Bool // every rendering copies everything
	restarts atomic.Int32
	complete sync.Map // filling: pairs of tables of which the first lacks nothing
}

// sharedTable is a map of default values.
type sharedTable struct {
	copied        atomic.Bool // each rendering has its own copy
	merged        bool        // it is no default, but made by merging
	above         []uintptr   // maps that contain it
	height, items int         // as in scopeMaps
	sum           [sha256.Size]byte
	valid         atomic.Pointer[checked]
}

// maxShared is the number of default maps that a chart can share.
const maxShared = 1 << 16

// maxRestarts is the number of renderings that may begin again before the chart shares nothing.
const maxRestarts = 8

// newDefaults returns nil for values that cannot be shared.
func newDefaults(c *chart.Chart) *defaults {
	d := &defaults{chart: c, maps: map[uintptr]*sharedTable{}}
	if !d.charts(c) {
		return nil
	}
	d.globals(c)
	d.merge(c)
	return d
}

func (d *defaults) charts(c *chart.Chart) bool {
	if c.Values != nil {
		if _, _, ok := d.add(c.Values, 0, 0); !ok {
			return false
		}
	}
	for _, sub := range c.Dependencies() {
		if !d.charts(sub) {
			return false
		}
	}
	return true
}

// add adds the maps that a value is or contains. It returns false for values that are not plain: copies of them may differ.
func (d *defaults) add(v any, above uintptr, depth int) (height, items int, ok bool) {
	if depth >= maxScopeHeight || len(d.maps) >= maxShared {
		return 0, 0, false
	}
	items = 1
	below := func(item any, from uintptr) bool {
		h, n, ok := d.add(item, from, depth+1)
		height, items = max(height, h), items+n
		return ok && items <= maxScopeItems
	}
	switch x := v.(type) {
	case []any:
		for _, item := range x {
			if !below(item, above) {
				return 0, 0, false
			}
		}
		return height + 1, items, x != nil
	case map[string]any:
		at := address(x)
		if known, twice := d.maps[at]; twice {
			known.above = append(known.above, above)
			return known.height, known.items, known.height > 0
		}
		entry := &sharedTable{above: []uintptr{above}, merged: d.merging}
		d.maps[at] = entry
		for _, item := range x {
			if !below(item, at) {
				return 0, 0, false
			}
		}
		s := sums{shared: d}
		entry.height, entry.items = height+1, items
		entry.sum, ok = s.compute(x, maxScopeHeight)
		return entry.height, entry.items, ok && x != nil
	case nil, bool, string, int, int64, float64:
		return 0, 1, true
	}
	return 0, 0, false
}

// globals marks the maps below each key `global`: merging changes them.
func (d *defaults) globals(c *chart.Chart) {
	d.mark(c.Values, false)
	for _, sub := range c.Dependencies() {
		d.globals(sub)
	}
}

func (d *defaults) mark(v any, global bool) {
	switch x := v.(type) {
	case []any:
		for _, item := range x {
			d.mark(item, global)
		}
	case map[string]any:
		if global {
			d.copy(address(x))
		}
		for key, item := range x {
			d.mark(item, global || key == chartutil.GlobalKey)
		}
	}
}

// copy makes all following renderings copy a map, with those that contain it. It returns false if they do that already.
func (d *defaults) copy(at uintptr) bool {
	known := d.maps[at]
	if known == nil || known.copied.Swap(true) {
		return false
	}
	for _, above := range known.above {
		d.copy(above)
	}
	return true
}

// table returns what is known about a shared map, or nil. No rendering has a map in its values that all renderings copy.
func (d *defaults) table(m map[string]any) *sharedTable {
	if d == nil || m == nil {
		return nil
	}
	return d.maps[address(m)]
}

// share returns a default value, with copies of the maps that must not be shared.
func (d *defaults) share(v any) any {
	if d == nil {
		return copyValue(v)
	}
	switch x := v.(type) {
	case map[string]any:
		if known := d.table(x); known != nil && !known.copied.Load() {
			return x
		}
		out := make(map[string]any, len(x))
		for key, item := range x {
			out[key] = d.share(item)
		}
		return out
	case []any:
		for i, item := range x {
			shared := d.share(item)
			if sameValue(shared, item) {
				continue
			}
			out := make([]any, len(x))
			copy(out, x[:i])
			out[i] = shared
			for j := i + 1; j < len(x); j++ {
				out[j] = d.share(x[j])
			}
			return out
		}
		return x
	default:
		return v
	}
}

// sameValue reports whether share returned the value itself.
func sameValue(shared, v any) bool {
	switch x := v.(type) {
	case map[string]any:
		out, ok := shared.(map[string]any)
		return ok && address(out) == address(x)
	case []any:
		out, ok := shared.([]any)
		return ok && len(out) == len(x) && (len(x) == 0 || &out[0] == &x[0])
	}
	return true
}

// errShared ends an execution that would have changed shared values.
var errShared = errors.New("a template changes default values that other renderings share")

// write is called before a template changes a map. After an error, it must not.
func (d *defaults) write(m map[string]any) error {
	if d.table(m) == nil {
		return nil
	}
	if d.copy(address(m)) && !d.maps[address(m)].merged && d.restarts.Add(1) > maxRestarts {
		d.off.Store(true)
	}
	return errShared
}

// filling is a pair of tables that were merged without a change.
type filling struct {
	table, defaults uintptr
	keepNull        bool
}
