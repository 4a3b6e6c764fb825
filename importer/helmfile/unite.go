package helmfile

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
)

// app is a release on all its clusters.
type app struct {
	name  string
	cells []*cell // by cluster
}

// Labels by which layers differ.
const (
	byEnvironment = "environment"
	byCluster     = "cluster"
)

// unite makes apps of the cells: one for each name of a release, or for each name and namespace if a cluster has
// several of a name.
func (c *converter) unite() {
	several := c.several()
	byName := map[string]*app{}
	var cells []*cell
	for _, x := range c.cells {
		name := x.release.Name
		if several[name] {
			name = x.namespace + "." + name
		}
		a := byName[name]
		if why := excluded(x, name, a); why != nil {
			c.find(c.at(x), LeftOut, why.field, why.reason)
			continue
		}
		if a == nil {
			a = &app{name: name}
			byName[name] = a
		}
		x.setVersions()
		a.cells, cells = append(a.cells, x), append(cells, x)
	}
	c.cells = cells
	c.unversioned()
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		a := byName[name]
		slices.SortFunc(a.cells, func(x, y *cell) int { return strings.Compare(x.cluster.name, y.cluster.name) })
		c.apps = append(c.apps, a)
		c.result.Apps = append(c.result.Apps, name)
	}
	c.by = byEnvironment
	for _, a := range c.apps {
		for _, x := range a.cells {
			if first := a.in(x.cluster.environment); !same(first.variable(), x.variable()) {
				c.by = byCluster
			}
		}
	}
}

// excluded says why a cell cannot be added to the app of a name, which is nil if it has no cell yet.
func excluded(x *cell, name string, a *app) *problem {
	if !fleet.ValidName(name) {
		return problemf("name", "%q cannot be the name of an app", name)
	}
	if a != nil {
		if first := a.cells[0]; first.release.Name != x.release.Name {
			return problemf("name", "its app would be %s, as that of the release %s in the namespace %s (rename one of them)", name, first.release.Name, first.namespace)
		}
		if first := a.in(x.cluster.environment); first != nil && !same(first.source, x.source) {
			return problemf("chart", "it has another chart or version on %s, which is in the same environment",
				first.cluster.name)
		}
	}
	return x.cluster.conflict(x)
}

// several returns the names that two releases of a cluster have.
func (c *converter) several() map[string]bool {
	type placed struct {
		cluster *cluster
		name    string
	}
	seen, out := map[placed]bool{}, map[string]bool{}
	for _, x := range c.cells {
		p := placed{x.cluster, x.release.Name}
		if seen[p] {
			out[p.name] = true
		}
		seen[p] = true
	}
	return out
}

func (c *converter) at(x *cell) place {
	return place{
		environment: x.cluster.environment, file: x.file, line: x.release.line, release: x.release.Name,
		namespace: x.stated, context: x.cluster.context,
	}
}

// in returns the first cell of an environment.
func (a *app) in(environment string) *cell {
	for _, x := range a.cells {
		if x.cluster.environment == environment {
			return x
		}
	}
	return nil
}

// variable is what layers and variables say of a cell.
func (x *cell) variable() any {
	files := []any{x.namespace}
	for _, e := range x.entries[:x.slots()] {
		files = append(files, e.path, e.values)
	}
	return []any{files, merged(x.entries), x.overlay, x.patches}
}

func same(a, b any) bool {
	x, failed := json.Marshal(a)
	y, wrong := json.Marshal(b)
	return failed == nil && wrong == nil && string(x) == string(y)
}
