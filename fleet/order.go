package fleet

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

// checkOrder refuses dependencies that no cluster can satisfy.
func (l *loader) checkOrder() {
	apps, names, after := l.fleet.Apps, make([]string, 0, len(l.fleet.Apps)), map[string][]string{}
	for _, a := range apps {
		names = append(names, a.Name)
		after[a.Name] = a.Spec.DependsOn
	}
	seen := map[string]bool{}
	for _, a := range apps {
		if a.each != nil && seen[a.declared] {
			continue // its file is that of another one
		}
		seen[a.declared] = true
		for i, other := range a.Spec.DependsOn {
			at := []string{"spec", "dependsOn", strconv.Itoa(i)}
			if slices.Contains(a.Spec.DependsOn[:i], other) {
				l.errorf(a.doc, at, "keep one", "app %s depends on %s twice", a.Name, other)
			}
			if _, ok := after[other]; ok || l.lost {
				continue
			}
			if w, ok := l.fleet.Workspace(WorkspaceOf(other)); ok { // its team can remove the app at any time
				l.warnf(a.doc, at, "remove it, or ask the team for the app",
					"app %s depends on %s, and workspace %s has no such app", a.Name, other, w.Name)
			} else {
				l.errorf(a.doc, at, "the name of an app of this fleet", "app %s depends on %q, which does not exist%s",
					a.Name, other, nearest.DidYouMean(other, names))
			}
		}
	}
	checkCycles(l.findings, l.fleet, after)
}

// checkCycles refuses apps that wait for each other. It reports a cycle at the app of a workspace if there is one, so
// that the cycle concerns the workspace alone, and then looks for others without that app.
func checkCycles(f *findings, fleet *Fleet, after map[string][]string) {
	for {
		var cycle []string
		seen := map[string]bool{}
		for i := 0; i < len(fleet.Apps) && cycle == nil; i++ {
			cycle = findCycle(fleet.Apps[i].Name, after, seen)
		}
		if cycle == nil {
			return
		}
		at := max(0, slices.IndexFunc(cycle, func(name string) bool { return WorkspaceOf(name) != "" }))
		f.errorf(fleet.apps[cycle[at]].doc, []string{"spec", "dependsOn"}, "remove one `dependsOn`",
			"apps wait for each other: %s", strings.Join(cycle, " → "))
		if WorkspaceOf(cycle[at]) == "" {
			return
		}
		delete(after, cycle[at])
	}
}

// Dependencies lists the apps that the target's app depends on and that the fleet places on the target's cluster, by
// name.
func (f *Fleet) Dependencies(t Target) []*App {
	var out []*App
	for _, name := range slices.Sorted(slices.Values(t.App.Spec.DependsOn)) {
		if a, ok := f.App(name); ok && f.Places(a, t.Cluster) {
			out = append(out, a)
		}
	}
	return out
}

// Steps returns, for each app on a cluster, the length of the longest chain of dependencies before it: 0 without
// dependencies.
func (f *Fleet) Steps(c *Cluster) map[string]int {
	out := map[string]int{}
	var step func(a *App) int
	step = func(a *App) int {
		if n, ok := out[a.Name]; ok {
			return n
		}
		n := 0
		for _, before := range f.Dependencies(Target{App: a, Cluster: c}) {
			n = max(n, step(before)+1)
		}
		out[a.Name] = n
		return n
	}
	for _, t := range f.TargetsOf(c) {
		step(t.App)
	}
	return out
}
