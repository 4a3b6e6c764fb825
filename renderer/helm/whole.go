package helm

import (
	"slices"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// Most values of a target say nothing of most subcharts. What merging makes of such a subchart's values depends on the globals alone, so this
// file keeps them for all renderings whose values have no globals. They are shared like defaults: a template that changes them, or a map in
// them, makes the rendering begin again without them.

// wholeTable is the merged values of a subchart of which the values of a rendering say nothing.
type wholeTable struct {
	values map[string]any
	known  *sharedTable
}

// merge merges the defaults with empty values, and keeps what the subcharts get.
func (d *defaults) merge(c *chart.Chart) {
	if len(c.Dependencies()) == 0 {
		return
	}
	top := map[string]any{}
	if coalesce(c, top, d) != nil || nestedGlobals(top[chartutil.GlobalKey]) {
		return
	}
	d.top, d.whole, d.merging = top, map[string]wholeTable{}, true
	for _, sub := range c.Dependencies() {
		values, _ := top[sub.Name()].(map[string]any) // coalesce fails if it is no table
		if _, _, ok := d.add(values, 0, 0); ok {
			d.whole[sub.Name()] = wholeTable{values, d.table(values)}
		}
	}
}

// nestedGlobals reports whether a mapping in the globals contains another mapping. Each subchart gets a copy of the outer one. All charts have
// the inner one in common, so that a template of one chart can change what the others see.
func nestedGlobals(globals any) bool {
	all, _ := globals.(map[string]any) // Helm gives subcharts no other kind of globals
	for _, item := range all {
		below, isTable := item.(map[string]any)
		if !isTable && hasTable(item) {
			return true
		}
		for _, v := range below {
			if hasTable(v) {
				return true
			}
		}
	}
	return false
}

// hasTable reports whether a value is a mapping or contains one.
func hasTable(v any) bool {
	switch x := v.(type) {
	case map[string]any:
		return true
	case []any:
		return slices.ContainsFunc(x, hasTable)
	}
	return false
}

// fillWhole adds the values of subcharts of which the values of a rendering say nothing.
func (d *defaults) fillWhole(values map[string]any) {
	if d == nil {
		return
	}
	if _, ok := values[chartutil.GlobalKey]; ok {
		return
	}
	for name, whole := range d.whole {
		if _, ok := values[name]; !ok && !whole.known.copied.Load() {
			values[name] = whole.values
		}
	}
}

// isWhole reports whether a table is what fillWhole adds for a subchart.
func (d *defaults) isWhole(name string, table map[string]any) bool {
	return d != nil && table != nil && d.whole[name].values != nil && address(d.whole[name].values) == address(table)
}
