package helm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// Helm copies all values by reflection to read the few from which it follows which dependencies are enabled, and merges the defaults of the
// enabled ones. The values of a rendering decide nothing else, so this file reads only these, and keeps what Helm makes of a chart with these
// dependencies. TestSelectedIsHelms compares the results.

// selections has a chart with processed dependencies for each choice of them. It is safe for concurrent use.
type selections struct {
	once  sync.Once
	asked *asked

	mu     sync.Mutex
	charts map[string]*selection
}

// selection is a chart with the dependencies of one choice. Nobody changes it.
type selection struct {
	chart    *chart.Chart
	defaults *defaults // nil: they cannot be shared

	mu       sync.Mutex
	programs map[bool]*program // of a probe and of others; nil if the templates do not parse
}

// asked is what decides which dependencies are enabled.
type asked struct {
	requested []*chart.Dependency
	paths     pathTree     // of conditions and tags in the values
	defaults  *chart.Chart // with the subcharts under the names in the values, and only the values at paths
	all       *chart.Chart // with all values
}

// pathTree is a set of paths. A nil tree is the whole value.
type pathTree map[string]pathTree

func (t pathTree) add(path string) {
	key, rest, more := strings.Cut(path, ".")
	below, known := t[key]
	switch {
	case known && below == nil:
	case !more:
		t[key] = nil
	default:
		if !known {
			below = pathTree{}
			t[key] = below
		}
		below.add(rest)
	}
}

// of returns a copy of the values with only these paths.
func (t pathTree) of(values map[string]any) map[string]any {
	out := map[string]any{}
	for key, below := range t {
		value, ok := values[key]
		if !ok {
			continue
		}
		table, isTable := value.(map[string]any)
		switch {
		case below == nil:
			value = copyValue(value)
		case isTable:
			value = below.of(table)
		}
		out[key] = value
	}
	return out
}

// selected returns a copy of the chart with the dependencies that the values enable, with their defaults, and the selection, or nil if Helm
// must decide.
func (c *Chart) selected(values map[string]any) (*chart.Chart, *selection, error) {
	choice, ok := c.choice(values)
	if ok {
		c.selections.mu.Lock()
		known := c.selections.charts[choice]
		c.selections.mu.Unlock()
		if known != nil {
			return copyChart(known.chart), known, nil
		}
	}
	work := copyChart(c.chart)
	if err := chartutil.ProcessDependenciesWithMerge(work, copyMap(values)); err != nil {
		return nil, nil, fmt.Errorf("chart %s: dependencies: %w", c.Name(), err)
	}
	if !ok {
		return work, nil, nil
	}
	made := &selection{chart: work, defaults: newDefaults(work), programs: map[bool]*program{}}
	c.selections.mu.Lock()
	defer c.selections.mu.Unlock()
	if c.selections.charts == nil || len(c.selections.charts) >= maxPrograms {
		c.selections.charts = map[string]*selection{}
	}
	if known := c.selections.charts[choice]; known != nil { // another rendering was faster
		made = known
	}
	c.selections.charts[choice] = made
	return copyChart(made.chart), made, nil
}

// choice returns which dependencies are enabled. It returns false if Helm must decide.
func (c *Chart) choice(values map[string]any) (string, bool) {
	c.selections.once.Do(func() { c.selections.asked = newAsked(c.chart) })
	a := c.selections.asked
	if a == nil || !a.tables(values) {
		return "", false
	}
	if len(a.requested) == 0 {
		return "", true
	}
	read := a.paths.of(values)
	if coalesce(a.defaults, read, nil) != nil {
		return "", false
	}
	out := make([]byte, len(a.requested))
	for i, r := range a.requested {
		enabled := conditioned(r, read, tagged(r, read))
		if out[i] = '0'; enabled {
			out[i] = '1'
		}
	}
	return string(out), true
}

// newAsked returns nil for a chart whose subcharts have subcharts or dependencies of their own, which few have.
func newAsked(c *chart.Chart) *asked {
	work := copyChart(c)
	a := &asked{paths: pathTree{}, requested: work.Metadata.Dependencies}
	if slices.Contains(a.requested, nil) || slices.ContainsFunc(work.Dependencies(), func(d *chart.Chart) bool {
		return d.Metadata.Dependencies != nil || len(d.Dependencies()) > 0
	}) {
		return nil
	}
	if a.requested != nil {
		work.SetDependencies(named(work)...)
	}
	a.all = work
	a.paths.add("tags")
	a.paths.add(chartutil.GlobalKey)
	for _, r := range a.requested {
		if r.Alias != "" {
			r.Name = r.Alias
		}
		for path := range strings.SplitSeq(strings.TrimSpace(r.Condition), ",") {
			if path != "" {
				a.paths.add(path)
			}
		}
	}
	a.defaults = &chart.Chart{Metadata: work.Metadata, Values: a.paths.of(work.Values)}
	for _, d := range work.Dependencies() {
		if d.Name() == chartutil.GlobalKey {
			return nil
		}
		sub := &chart.Chart{Metadata: d.Metadata}
		if paths, asked := a.paths[d.Name()]; asked && paths == nil {
			sub.Values = d.Values
		} else {
			sub.Values = paths.of(d.Values)
		}
		a.defaults.AddDependency(sub)
	}
	return a
}

// named returns the subcharts of a chart under the names that Helm gives them before it knows which are enabled.
func named(c *chart.Chart) []*chart.Chart {
	var out []*chart.Chart
	for _, d := range c.Dependencies() {
		if !slices.ContainsFunc(c.Metadata.Dependencies, func(r *chart.Dependency) bool {
			return d.Name() == r.Name && chartutil.IsCompatibleRange(r.Version, d.Metadata.Version)
		}) {
			out = append(out, d)
		}
	}
	for _, r := range c.Metadata.Dependencies {
		for _, d := range c.Dependencies() {
			if d.Name() == r.Name && chartutil.IsCompatibleRange(r.Version, d.Metadata.Version) {
				sub, metadata := *d, *d.Metadata
				if r.Alias != "" {
					metadata.Name = r.Alias
				}
				sub.Metadata = &metadata
				out = append(out, &sub)
				break
			}
		}
	}
	return out
}

// tables reports whether the values of all subcharts are mappings. Where they are not, Helm has the message.
func (a *asked) tables(values map[string]any) bool {
	for _, d := range a.all.Dependencies() {
		for _, from := range []map[string]any{values, a.all.Values} {
			if value, ok := from[d.Name()]; ok {
				if _, isTable := value.(map[string]any); !isTable {
					return false
				}
			}
		}
	}
	return true
}

// tagged reports whether the tags of a dependency enable it, as Helm decides.
func tagged(r *chart.Dependency, values chartutil.Values) bool {
	tags, err := values.Table("tags")
	if err != nil {
		return true
	}
	on, off := false, false
	for _, tag := range r.Tags {
		if set, ok := tags[tag].(bool); ok {
			on, off = on || set, off || !set
		}
	}
	return on || !off
}

// conditioned reports whether the first condition of a dependency that has a value enables it. otherwise is the answer without one.
func conditioned(r *chart.Dependency, values chartutil.Values, otherwise bool) bool {
	for path := range strings.SplitSeq(strings.TrimSpace(r.Condition), ",") {
		if path == "" {
			continue
		}
		value, err := values.PathValue(path)
		if set, ok := value.(bool); ok && err == nil {
			return set
		}
	}
	return otherwise
}

// copyMetadata copies what a template or Helm can change in place: lists of texts are sorted, and maps merged.
func copyMetadata(m *chart.Metadata) *chart.Metadata {
	out := *m
	out.Keywords, out.Sources, out.Annotations = slices.Clone(m.Keywords), slices.Clone(m.Sources), maps.Clone(m.Annotations)
	out.Maintainers = slices.Clone(m.Maintainers)
	for i, maintainer := range out.Maintainers {
		if maintainer != nil {
			person := *maintainer
			out.Maintainers[i] = &person
		}
	}
	out.Dependencies = slices.Clone(m.Dependencies) // without any, Helm has nothing to process
	for i, d := range out.Dependencies {
		if d != nil {
			dependency := *d
			dependency.Tags, dependency.ImportValues = slices.Clone(d.Tags), slices.Clone(d.ImportValues)
			for j, imported := range dependency.ImportValues {
				if texts, ok := imported.(map[string]string); ok { // as Helm leaves it
					dependency.ImportValues[j] = maps.Clone(texts)
				} else {
					dependency.ImportValues[j] = copyValue(imported)
				}
			}
			out.Dependencies[i] = &dependency
		}
	}
	return &out
}
