package rollout

import (
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
)

// appChanges are what became of apps on the clusters of a hold.
type appChanges struct {
	went   map[string]bool // the rollback changed them
	same   map[string]bool // of these, the promoted tree has them as the held one on a cluster
	exists map[string]bool // in the held or the promoted tree
	runs   map[string]bool // in the tree that the environment runs
}

func newAppChanges() appChanges {
	return appChanges{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
}

// look adds what became of the apps of a cluster.
func (f appChanges) look(held, promoted, tree, cluster string, read Contents) error {
	back, err := differ(held, tree, cluster, read)
	if err != nil {
		return err
	}
	changed, err := differ(held, promoted, cluster, read)
	if err != nil {
		return err
	}
	for app := range back {
		f.went[app] = true
		if !changed[app] {
			f.same[app] = true
		}
	}
	for tree, has := range map[string]map[string]bool{held: f.exists, promoted: f.exists, tree: f.runs} {
		apps, err := read(tree, cluster)
		if err != nil {
			return err
		}
		for app := range apps {
			has[app] = true
		}
	}
	return nil
}

// changed returns the apps of the hold that come with the promoted tree. A workspace that went back as a whole comes as
// a whole, if one of its apps changed: its changes may rename an app, or move an object from one of its apps to
// another. Old names come as renames.complete says.
func (f appChanges) changed(h Hold) []string {
	apps := h.Apps // the manifests of an app that was not rolled back do not matter
	if len(apps) == 0 {
		apps = slices.Sorted(maps.Keys(f.went))
	}
	out, units := map[string]bool{}, map[string][]string{} // by workspace; "" is the fleet's own
	for _, app := range apps {
		unit := fleet.WorkspaceOf(app)
		units[unit] = append(units[unit], app)
		if !f.same[app] {
			out[app] = true
		}
	}
	if len(out) == 0 {
		return nil
	}
	for _, w := range h.Workspaces {
		if slices.ContainsFunc(units[w], func(app string) bool { return out[app] }) {
			for _, app := range units[w] {
				out[app] = true
			}
		}
	}
	for _, r := range f.renames(h, units) {
		r.complete(h, out)
	}
	return slices.Sorted(maps.Keys(out))
}

// renames are apps that only the rollback brought back, and apps that only the held commit or a later one has. The
// first may be old names of the second; nobody knows which of which.
type renames struct {
	old, new []string
	entire   []string // all apps of workspaces that come as a whole and have new names
}

// renames returns those within each workspace, and among everything else. The old names of a workspace that comes as a
// whole, and that still has apps, come with it.
func (f appChanges) renames(h Hold, units map[string][]string) []renames {
	var out []renames
	var others renames
	for _, unit := range slices.Sorted(maps.Keys(units)) {
		apps, entire := units[unit], slices.Contains(h.Workspaces, unit)
		one := renames{
			old: slices.DeleteFunc(slices.Clone(apps), func(app string) bool { return f.exists[app] }),
			new: slices.DeleteFunc(slices.Clone(apps), func(app string) bool { return !f.exists[app] || f.runs[app] }),
		}
		switch {
		case entire && len(one.old) > 0 && len(one.old) < len(apps):
			continue
		case entire && len(one.new) > 0:
			one.entire = apps
		case len(one.old) > 0 && len(one.new) > 0:
			out = append(out, one)
			continue
		}
		others = renames{
			append(others.old, one.old...), append(others.new, one.new...),
			append(others.entire, one.entire...),
		}
	}
	return append(out, others)
}

// complete lets old and new names come together, or none of them: a new name alone gives objects two owners, and an old
// one that comes alone deletes them. What the held commit removed, and did not rename, comes with any change, unless
// all of the environment was rolled back.
func (r renames) complete(h Hold, out map[string]bool) {
	switch {
	case len(r.old) == 0, h.Whole && len(r.new) == 0:
	case slices.ContainsFunc(r.new, func(app string) bool { return !out[app] }):
		for _, app := range slices.Concat(r.entire, r.new) {
			delete(out, app)
		}
	default:
		for _, app := range r.old {
			out[app] = true
		}
	}
}
