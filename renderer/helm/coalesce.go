package helm

import (
	"errors"
	"maps"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// Helm copies all values by reflection before it merges them, which takes a sixth of a rendering. This file merges in the same way, with the
// same shared maps, but copies only the defaults that it needs. TestCoalesceIsHelms compares the results.

var errNoTable = errors.New("the values of a subchart are no mapping")

// coalesce merges the defaults of a chart and its subcharts into values, which it changes, as chartutil.CoalesceValues does. After an error,
// the values have no meaning, and Helm's function has the message.
func coalesce(c *chart.Chart, values map[string]any) error {
	for key, initial := range c.Values {
		value, ok := values[key]
		if !ok {
			values[key] = copyValue(initial)
			continue
		}
		if value == nil { // null deletes a default
			delete(values, key)
			continue
		}
		table, isTable := value.(map[string]any)
		defaults, hasTable := initial.(map[string]any)
		if isTable && hasTable {
			fill(table, defaults, isSubchart(c, key))
		}
	}
	for _, sub := range c.Dependencies() {
		if _, ok := values[sub.Name()]; !ok {
			values[sub.Name()] = map[string]any{}
		}
		table, ok := values[sub.Name()].(map[string]any)
		if !ok {
			return errNoTable
		}
		passGlobals(table, values)
		if err := coalesce(sub, table); err != nil {
			return err
		}
	}
	return nil
}

// fill adds copies of the defaults that a table lacks. A null in the table deletes the default, or is kept for a later merge.
func fill(table, defaults map[string]any, keepNull bool) {
	for key, initial := range defaults {
		value, ok := table[key]
		switch {
		case !ok:
			table[key] = copyValue(initial)
		case value == nil:
			if !keepNull && initial != nil {
				delete(table, key)
			}
		default:
			below, isTable := value.(map[string]any)
			under, hasTable := initial.(map[string]any)
			if isTable && hasTable {
				fill(below, under, keepNull)
			}
		}
	}
}

func isSubchart(c *chart.Chart, name string) bool {
	for _, sub := range c.Dependencies() {
		if sub.Name() == name {
			return true
		}
	}
	return false
}

// passGlobals merges the globals of a chart into the values of its subchart. Those of the chart have precedence.
func passGlobals(values, above map[string]any) {
	globals, ok := table(values, chartutil.GlobalKey)
	if !ok {
		return
	}
	passed, ok := table(above, chartutil.GlobalKey)
	if !ok {
		return
	}
	for key, value := range passed {
		from, isTable := value.(map[string]any)
		own, has := globals[key]
		ownTable, ownIsTable := own.(map[string]any)
		switch {
		case isTable && !has:
			globals[key] = maps.Clone(from)
		case isTable && ownIsTable:
			merged := maps.Clone(from)
			chartutil.MergeTables(merged, ownTable)
			globals[key] = merged
		case !isTable && !ownIsTable:
			globals[key] = value
		}
	}
	values[chartutil.GlobalKey] = globals
}

// table returns the mapping at a key, or a new one. It returns false if the key has another value.
func table(values map[string]any, key string) (map[string]any, bool) {
	value, ok := values[key]
	if !ok {
		return map[string]any{}, true
	}
	out, ok := value.(map[string]any)
	return out, ok
}
