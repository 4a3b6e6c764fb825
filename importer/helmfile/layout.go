package helmfile

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/importer/internal/layered"
)

// writer writes what the converter has read.
type writer struct{ *converter }

// key is the value of the label by which layers differ.
func (c writer) key(x *cell) string {
	if c.by == byEnvironment {
		return x.cluster.environment
	}
	return x.cluster.name
}

// reference is that value in a template.
func (c writer) reference() string {
	if c.by == byEnvironment {
		return "${environment}"
	}
	return "${cluster.name}"
}

// write writes all files.
func (c writer) write() error {
	for _, x := range c.cells {
		c.slots = max(c.slots, x.slots())
	}
	for _, a := range c.apps {
		if err := c.app(a); err != nil {
			return fmt.Errorf("app %s: %w", a.name, err)
		}
	}
	used := map[string]*cluster{}
	for _, a := range c.apps {
		for _, x := range a.cells {
			used[x.cluster.name] = x.cluster
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		k := used[name]
		c.result.Clusters = append(c.result.Clusters, name)
		err := c.file(path.Join("clusters", name+".yaml"), fleet.ClusterFile{
			APIVersion: fleet.APIVersion, Kind: "Cluster", Metadata: fleet.Metadata{Name: name},
			Spec: fleet.ClusterSpec{Environment: k.environment, KubeVersion: k.kubeVersion, APIVersions: k.apiVersions},
		})
		if err != nil {
			return err
		}
	}
	spec := map[string]any{"environments": c.stages(used)}
	if layer := c.layer(); layer != nil {
		spec["layers"] = []any{layer}
	}
	return c.file(fleet.File, map[string]any{
		"apiVersion": fleet.APIVersion, "kind": "Fleet", "metadata": map[string]any{"name": cmp.Or(c.Name, "fleet")},
		"spec": spec,
	})
}

// stages are the environments that have a cluster.
func (c writer) stages(used map[string]*cluster) []any {
	var out []any
	for _, name := range c.environments {
		for _, k := range used {
			if k.environment == name {
				out = append(out, map[string]any{"name": name})
				break
			}
		}
	}
	return out
}

// layer is the layer of the fleet: the conventional folders, and before them the values files that stay where they are.
// It is nil if no file needs it.
func (c writer) layer() any {
	needed := false
	for name := range c.result.Files {
		needed = needed || strings.Contains(name, "/layers/"+c.by+"/")
	}
	switch {
	case c.slots == 0 && !needed:
		return nil
	case c.slots == 0:
		return c.by
	}
	var values []string
	for n := range c.slots {
		values = append(values, fmt.Sprintf("${app.vars.values.%s.%s:=%s}", slotName(n), c.reference(), noFile))
	}
	dir := path.Join("apps/${app}", c.by, c.reference())
	return map[string]any{"name": c.by, "values": append(values, dir+"/values.yaml"), "components": []string{dir}}
}

// dir is the folder of an app in the layer of a cell. The conventional one is not read beside path templates.
func (c writer) dir(a *app, x *cell) string {
	if c.slots > 0 {
		return path.Join("apps", a.name, c.by, c.key(x))
	}
	return path.Join("apps", a.name, "layers", c.by, c.key(x))
}

// slots returns the number of values that become files of their own: all up to the last kept file, or all values if one
// file cannot override the kept ones equally, as with {a: null} and then {a: {x: 1}}.
func (x *cell) slots() int {
	out := 0
	for n, e := range x.entries {
		if e.path != "" {
			out = n + 1
		}
	}
	if out > 0 && !same(merge(merged(x.entries[:out]), x.tail(out)), x.tail(0)) {
		return len(x.entries)
	}
	return out
}

// tail merges the values after the first from entries.
func (x *cell) tail(from int) map[string]any { return merge(merged(x.entries[from:]), x.overlay) }

// noFile is the path of a slot that an app does not use. Missing files of layers are skipped, and no Git tree has this
// one.
const noFile = ".git/none"

// slotName names the values files of a release in their order.
func slotName(n int) string { return "file" + strconv.Itoa(n+1) }

// app writes an app.
func (c writer) app(a *app) error {
	spec := fleet.AppSpec{Namespace: a.cells[0].namespace, Placement: c.placement(a), DependsOn: c.dependsOn(a)}
	vars := map[string]any{}
	namespaces := map[string]any{}
	varies := false
	for _, x := range a.cells {
		namespaces[c.key(x)] = x.namespace
		varies = varies || x.namespace != spec.Namespace
	}
	if varies {
		spec.Namespace, vars["namespaces"] = "${app.vars.namespaces."+c.reference()+"}", namespaces
	}
	c.sources(a, &spec)
	files, err := c.values(a)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		vars["values"] = files
	}
	if len(vars) > 0 {
		spec.Vars = vars
	}
	if err := c.components(a); err != nil {
		return err
	}
	return c.file(path.Join("apps", a.name, "app.yaml"), fleet.AppFile{
		APIVersion: fleet.APIVersion, Kind: "App", Metadata: fleet.Metadata{Name: a.name}, Spec: spec,
	})
}

// placement selects the clusters of an app: by environment, if it is on each cluster of its environments.
func (c writer) placement(a *app) *fleet.Selector {
	environments, clusters := map[string]int{}, []string{}
	for _, x := range a.cells {
		environments[x.cluster.environment]++
		clusters = append(clusters, x.cluster.name)
	}
	complete, all := true, map[string]map[string]bool{}
	for _, x := range c.cells {
		if all[x.cluster.environment] == nil {
			all[x.cluster.environment] = map[string]bool{}
		}
		all[x.cluster.environment][x.cluster.name] = true
	}
	for name, n := range environments {
		complete = complete && n == len(all[name])
	}
	switch {
	case complete && len(environments) == len(all):
		return &fleet.Selector{}
	case complete:
		return &fleet.Selector{MatchExpressions: []fleet.Requirement{{
			Key: byEnvironment, Operator: "In",
			Values: slices.Sorted(maps.Keys(environments)),
		}}}
	}
	return &fleet.Selector{MatchExpressions: []fleet.Requirement{{Key: byCluster, Operator: "In", Values: clusters}}}
}

// sources writes the chart of the first environment for all, and those of the others where they differ.
func (c writer) sources(a *app, spec *fleet.AppSpec) {
	for _, name := range c.environments {
		x := a.in(name)
		if x == nil {
			continue
		}
		source := &fleet.Source{Helm: &x.source}
		if x.source.ReleaseName == a.name {
			source.Helm.ReleaseName = ""
		}
		switch {
		case spec.Source == nil:
			spec.Source = source
		case !same(spec.Source, source):
			if spec.Environments == nil {
				spec.Environments = map[string]fleet.AppEnvironment{}
			}
			spec.Environments[name] = fleet.AppEnvironment{Source: source}
		}
	}
}

// values writes the values of an app. Files of the repository that stay where they are, and what is between them, are
// slots of the layer, in their order. What is above them is in the folders of the app's layers.
func (c writer) values(a *app) (map[string]any, error) {
	files, tails, global := map[string]any{}, make([]map[string]any, len(a.cells)), true
	for i, x := range a.cells {
		slots := x.slots()
		tails[i] = x.tail(slots)
		if slots == 0 {
			continue
		}
		global = false // the layer global is below all slots
		for n, e := range x.entries[:slots] {
			name := e.path
			if name == "" {
				name = path.Join("apps", a.name, "values", c.key(x)+"-"+strconv.Itoa(n+1)+".yaml")
				if err := c.file(name, layered.Escaped(e.values)); err != nil {
					return nil, err
				}
			} else if !slices.Contains(c.result.Kept, name) {
				c.result.Kept = append(c.result.Kept, name)
			}
			slot, ok := files[slotName(n)].(map[string]any)
			if !ok {
				slot = map[string]any{}
				files[slotName(n)] = slot
			}
			slot[c.key(x)] = name // last, because it can have dots
		}
	}
	shared := map[string]any{}
	if global {
		shared = layered.Common(tails)
		if err := c.valuesFile(path.Join("apps", a.name, "layers/global"), shared); err != nil {
			return nil, err
		}
	}
	for i, x := range a.cells {
		if err := c.valuesFile(c.dir(a, x), layered.Rest(tails[i], shared)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// valuesFile writes values, if there are any.
func (c writer) valuesFile(dir string, values map[string]any) error {
	if len(values) == 0 {
		return nil
	}
	return c.file(path.Join(dir, "values.yaml"), layered.Escaped(values))
}

// components writes the patches of an app.
func (c writer) components(a *app) error {
	equal := true
	for _, x := range a.cells {
		equal = equal && reflect.DeepEqual(x.patches, a.cells[0].patches)
	}
	for _, x := range a.cells {
		if len(x.patches) == 0 {
			continue
		}
		dir := c.dir(a, x)
		if equal {
			dir = path.Join("apps", a.name, "layers/global")
		}
		err := c.file(path.Join(dir, "kustomization.yaml"), map[string]any{
			"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component",
			"patches": layered.Escaped(x.patches),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
