package helm

import (
	"errors"
	"maps"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// Helm copies all values by reflection before it merges them, which takes a sixth of a rendering. This file merges in the same way, with the
// same shared maps, but copies with copyMap. TestCoalesceIsHelms compares the results.

var errNoTable = errors.New("the values of a subchart are no mapping")

// coalesce merges the defaults of a chart and its subcharts into values, which it changes, as chartutil.CoalesceValues does. After an error,
// the values have no meaning, and Helm's function has the message.
func coalesce(c *chart.Chart, values map[string]any) error {
	for key, initial := range copyMap(c.Values) {
		value, ok := values[key]
		if !ok {
			values[key] = initial
			continue
		}
		if value == nil { // null deletes a default
			delete(values, key)
			continue
		}
		table, isTable := value.(map[string]any)
		defaults, hasTable := initial.(map[string]any)
		switch {
		case !isTable || !hasTable:
		case isSubchart(c, key):
			chartutil.MergeTables(table, defaults)
		default:
			chartutil.CoalesceTables(table, defaults)
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
