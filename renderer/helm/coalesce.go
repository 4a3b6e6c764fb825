package helm

import (
	"errors"
	"maps"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// Helm copies all values by reflection before it merges them, which takes a sixth of a rendering. This file merges in the same way, with the
// same shared maps of globals, but copies only the defaults that it must not share. TestCoalesceIsHelms compares the results.

var errNoTable = errors.New("the values of a subchart are no mapping")

// coalesce merges the defaults of a chart and its subcharts into values, which it changes, as chartutil.CoalesceValues does. shared has the
// defaults that the result may share; nil: none. After an error, the values have no meaning, and Helm's function has the message.
func coalesce(c *chart.Chart, values map[string]any, shared *defaults) error {
	shared.fillWhole(values)
	return merger{shared}.chart(c, &place{table: values, own: true})
}

// place is a table of the values of a rendering.
type place struct {
	above *place
	key   string // in the table above
	table map[string]any
	own   bool // of this rendering, which can change it
}

// change returns the table to change it. A shared one is replaced by a copy.
func (p *place) change() map[string]any {
	if !p.own {
		p.table, p.own = maps.Clone(p.table), true
		p.above.change()[p.key] = p.table
	}
	return p.table
}

// merger merges values with the defaults that renderings share.
type merger struct{ shared *defaults }

func (m merger) below(p *place, key string, table map[string]any) *place {
	return &place{above: p, key: key, table: table, own: m.shared.table(table) == nil}
}

func (m merger) chart(c *chart.Chart, p *place) error {
	for key, initial := range c.Values {
		value, ok := p.table[key]
		if !ok {
			p.change()[key] = m.shared.share(initial)
			continue
		}
		if value == nil { // null deletes a default
			delete(p.change(), key)
			continue
		}
		table, isTable := value.(map[string]any)
		under, hasTable := initial.(map[string]any)
		if isTable && hasTable && !m.shared.isWhole(key, table) {
			m.fill(m.below(p, key, table), under, isSubchart(c, key))
		}
	}
	for _, sub := range c.Dependencies() {
		if _, ok := p.table[sub.Name()]; !ok {
			p.change()[sub.Name()] = map[string]any{}
		}
		table, ok := p.table[sub.Name()].(map[string]any)
		if !ok {
			return errNoTable
		}
		if m.shared.isWhole(sub.Name(), table) {
			continue
		}
		below := m.below(p, sub.Name(), table)
		own := below.change() // can replace the table above
		passGlobals(own, p.table)
		if err := m.chart(sub, below); err != nil {
			return err
		}
	}
	return nil
}

// fill adds the defaults that a table lacks. A null in the table deletes the default, or is kept for a later merge.
func (m merger) fill(p *place, under map[string]any, keepNull bool) {
	pair := filling{address(p.table), address(under), keepNull}
	keep := !p.own && m.shared.table(under) != nil
	if keep {
		if _, known := m.shared.complete.Load(pair); known {
			return
		}
	}
	for key, initial := range under {
		value, ok := p.table[key]
		switch {
		case !ok:
			p.change()[key] = m.shared.share(initial)
		case value == nil:
			if !keepNull && initial != nil {
				delete(p.change(), key)
			}
		default:
			table, isTable := value.(map[string]any)
			below, hasTable := initial.(map[string]any)
			if isTable && hasTable {
				m.fill(m.below(p, key, table), below, keepNull)
			}
		}
	}
	if keep && !p.own {
		m.shared.complete.Store(pair, true)
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
