package fleet

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// templateChecks checks the path templates of layers.
type templateChecks struct {
	*findings
	fleet *Fleet
	file  document // sluice.yaml
}

// all refuses path templates with references that a cluster or app does not set. The layer's own label may
// be missing: the layer then does not apply to the cluster.
func (tc templateChecks) all() {
	for i, layer := range tc.fleet.Spec.Layers {
		at := []string{"spec", "layers", strconv.Itoa(i)}
		for j, v := range layer.Values {
			tc.template(layer.Name, v.Path, append(slices.Clone(at), "values", strconv.Itoa(j)))
		}
		for j, template := range layer.Components {
			tc.template(layer.Name, template, append(slices.Clone(at), "components", strconv.Itoa(j)))
		}
	}
}

// templates returns all path templates of a layer.
func (l Layer) templates() []string {
	out := make([]string, 0, len(l.Values)+len(l.Components))
	for _, v := range l.Values {
		out = append(out, v.Path)
	}
	return append(out, l.Components...)
}

func (tc templateChecks) template(layer, template string, at []string) {
	segments, err := parseReferences(template)
	if err != nil {
		return // fleetChecks has reported it
	}
	own, tenants := splitTargets(tc.targetsOf(segments))
	tc.targets(layer, template, segments, own, tc.file, at)
	for _, targets := range tenants { // at the app: what its team leaves out concerns the workspace alone
		tc.targets(layer, template, segments, targets, targets[0].App.doc, []string{"spec", "vars"})
	}
}

// splitTargets returns the targets of the fleet's own apps, and those of each app of a workspace.
func splitTargets(targets []Target) (own []Target, tenants [][]Target) {
	at := map[*App]int{}
	for _, t := range targets {
		if t.App.workspace == nil {
			own = append(own, t)
			continue
		}
		n, ok := at[t.App]
		if !ok {
			n = len(tenants)
			at[t.App] = n
			tenants = append(tenants, nil)
		}
		tenants[n] = append(tenants[n], t)
	}
	return own, tenants
}

// targets checks a path template for targets and reports what is wrong at a place of doc.
func (tc templateChecks) targets(layer, template string, segments []segment, targets []Target, doc document,
	at []string,
) {
	for _, s := range segments {
		if s.ref == nil || s.ref.name == refLabels+layer {
			continue
		}
		var without []string
		for _, t := range targets {
			_, ok, err := t.lookup(s.ref)
			if err != nil {
				tc.errorf(doc, at, "", "layer %s: %v", layer, err)
				return
			}
			if owner := t.owner(s.ref); !ok && !s.ref.optional && !slices.Contains(without, owner) {
				without = append(without, owner)
			}
		}
		if len(without) > 0 {
			kind := "cluster"
			if s.ref.ofApp() {
				kind = "app"
			}
			tc.errorf(doc, at, "set it, or write a fallback with :=", "layer %s: %s is not set for %s", layer,
				s.ref.text, safetext.Some(kind, without))
		}
	}
	for _, t := range targets {
		if p, err := t.text(template); err == nil && leavesRepository(p) {
			tc.errorf(doc, at, "relative to the repository's root, with forward slashes",
				"layer %s: the path %q of cluster %s leaves the repository", layer, p, t.Cluster.Name)
			return
		}
	}
}

// owner returns the name of the app or cluster that the value of a reference belongs to.
func (t Target) owner(ref *reference) string {
	if ref.ofApp() {
		return t.App.Name
	}
	return t.Cluster.Name
}

// ofApp reports whether a reference can have different values for different apps.
func (r *reference) ofApp() bool {
	return strings.HasPrefix(r.name, refAppVars) || strings.HasPrefix(r.name, refEach)
}

// targetsOf returns the targets for which a path template can differ: one for each cluster, or all targets if
// it depends on the app's variables or on a reference inside a reference.
func (tc templateChecks) targetsOf(segments []segment) []Target {
	if slices.ContainsFunc(segments, func(s segment) bool {
		return s.ref != nil && (s.ref.inner != nil || s.ref.ofApp())
	}) {
		return tc.fleet.Targets()
	}
	var out []Target
	for _, c := range tc.fleet.Clusters {
		if c.State != stateRetired {
			out = append(out, Target{Cluster: c, App: &App{Name: "app"}})
		}
	}
	return out
}

func leavesRepository(p string) bool {
	return strings.HasPrefix(p, "/") || strings.Contains(p, `\`) || slices.Contains(strings.Split(p, "/"), "..")
}
