package promote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// separation checks whether workspaces can have the state before while everything else has the state now.
type separation struct {
	store       *gitstore.Store
	workspaces  []string
	before, now *branch.State
	apps        []string // of the workspaces, whose manifests differ
	identities  identities
	lenient     bool // files that do not hold exactly one object are left out; otherwise they are an error
}

func newSeparation(store *gitstore.Store, workspaces []string, before, now *branch.State) *separation {
	return &separation{store: store, workspaces: workspaces, before: before, now: now, identities: newIdentities(store)}
}

// moves returns why the apps of the workspaces cannot stay at the state before on a cluster while everything else is at
// the state now; "" if they can. An object that moves between them and another app prevents it: a change of only one
// side would delete the object, or give it two owners.
func (t *separation) moves(ctx context.Context, cluster string) (string, error) {
	states := []*branch.State{t.before, t.now}
	var own []map[manifest.Identity]bool
	for _, st := range states {
		ids, err := t.own(ctx, st.Clusters[cluster])
		if err != nil {
			return "", err
		}
		own = append(own, ids)
	}
	if lost, err := t.loses(ctx, cluster); err != nil || lost != "" {
		return lost, err
	}
	if maps.Equal(own[0], own[1]) {
		return "", nil
	}
	if needed, err := t.needed(ctx, cluster, own[0], own[1]); err != nil || needed != "" {
		return needed, err
	}
	if leaves, err := t.leaves(ctx, cluster, own[0], own[1]); err != nil || leaves != "" {
		return leaves, err
	}
	for _, st := range states {
		others, err := t.others(ctx, st.Clusters[cluster])
		if err != nil {
			return "", err
		}
		for _, id := range ordered(union(own[0], own[1])) {
			if own[0][id] && own[1][id] {
				continue
			}
			has, err := t.has(ctx, others, id)
			if err != nil {
				return "", err
			}
			if has {
				return fmt.Sprintf("%s %s on %s is, before or after the rollout, an object of another app", id.Kind,
					id.Name, cluster), nil
			}
		}
	}
	return "", nil
}

// needed returns why the changes of the workspaces cannot stay out on a cluster; "" if they can. If they add a
// namespace, or the definition of a kind, that an object of anything else needs, the cluster refuses or deletes that
// object without it. before and after are the objects of the workspaces' changed apps.
func (t *separation) needed(ctx context.Context, cluster string, before, after map[manifest.Identity]bool) (string,
	error,
) {
	var goes []manifest.Identity
	for _, id := range ordered(after) {
		if !before[id] && t.identities.contains(id) != nil {
			goes = append(goes, id)
		}
	}
	if len(goes) == 0 {
		return "", nil
	}
	stays := maps.Clone(before)
	others := func(app string) bool { return !slices.Contains(t.apps, app) }
	err := t.files(ctx, t.now.Clusters[cluster], others, func(f gitstore.Entry) error { return t.add(ctx, stays, f) })
	if err != nil {
		return "", err
	}
	for _, id := range goes {
		within := t.identities.contains(id)
		if stays[id] { // another app has it as well
			continue
		}
		if other, some := first(stays, within); some {
			return fmt.Sprintf("%s %s on %s would go as well, and %s %s needs it", id.Kind, id.Name, cluster,
				other.Kind, other.Name), nil
		}
	}
	return "", nil
}

// goes returns why the apps cannot go back on a cluster while everything else stays: that would remove a namespace, or
// the definition of a kind, that others need. One that the sync tool leaves in the cluster does not go. It returns ""
// if they can.
func (t *separation) goes(ctx context.Context, cluster string) (string, error) {
	var sides [2]map[manifest.Identity]bool
	for i, st := range []*branch.State{t.before, t.now} {
		sides[i] = map[manifest.Identity]bool{}
		changed := func(app string) bool { return slices.Contains(t.apps, app) }
		err := t.files(ctx, st.Clusters[cluster], changed, func(f gitstore.Entry) error {
			if !mayContain(f.Name) {
				return nil
			}
			one := map[manifest.Identity]bool{}
			if err := t.add(ctx, one, f); err != nil || t.identities.stay[f.Hash] {
				return err
			}
			maps.Copy(sides[i], one)
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return t.needed(ctx, cluster, sides[0], sides[1])
}

// add adds the object of a file to a set.
func (t *separation) add(ctx context.Context, to map[manifest.Identity]bool, f gitstore.Entry) error {
	id, err := t.identities.of(ctx, f)
	if t.lenient && errors.Is(err, errNoObject) {
		return nil
	}
	if err == nil {
		to[id] = true
	}
	return err
}

// loses returns why the workspaces would lose objects that they have in the state before; "" if they would not. If
// another app removes a namespace, or the definition of a kind, the cluster deletes all objects in it, or of that kind.
func (t *separation) loses(ctx context.Context, cluster string) (string, error) {
	gone, err := t.removed(ctx, cluster, mayContain,
		func(id manifest.Identity) bool { return t.identities.contains(id) != nil })
	if err != nil || len(gone) == 0 {
		return "", err
	}
	own := map[manifest.Identity]bool{}
	theirs := func(app string) bool { return slices.Contains(t.workspaces, fleet.WorkspaceOf(app)) }
	err = t.files(ctx, t.before.Clusters[cluster], theirs, func(f gitstore.Entry) error { return t.add(ctx, own, f) })
	if err != nil {
		return "", err
	}
	for _, id := range gone {
		within := t.identities.contains(id)
		if other, some := first(own, within); some {
			return fmt.Sprintf("%s %s on %s is removed, and %s %s needs it", id.Kind, id.Name, cluster, other.Kind,
				other.Name), nil
		}
	}
	return "", nil
}

// leaves returns why the changes of the workspaces cannot stay out on a cluster: an object moves from another app to
// one of theirs, and to another namespace. Without their changes, the object would only be removed. It returns "" if no
// object moves so. before and after are as for needed.
func (t *separation) leaves(ctx context.Context, cluster string, before, after map[manifest.Identity]bool) (string,
	error,
) {
	comes := map[manifest.Identity]string{} // its new namespace, by what it is in any
	kinds := map[string]bool{}
	for id := range after {
		if !before[id] && id.Namespace != "" {
			anywhere := id
			anywhere.Namespace = ""
			if other, known := comes[anywhere]; !known || id.Namespace < other { // the reason must not vary
				comes[anywhere] = id.Namespace
			}
			kinds[strings.ToLower(id.Kind)] = true
		}
	}
	if len(comes) == 0 {
		return "", nil
	}
	to := func(id manifest.Identity) string {
		id.Namespace = ""
		return comes[id]
	}
	mayBe := func(file string) bool { // all other files need not be read
		hasKind := func(kind string) bool { return strings.Contains(file, kind) }
		return !strings.Contains(file, "-") || slices.ContainsFunc(slices.Collect(maps.Keys(kinds)), hasKind)
	}
	moves := func(id manifest.Identity) bool { return id.Namespace != "" && to(id) != "" }
	gone, err := t.removed(ctx, cluster, mayBe, moves)
	if err != nil || len(gone) == 0 {
		return "", err
	}
	id := gone[0]
	return fmt.Sprintf("%s %s on %s leaves namespace %s for %s", id.Kind, id.Name, cluster, id.Namespace, to(id)), nil
}

// removed returns the objects that apps outside of the workspaces have on a cluster in the state before, and not in the
// state now. It reads only files whose name read accepts, and returns only objects that wanted accepts.
func (t *separation) removed(
	ctx context.Context, cluster string, read func(file string) bool, wanted func(manifest.Identity) bool,
) ([]manifest.Identity, error) {
	before, err := t.others(ctx, t.before.Clusters[cluster])
	if err != nil {
		return nil, err
	}
	now, err := t.others(ctx, t.now.Clusters[cluster])
	if err != nil {
		return nil, err
	}
	var out []manifest.Identity
	for _, name := range slices.Sorted(maps.Keys(before)) {
		for _, f := range before[name] {
			same := func(o gitstore.Entry) bool { return o.Hash == f.Hash }
			if !read(name) || slices.ContainsFunc(now[name], same) {
				continue
			}
			id, err := t.identities.of(ctx, f)
			if err != nil {
				return nil, err
			}
			if stays, err := t.has(ctx, now, id); err != nil {
				return nil, err
			} else if !stays && wanted(id) {
				out = append(out, id)
			}
		}
	}
	return out, nil
}

// mayContain reports whether a file of this name can hold a namespace or the definition of a kind. A file is named
// after the kind of its object, or by a hash.
func mayContain(file string) bool {
	return strings.Contains(file, "namespace") || strings.Contains(file, "customresourcedefinition") ||
		!strings.Contains(file, "-")
}

// ordered returns objects in an order that is always the same, so that the record is.
func ordered(ids map[manifest.Identity]bool) []manifest.Identity {
	return slices.SortedStableFunc(maps.Keys(ids), func(a, b manifest.Identity) int {
		return strings.Compare(a.String(),
			b.String())
	})
}

// first returns the wanted object whose text sorts first. It looks at each object once, because sorting very many would
// take long.
func first(ids map[manifest.Identity]bool, wanted func(manifest.Identity) bool) (manifest.Identity, bool) {
	var out manifest.Identity
	some := false
	for id := range ids {
		if wanted(id) && (!some || id.String() < out.String()) {
			out, some = id, true
		}
	}
	return out, some
}

func union[K comparable, V any](a, b map[K]V) map[K]V {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// own returns the objects of the workspaces' changed apps in a cluster's tree.
func (t *separation) own(ctx context.Context, tree gitstore.Hash) (map[manifest.Identity]bool, error) {
	out := map[manifest.Identity]bool{}
	changed := func(app string) bool { return slices.Contains(t.apps, app) }
	err := t.files(ctx, tree, changed, func(f gitstore.Entry) error { return t.add(ctx, out, f) })
	return out, err
}

// others returns the files of all apps outside of the workspaces in a cluster's tree, by name.
func (t *separation) others(ctx context.Context, tree gitstore.Hash) (map[string][]gitstore.Entry, error) {
	out := map[string][]gitstore.Entry{}
	outside := func(app string) bool { return !slices.Contains(t.workspaces, fleet.WorkspaceOf(app)) }
	err := t.files(ctx, tree, outside, func(f gitstore.Entry) error {
		out[f.Name] = append(out[f.Name], f)
		return nil
	})
	return out, err
}

// files calls do for each file of some apps in a cluster's tree.
func (t *separation) files(ctx context.Context, tree gitstore.Hash, of func(app string) bool,
	do func(gitstore.Entry) error,
) error {
	apps, err := branch.Apps(ctx, t.store, tree)
	if err != nil {
		return err
	}
	for _, app := range apps {
		if !of(app.Name) {
			continue
		}
		list, err := t.store.Tree(ctx, app.Hash)
		if err != nil {
			return err
		}
		for _, f := range list {
			if err := do(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// has reports whether one of the files holds an object.
func (t *separation) has(ctx context.Context, files map[string][]gitstore.Entry, id manifest.Identity) (bool, error) {
	for _, name := range manifest.PossibleFileNames(id) {
		for _, f := range files[name] {
			other, err := t.identities.of(ctx, f)
			if err != nil || other == id {
				return err == nil, err
			}
		}
	}
	return false, nil
}
