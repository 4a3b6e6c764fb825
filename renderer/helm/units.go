package helm

import (
	"path"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// unit is a template with the scope that it is executed in.
type unit struct {
	file     *chart.File
	scope    map[string]any
	basePath string
	digests  *digests // of the scope
}

// chartScope has the type of Helm's `.Chart`.
type chartScope = struct {
	chart.Metadata
	IsRoot bool
}

// units lists the templates of a chart and its subcharts by name.
func (c *Chart) units(in prepared) map[string]unit {
	out := make(map[string]unit, templates(in.work))
	c.addUnits(out, in.work, in.top, &sums{shared: in.shared})
	return out
}

// templates returns the number of templates of a chart and its subcharts.
func templates(work *chart.Chart) int {
	n := len(work.Templates)
	for _, sub := range work.Dependencies() {
		n += templates(sub)
	}
	return n
}

// addUnits adds the templates of one chart and returns their scope.
func (c *Chart) addUnits(out map[string]unit, work *chart.Chart, above chartutil.Values, digestsOfMaps *sums) map[string]any {
	subcharts := map[string]any{}
	scope := map[string]any{
		"Chart":        chartScope{*work.Metadata, work.IsRoot()},
		"Files":        c.parsed.files(work.Files),
		"Release":      above["Release"],
		"Capabilities": above["Capabilities"],
		"Values":       chartutil.Values{},
		"Subcharts":    subcharts,
	}
	if work.IsRoot() {
		scope["Values"] = above["Values"]
	} else if values, err := above.Table("Values." + work.Name()); err == nil {
		scope["Values"] = values
	}
	for _, sub := range work.Dependencies() {
		_, twice := subcharts[sub.Name()]
		digestsOfMaps.ambiguous = digestsOfMaps.ambiguous || twice
		subcharts[sub.Name()] = c.addUnits(out, sub, scope, digestsOfMaps)
	}
	full := work.ChartFullPath()
	known := &digests{scope: scope, sums: digestsOfMaps}
	library := strings.EqualFold(work.Metadata.Type, "library")
	basePath := path.Join(full, "templates")
	for _, f := range work.Templates {
		if f != nil && (!library || partial(f.Name)) {
			out[c.parsed.name(full, f)] = unit{f, scope, basePath, known}
		}
	}
	return scope
}

// partial reports whether a template only defines other templates.
func partial(name string) bool { return strings.HasPrefix(path.Base(name), "_") }

// templateOf is a template of the chart with a path: the same file can be in several aliases of a chart.
type templateOf struct {
	chart string
	file  *chart.File
}

// name returns the name of a template.
func (p *parsedCharts) name(chart string, f *chart.File) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := templateOf{chart, f}
	known, ok := p.names[at]
	if !ok {
		if p.names == nil {
			p.names = map[templateOf]string{}
		}
		known = path.Join(chart, f.Name)
		p.names[at] = known
	}
	return known
}
