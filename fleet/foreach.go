package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/internal/nearest"
)

// maxDescribed limits the apps that forEach makes in a fleet. Whoever writes an app.yaml chooses how many clusters it
// selects, and every app is compared with every cluster.
const maxDescribed = 5000

// Describes returns the cluster that the app describes; nil for an app without forEach.
//
// An app with forEach is as many apps as it selects clusters: each has the name APP.CLUSTER, and is placed where the
// declared one is. Each of them is a target of its own on a management cluster, so that everything that concerns one
// target concerns one described cluster: its input digest, its folder and its commit on the environment branch, holds,
// commit statuses, and the object of the sync tool that applies it.
func (a *App) Describes() *Cluster { return a.each }

// Declared returns the name that the app has in its file.
func (a *App) Declared() string { return cmp.Or(a.declared, a.Name) }

// Declared lists the apps as their files declare them: one app for each forEach, which has no targets. Sorted by name.
func (f *Fleet) Declared() []*App {
	out := make([]*App, 0, len(f.Apps)+len(f.repeated))
	for _, a := range f.Apps {
		if a.each == nil {
			out = append(out, a)
		}
	}
	for _, a := range f.repeated {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *App) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Describes reports whether an app with the name describes a cluster, also one that the fleet has no more.
func (f *Fleet) Describes(app string) bool {
	if a, ok := f.apps[app]; ok {
		return a.each != nil
	}
	for i := range len(app) {
		if app[i] == '.' && f.repeated[app[:i]] != nil {
			return true
		}
	}
	return false
}

// eachValue returns a member of the described cluster, such as name, or kubeVersion without a leading v.
func (a *App) eachValue(member string) (any, bool) {
	if a == nil || a.each == nil {
		return nil, false
	}
	c := a.each
	switch member {
	case "name":
		return c.Name, true
	case "kubeVersion":
		return strings.TrimPrefix(c.KubeVersion, "v"), c.KubeVersion != ""
	case "environment":
		return c.Environment, true
	}
	if label, ok := strings.CutPrefix(member, "labels."); ok {
		v, ok := c.Labels[label]
		return v, ok
	}
	return dig(c.Vars, strings.TrimPrefix(member, "vars."))
}

// repeat remembers an app with forEach.
func (l *loader) repeat(a *App) {
	if a.workspace != nil {
		l.errorf(a.doc, []string{"spec", "forEach"}, "write the app in the fleet's own repository",
			"an app of a workspace cannot have forEach, which reads variables of all clusters")
	}
	if a.Spec.ForEach.Clusters == nil {
		l.errorf(a.doc, []string{"spec", "forEach"}, "write clusters: {} for every cluster",
			"app %s: forEach selects nothing", a.Name)
	}
	l.fleet.repeated[a.Name] = a
}

// expand makes the apps of forEach.
func (l *loader) expand() {
	l.checkUpgradeOrders()
	count := 0
	for _, a := range l.fleet.Declared() {
		if a.Spec.ForEach == nil {
			continue
		}
		described := l.selector(a.doc, a.Spec.ForEach.Clusters, "spec", "forEach", "clusters")
		for _, c := range l.fleet.Clusters {
			if a.Spec.ForEach.Clusters == nil || c.State == stateRetired && !c.Detached || !described.matches(c.Labels) {
				continue
			}
			if c.Detached {
				l.errorf(c.doc, []string{"spec", "state"}, "first let its forEach not select the cluster; docs/replacing-clusters.md says how the objects stay",
					"app %s describes the cluster %s: its objects would be removed, and a sync tool that prunes deletes the cluster with them",
					a.Name, c.Name)
				continue
			}
			if count++; count > maxDescribed {
				l.errorf(a.doc, []string{"spec", "forEach", "clusters"}, "narrow the selectors",
					"the apps with forEach describe more than %d clusters", maxDescribed)
				return
			}
			l.describe(a, c)
		}
	}
	for _, a := range l.fleet.Apps {
		if len(l.fleet.repeated) > 0 {
			a.Spec.DependsOn = l.each(a)
		}
	}
}

// checkUpgradeOrders refuses orders that name other apps than those with forEach.
func (l *loader) checkUpgradeOrders() {
	names := slices.Sorted(maps.Keys(l.fleet.repeated))
	for _, name := range slices.Sorted(maps.Keys(l.classes)) {
		class := l.classes[name]
		for i, app := range class.spec.UpgradeOrder {
			at := []string{"spec", "upgradeOrder", strconv.Itoa(i)}
			switch {
			case slices.Contains(class.spec.UpgradeOrder[:i], app):
				l.errorf(class.doc, at, "keep one", "the class %s names the app %s twice", name, app)
			case l.fleet.repeated[app] == nil && !l.lost:
				l.errorf(class.doc, at, "the name of an app of this fleet that has forEach",
					"the class %s names the app %q, which describes no clusters%s", name, app, nearest.DidYouMean(app, names))
			}
		}
	}
}

// describe makes the app of one described cluster.
func (l *loader) describe(a *App, c *Cluster) {
	one := *a
	one.Name, one.declared, one.each = a.Name+"."+c.Name, a.Name, c
	at := []string{"metadata", "name"}
	if !validName(one.Name) {
		l.errorf(a.doc, at, "shorten one of them", "the app %s for cluster %s would have the name %q, which is longer than %d characters",
			a.Name, c.Name, one.Name, maxName)
		return
	}
	if first, ok := l.fleet.apps[one.Name]; ok {
		l.errorf(a.doc, at, "rename one", "the app %s for cluster %s has the name of the app in %s", a.Name, c.Name,
			place(first.doc))
		return
	}
	for _, s := range a.AllSources() {
		if s.Helm != nil && s.Helm.ReleaseName == "" {
			sourceChecks{findings: l.findings, fleet: l.fleet}.release(a.doc, one.Name)
		}
	}
	l.fleet.apps[one.Name] = &one
	l.fleet.Apps = append(l.fleet.Apps, &one)
}

// each returns what an app depends on: of an app with forEach, the app of the same described cluster or, for an app
// without forEach, all of them.
func (l *loader) each(a *App) []string {
	var out []string
	for _, name := range a.Spec.DependsOn {
		if l.fleet.repeated[name] == nil {
			out = append(out, name)
			continue
		}
		if a.each != nil {
			if own := name + "." + a.each.Name; l.fleet.apps[own] != nil {
				out = append(out, own)
			}
			continue
		}
		for _, other := range l.fleet.Apps {
			if other.declared == name {
				out = append(out, other.Name)
			}
		}
	}
	return out
}

// sameDescribed reports whether nothing that an app can say of a described cluster differs.
func sameDescribed(x, y *Cluster) bool { return x.Name == y.Name && sameCluster(x, y) }
