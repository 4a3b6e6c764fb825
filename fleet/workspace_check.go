package fleet

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/sluice-gitops/sluice/internal/nearest"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// checkWorkspacePlace sets and checks the workspace's folder.
func (l tenancy) checkWorkspacePlace(w *Workspace) {
	at := []string{"spec", "path"}
	l.checkPath(w.doc, at, w.Spec.Path, nil)
	if name := w.Spec.Repository; name != "" {
		sourceChecks{findings: l.findings, fleet: l.fleet}.mounted(w.doc, []string{"spec", "repository"}, name)
		w.Root = mounted(name, path.Clean(cmp.Or(w.Spec.Path, ".")))
		if err := l.fleet.available(name); err != nil {
			w.Err = err
		}
		return
	}
	w.Root = path.Clean(cmp.Or(w.Spec.Path, path.Join(WorkspacesDir, w.Name)))
	for _, own := range []string{"clusters", "apps", "layers", "policy", "repositories"} {
		if within(own, w.Root) || w.Root == "." || w.Root == WorkspacesDir {
			l.errorf(w.doc, at, "such as workspaces/"+w.Name, "the folder %s belongs to the fleet itself", w.Root)
			return
		}
	}
	if len(l.fleet.Spec.Import) > 0 {
		l.errorf(w.doc, at, "put the workspace into a repository of its own",
			"a fleet with spec.import reads its folders as other tools do, and cannot have a workspace in one")
	}
}

// checkBounds checks what the workspace is confined to.
func (l tenancy) checkBounds(w *Workspace) {
	for i, name := range w.Spec.Environments {
		if _, ok := l.fleet.Environment(name); !ok && l.environmentsKnown() {
			l.errorf(w.doc, []string{"spec", "environments", strconv.Itoa(i)}, "",
				"the environment %q does not exist%s", name, nearest.DidYouMean(name, l.fleet.environmentNames()))
		}
	}
	for i, name := range w.Spec.Sources.Repositories {
		sourceChecks{findings: l.findings, fleet: l.fleet}.mounted(w.doc,
			[]string{"spec", "sources", "repositories", strconv.Itoa(i)}, name)
	}
	l.checkPatterns(w)
	l.checkApprovers(w)
	l.checkOwnPolicy(w)
	for field, n := range map[string]int{"objects": w.Spec.Quotas.Objects, "targets": w.Spec.Quotas.Targets} {
		if n < 0 {
			l.errorf(w.doc, []string{"spec", "quotas", field}, "0 is no bound", "a quota cannot be negative")
		}
	}
}

// checkOwnPolicy checks where the workspace's own policy is.
func (l tenancy) checkOwnPolicy(w *Workspace) {
	p, at := w.Spec.Policy.Path, []string{"spec", "policy", "path"}
	if p == "" {
		return
	}
	l.checkPath(w.doc, at, p, w)
	if first, _, _ := strings.Cut(path.Clean(p), "/"); slices.Contains([]string{".", "apps", "layers"}, first) {
		l.errorf(w.doc, at, "such as policy", "the policy of the workspace %s needs a folder of its own", w.Name)
	}
}

// checkApprovers checks who may approve promotions of the workspace.
func (l tenancy) checkApprovers(w *Workspace) {
	a, at := w.Spec.Approvers, []string{"spec", "approvers"}
	if a.Count < 0 {
		l.errorf(w.doc, append(slices.Clone(at), "count"), "1 or more", "%d approvals cannot be asked for", a.Count)
	}
	for field, list := range map[string][]string{"users": a.Users, "teams": a.Teams} {
		for i, name := range list {
			if strings.TrimSpace(name) == "" {
				l.errorf(w.doc, append(slices.Clone(at), field, strconv.Itoa(i)), "the name on the forge",
					"the name of an approver is empty")
			}
		}
	}
}

// checkPatterns checks the patterns of namespaces, charts, images and kinds.
func (l tenancy) checkPatterns(w *Workspace) {
	for field, list := range map[string][]string{"namespaces": w.Spec.Namespaces, "references": w.Spec.References} {
		for i, pattern := range list {
			if !validNamespace(strings.NewReplacer("*", "x", "?", "x").Replace(pattern)) {
				l.errorf(w.doc, []string{"spec", field, strconv.Itoa(i)},
					"lower-case letters, digits and -, with * for any text", "%q is not a pattern of namespaces",
					pattern)
			}
		}
	}
	for field, list := range map[string][]string{"charts": w.Spec.Sources.Charts, "images": w.Spec.Sources.Images} {
		for i, pattern := range list {
			if len(pattern) > maxGlob || strings.Count(pattern, "**") > 1 || strings.ContainsAny(pattern, "{}") ||
				!doublestar.ValidatePattern(pattern) {
				l.errorf(w.doc, []string{"spec", "sources", field, strconv.Itoa(i)},
					"* is any text without /, and one ** at most any text", "%q is not a pattern", pattern)
			}
		}
	}
	for field, list := range map[string][]string{
		"allow": w.Spec.Kinds.Allow, "deny": w.Spec.Kinds.Deny,
		"clusterScoped": w.Spec.Kinds.ClusterScoped,
	} {
		for i, pattern := range list {
			if strings.Count(pattern, "*") > 2 || strings.ContainsAny(pattern, "{}[]?\\/") || pattern == "" {
				l.errorf(w.doc, []string{"spec", "kinds", field, strconv.Itoa(i)}, "Kind, Kind.group or *.group",
					"%q is not a pattern of kinds", pattern)
				continue
			}
			if groups := manifest.BuiltinGroups(pattern); field != "deny" && len(groups) > 0 && groups[0] != "" {
				l.errorf(w.doc, []string{"spec", "kinds", field, strconv.Itoa(i)}, "write "+pattern+"."+groups[0],
					"the kind %s is not of the core group", pattern)
			}
		}
	}
}

// checkNamespaceOverlap refuses two workspaces that could have objects in one namespace of a cluster: Services and
// policies of one would select the pods of the other.
func (l tenancy) checkNamespaceOverlap() {
	near := mayOverlap(l.fleet.Workspaces)
	for i, a := range l.fleet.Workspaces {
		for _, j := range near[i] {
			b := l.fleet.Workspaces[j]
			x, y, overlap := overlapping(a.Spec.Namespaces, b.Spec.Namespaces)
			if !overlap {
				continue
			}
			at := slices.IndexFunc(l.fleet.Clusters, func(c *Cluster) bool { return a.Reaches(c) && b.Reaches(c) })
			if at >= 0 {
				l.errorf(a.doc, []string{"spec", "namespaces"}, "give each workspace namespaces of its own",
					"the namespaces %s of %s and %s of %s overlap on cluster %s", x, a.Name, y, b.Name,
					l.fleet.Clusters[at].Name)
			}
		}
	}
}

// mayOverlap returns for each workspace the earlier ones whose namespaces can overlap with its own, in order: those
// with a common name, and all if one of the two has a pattern. Most workspaces have names of their own only, and a
// fleet has hundreds of workspaces.
func mayOverlap(workspaces []*Workspace) [][]int {
	out := make([][]int, len(workspaces))
	named, withPattern := map[string][]int{}, []int(nil)
	for i, w := range workspaces {
		if slices.ContainsFunc(w.Spec.Namespaces, isPattern) {
			for j := range i {
				out[i] = append(out[i], j)
			}
			withPattern = append(withPattern, i)
		} else {
			out[i] = slices.Clone(withPattern)
			for _, name := range w.Spec.Namespaces {
				out[i] = append(out[i], named[name]...)
			}
			slices.Sort(out[i])
			out[i] = slices.Compact(out[i])
		}
		for _, name := range w.Spec.Namespaces {
			named[name] = append(named[name], i)
		}
	}
	return out
}

// isPattern reports whether a text can match another one.
func isPattern(text string) bool { return strings.ContainsAny(text, "*?") }

func overlapping(a, b []string) (x, y string, ok bool) {
	for _, x := range a {
		for _, y := range b {
			if patternsMeet(x, y) {
				return x, y, true
			}
		}
	}
	return "", "", false
}

// patternsMeet reports whether a text matches both patterns, in which * is any text and ? one character.
func patternsMeet(a, b string) bool {
	if !isPattern(a) && !isPattern(b) {
		return a == b
	}
	row := make([]bool, len(b)+1) // row[j]: what is left of a meets b[j:]
	next := make([]bool, len(b)+1)
	for i := len(a); i >= 0; i-- {
		for j := len(b); j >= 0; j-- {
			switch {
			case i == len(a) && j == len(b):
				row[j] = true
			case i < len(a) && a[i] == '*':
				row[j] = next[j] || j < len(b) && row[j+1]
			case j < len(b) && b[j] == '*':
				row[j] = row[j+1] || i < len(a) && next[j]
			default:
				row[j] = i < len(a) && j < len(b) && (a[i] == b[j] || a[i] == '?' || b[j] == '?') && next[j+1]
			}
		}
		row, next = next, row
	}
	return next[0]
}

// checkSigners refuses a signer that the fleet does not trust by default: an app of a workspace may choose among those
// of spec.charts.verify, and no others. If the fleet demands no signature by default, the app may choose any.
func checkSigners(l *loader, a *App, h *HelmSource, at []string) {
	trusted := l.fleet.Spec.Charts.Verify
	if a.workspace == nil || len(trusted) == 0 {
		return
	}
	for _, name := range h.Verify {
		if !slices.Contains(trusted, name) {
			l.errorf(a.doc, at, "one of "+strings.Join(trusted, ", "),
				"an app of workspace %s cannot choose the signer of charts %q: spec.charts.verify in sluice.yaml lists those that it may", a.workspace.Name, name)
		}
	}
}
