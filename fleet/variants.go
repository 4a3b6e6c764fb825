package fleet

import (
	"maps"
	"slices"
	"strconv"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

// variant has the placement and the sources of an app, in one environment or in all others.
type variant struct {
	selector selector
	sources  []Source
}

// in returns the app's variant for an environment.
func (a *App) in(environment string) *variant {
	if v, ok := a.variants[environment]; ok {
		return v
	}
	return &a.base
}

// sourcesIn returns the sources in an environment, references not replaced. They must not be changed.
func (a *App) sourcesIn(environment string) []Source { return a.in(environment).sources }

// AllSources returns the sources of all environments, references not replaced.
func (a *App) AllSources() []Source {
	out := slices.Clone(a.base.sources)
	for _, name := range slices.Sorted(maps.Keys(a.variants)) {
		if e := a.Spec.Environments[name]; e.Source != nil || len(e.Sources) > 0 {
			out = append(out, a.variants[name].sources...)
		}
	}
	return out
}

// Selects reports whether the app goes to a cluster, if that is not retired.
func (a *App) Selects(c *Cluster) bool {
	if a.imported != nil {
		return a.imported.places(c)
	}
	if a.workspace != nil && !a.workspace.Reaches(c) {
		return false
	}
	return a.in(c.Environment).selector.matches(c.Labels)
}

// appVariants decodes an app's sources and placements: those of spec, and those of each environment.
func (l *loader) appVariants(a *App) {
	spec := a.Spec
	a.base = variant{
		selector: l.selector(a.doc, spec.Placement, "spec", "placement"),
		sources:  l.sources(a, spec.Source, spec.Sources, "spec"),
	}
	if a.catalog != nil {
		a.base.sources = a.catalog.sources
	} else if len(a.base.sources) == 0 && spec.From == nil {
		l.errorf(a.doc, []string{"spec"}, "source: {helm: …} or {kustomize: …} or {manifests: …}",
			"the app has no source")
	}
	a.variants = make(map[string]*variant, len(spec.Environments))
	for _, name := range slices.Sorted(maps.Keys(spec.Environments)) {
		e, at := spec.Environments[name], []string{"spec", "environments", name}
		if _, ok := l.fleet.Environment(name); !ok && l.environmentsKnown() {
			l.errorf(a.doc, at, "", "app %s: the environment %q does not exist%s", a.Name, name,
				nearest.DidYouMean(name, l.fleet.environmentNames()))
		}
		v := a.base
		if e.Placement != nil {
			v.selector = l.selector(a.doc, e.Placement, append(slices.Clone(at), "placement")...)
		}
		if sources := l.sources(a, e.Source, e.Sources, at...); len(sources) > 0 {
			v.sources = sources
		}
		a.variants[name] = &v
	}
}

// checkSkips refuses layers that do not exist. Layers are known only after all files are read.
func (l *loader) checkSkips() {
	names := []string{LayerGlobal}
	for _, layer := range l.fleet.Spec.Layers {
		names = append(names, layer.Name)
	}
	for _, a := range l.fleet.Declared() {
		for i, name := range a.Spec.SkipLayers {
			if !slices.Contains(names, name) {
				l.errorf(a.doc, []string{"spec", "skipLayers", strconv.Itoa(i)}, "a layer of spec.layers, or global",
					"app %s: the layer %q does not exist%s", a.Name, name, nearest.DidYouMean(name, names))
			}
		}
	}
}
