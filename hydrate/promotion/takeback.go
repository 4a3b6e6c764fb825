package promotion

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// without describes the state of an environment without the changes of the workspaces that alone are red, judged like a promotion to it. It
// returns nil if no workspace alone is red.
func (p *proposals) without(ctx context.Context, e fleet.Environment, s *promote.Situation) (*promote.Without, error) {
	red, err := promote.RedAlone(*s)
	if err != nil || red == nil || s.Running.Foreign != "" {
		return nil, err
	}
	t := &takeBack{proposals: p, environment: e, red: red, now: p.states[e.Name], identities: map[gitstore.Hash]manifest.Identity{}}
	out := &promote.Without{Workspaces: red.Names, From: s.Running.Tree}
	switch out.Refused, err = t.prepare(ctx, s); {
	case errors.Is(err, promote.ErrNoTree), errors.Is(err, errNoObject):
		out.Refused = err.Error()
		return out, nil
	case err != nil || out.Refused != "":
		return out, err
	}
	out.Apps = t.apps
	w, err := p.hydrator.Store.NewWriter()
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }() // the rollback writes it again
	a := promote.Action{Kind: promote.DoRollback, Apps: t.apps, Workspaces: red.Names}
	tree, source, err := p.restore(ctx, e, a, t.before, w)
	if err != nil {
		return nil, err
	}
	out.Tree = tree.String()
	out.Refused, err = t.judge(ctx, tree, source)
	return out, err
}

// takeBack is a check whether workspaces can go back alone.
type takeBack struct {
	*proposals
	environment fleet.Environment
	red         *promote.RedWorkspaces
	now, before *branch.State
	apps        []string
	identities  map[gitstore.Hash]manifest.Identity // by blob
}

// prepare finds the state before the rollout and what the rollout changes in the workspaces. It returns why they cannot go back alone.
func (t *takeBack) prepare(ctx context.Context, s *promote.Situation) (string, error) {
	hash, err := gitstore.ParseHash(t.red.Before.Tree)
	if err != nil {
		return "", err
	}
	past := t.past[t.environment.Name]
	if t.before, err = past.state(ctx, hash); err != nil {
		return "", err
	}
	if t.before.Foreign != "" {
		return "the state before the rollout cannot be read: " + t.before.Foreign, nil
	}
	if !slices.Equal(t.before.ClusterNames(), t.now.ClusterNames()) {
		return "the rollout adds or removes clusters", nil
	}
	for _, c := range s.Clusters {
		if before := t.before.Clusters[c.Name]; c.State != "retired" && c.Tree != c.Desired && c.Tree != before.String() {
			return fmt.Sprintf("cluster %s runs neither the state before the rollout nor that of the rollout", c.Name), nil
		}
	}
	read := past.read(ctx)
	apps, refused, err := t.red.Changed(t.red.Before.Tree, s.Running.Tree, t.now.ClusterNames(), read)
	if err != nil || refused != "" {
		return refused, err
	}
	t.apps = apps
	for _, cluster := range t.now.ClusterNames() {
		if refused, err = t.moves(ctx, cluster); err != nil || refused != "" {
			return refused, err
		}
	}
	return "", nil
}

// moves returns why the apps of the workspaces cannot go back alone on a cluster; "" if they can. An object that the rollout moves between them
// and another app prevents it: to take back only one side would delete the object, or give it two owners.
func (t *takeBack) moves(ctx context.Context, cluster string) (string, error) {
	states := []*branch.State{t.before, t.now}
	var own []map[manifest.Identity]bool
	for _, st := range states {
		ids, err := t.own(ctx, st.Clusters[cluster])
		if err != nil {
			return "", err
		}
		own = append(own, ids)
	}
	if maps.Equal(own[0], own[1]) {
		return "", nil
	}
	if needed, err := t.needed(ctx, cluster, own[0], own[1]); err != nil || needed != "" {
		return needed, err
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
				return fmt.Sprintf("%s %s on %s is, before or after the rollout, an object of another app", id.Kind, id.Name, cluster), nil
			}
		}
	}
	return "", nil
}

// needed returns why the changes of the workspaces cannot be taken back on a cluster; "" if they can. To take back a namespace or the definition
// of a kind deletes all objects in it or of it, so none of them may stay. before and after are the objects of the workspaces' changed apps.
func (t *takeBack) needed(ctx context.Context, cluster string, before, after map[manifest.Identity]bool) (string, error) {
	var goes []manifest.Identity
	for _, id := range ordered(after) {
		if !before[id] && contains(id) != nil {
			goes = append(goes, id)
		}
	}
	if len(goes) == 0 {
		return "", nil
	}
	stays := maps.Clone(before)
	err := t.files(ctx, t.now.Clusters[cluster], func(app string) bool { return !slices.Contains(t.apps, app) }, func(f gitstore.Entry) error {
		id, err := t.identity(ctx, f)
		stays[id] = true
		return err
	})
	if err != nil {
		return "", err
	}
	for _, id := range goes {
		within := contains(id)
		for _, other := range ordered(stays) {
			if within(other) {
				return fmt.Sprintf("%s %s on %s would go as well, and %s %s needs it", id.Kind, id.Name, cluster, other.Kind, other.Name), nil
			}
		}
	}
	return "", nil
}

// contains returns whether a cluster deletes an object with a namespace, or with the definition of a kind; nil for other objects.
func contains(id manifest.Identity) func(manifest.Identity) bool {
	switch {
	case id.Group == "" && id.Kind == "Namespace":
		return func(other manifest.Identity) bool { return other.Namespace == id.Name }
	case id.Group == "apiextensions.k8s.io" && id.Kind == "CustomResourceDefinition":
		_, group, _ := strings.Cut(id.Name, ".")
		return func(other manifest.Identity) bool { return other.Group == group }
	}
	return nil
}

// ordered returns objects in an order that is always the same, so that the record is.
func ordered(ids map[manifest.Identity]bool) []manifest.Identity {
	return slices.SortedFunc(maps.Keys(ids), func(a, b manifest.Identity) int { return strings.Compare(a.String(), b.String()) })
}

func union[K comparable](a, b map[K]bool) map[K]bool {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// own returns the objects of the workspaces' changed apps in a cluster's tree.
func (t *takeBack) own(ctx context.Context, tree gitstore.Hash) (map[manifest.Identity]bool, error) {
	out := map[manifest.Identity]bool{}
	err := t.files(ctx, tree, func(app string) bool { return slices.Contains(t.apps, app) }, func(f gitstore.Entry) error {
		id, err := t.identity(ctx, f)
		out[id] = true
		return err
	})
	return out, err
}

// others returns the files of all apps outside of the workspaces in a cluster's tree, by name.
func (t *takeBack) others(ctx context.Context, tree gitstore.Hash) (map[string][]gitstore.Entry, error) {
	out := map[string][]gitstore.Entry{}
	outside := func(app string) bool { return !slices.Contains(t.red.Names, fleet.WorkspaceOf(app)) }
	err := t.files(ctx, tree, outside, func(f gitstore.Entry) error {
		out[f.Name] = append(out[f.Name], f)
		return nil
	})
	return out, err
}

// files calls do for each file of some apps in a cluster's tree.
func (t *takeBack) files(ctx context.Context, tree gitstore.Hash, of func(app string) bool, do func(gitstore.Entry) error) error {
	apps, err := branch.Apps(ctx, t.hydrator.Store, tree)
	if err != nil {
		return err
	}
	for _, app := range apps {
		if !of(app.Name) {
			continue
		}
		list, err := t.hydrator.Store.Tree(ctx, app.Hash)
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

// errNoObject means that a file of an app does not hold exactly one object, so that nobody knows whether it moves.
var errNoObject = errors.New("a file does not hold exactly one object")

func (t *takeBack) identity(ctx context.Context, f gitstore.Entry) (manifest.Identity, error) {
	if id, known := t.identities[f.Hash]; known {
		return id, nil
	}
	data, err := t.hydrator.Store.Blob(ctx, f.Hash)
	if err != nil {
		return manifest.Identity{}, err
	}
	o, err := objects.DecodeOne(data)
	if err != nil {
		return manifest.Identity{}, fmt.Errorf("%w: %s: %w", errNoObject, f.Name, err)
	}
	t.identities[f.Hash] = o.Identity()
	return o.Identity(), nil
}

// has reports whether one of the files holds an object.
func (t *takeBack) has(ctx context.Context, files map[string][]gitstore.Entry, id manifest.Identity) (bool, error) {
	for _, name := range manifest.PossibleFileNames(id) {
		for _, f := range files[name] {
			other, err := t.identity(ctx, f)
			if err != nil || other == id {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// judge applies to the state without the workspaces' changes what a promotion to it would have to pass. It returns why the state is refused.
func (t *takeBack) judge(ctx context.Context, tree gitstore.Hash, source promote.Source) (string, error) {
	for _, commit := range source.Commits() {
		if _, known := t.trunk.commits[commit]; !known {
			return fmt.Sprintf("%.10s is not on the known part of the trunk", commit), nil
		}
	}
	why, err := t.merged.unmerged(ctx, t.now.Source(), source)
	if err != nil || why != "" {
		return why, err
	}
	for _, st := range []*branch.State{t.now, t.before} { // what the clusters run that the rollout has reached, and the others
		if why, err := t.deletes(ctx, st, tree); err != nil || why != "" {
			return why, err
		}
	}
	if t.request.Adapters.Policy == nil {
		return "", nil
	}
	if state, why := t.policy(ctx, t.environment.Name, source); state != promote.Green {
		return strings.TrimSuffix(fmt.Sprintf("policy is %s for the state without %s: %s", state, promote.Few(t.red.Names), why), ": "), nil
	}
	return "", nil
}
