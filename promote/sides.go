package promote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/rollout"
)

// checkSides refuses a rollback of some apps that harms others. If it restores only one side of a rename, an object
// that moved between them and another app since the state to restore would be deleted, or get two owners; the error
// names the other apps. If it removes a namespace, or the definition of a kind, that others need, the cluster would
// delete their objects. Files that do not hold exactly one object do not count: a rollback is urgent.
func (l *commands) checkSides(ctx context.Context, e fleet.Environment, c Command, s *rollout.Situation,
	tree string,
) error {
	if len(c.Apps) == 0 {
		return nil
	}
	old, err := l.past[e.Name].stateOf(ctx, tree)
	if err != nil {
		return err
	}
	m := movedObjects{
		store: l.hydrator.Store, apps: c.Apps, identities: newIdentities(l.hydrator.Store),
		others: appSet{},
	}
	m.identities.sync = diff.Sync(l.fleet.SyncOf(e.Name))
	now := l.states[e.Name]
	needs := newSeparation(l.hydrator.Store, c.Workspaces, old, now)
	needs.apps, needs.identities, needs.lenient = c.Apps, m.identities, true
	for _, name := range now.ClusterNames() {
		named := len(c.Clusters) == 0 || slices.Contains(c.Clusters, name)
		if !named || old.Clusters[name] == now.Clusters[name] || old.Clusters[name].IsZero() {
			continue
		}
		if err := m.compare(ctx, name, old.Clusters[name], now.Clusters[name]); err != nil {
			return err
		}
		why, err := needs.goes(ctx, name)
		if err != nil {
			return err
		}
		if why != "" && len(m.others) == 0 {
			return fmt.Errorf("%s: roll back what needs it as well, or the whole environment", why)
		}
	}
	if len(m.others) == 0 {
		return nil
	}
	scope := rollout.Scope{Apps: c.Apps, Workspaces: c.Workspaces}
	for _, app := range slices.Sorted(maps.Keys(m.others)) {
		if w := fleet.WorkspaceOf(app); w != "" && len(c.Workspaces) > 0 {
			scope.Workspaces = append(slices.Clone(scope.Workspaces), w)
		} else {
			scope.Apps = append(slices.Clone(scope.Apps), app)
		}
	}
	return fmt.Errorf("%s: a rollback of one of them alone would delete the object or give it two owners: use `%s rollback %s%s`",
		m.first, cmp.Or(s.CommandPrefix, "/sluice"), e.Name, flagsOf(scope))
}

// flagsOf returns the flags that name a scope.
func flagsOf(s rollout.Scope) string {
	var b strings.Builder
	workspaces := slices.Clone(s.Workspaces)
	slices.Sort(workspaces)
	for _, w := range slices.Compact(workspaces) {
		b.WriteString(" --workspace " + w)
	}
	for _, app := range s.Apps {
		if !s.InWorkspace(app) {
			b.WriteString(" --app " + app)
		}
	}
	return b.String()
}

// movedObjects finds objects that moved between some apps and others.
type movedObjects struct {
	store      *gitstore.Store
	apps       []string
	identities identities
	others     appSet
	first      string // a description of the first object
}

// side maps each object that some apps have in one tree of a cluster to its app.
type side map[manifest.Identity]string

// without returns the objects that the other tree's side lacks.
func (s side) without(other side) side {
	out := side{}
	for id, app := range s {
		if _, ok := other[id]; !ok {
			out[id] = app
		}
	}
	return out
}

// compare records the objects that moved between two trees of a cluster. It reads only apps whose trees differ, because
// no other app has lost or gained an object.
func (m *movedObjects) compare(ctx context.Context, cluster string, before, after gitstore.Hash) error {
	trees := [2]map[string]gitstore.Hash{}
	for i, tree := range []gitstore.Hash{before, after} {
		apps, err := branch.Apps(ctx, m.store, tree)
		if err != nil {
			return err
		}
		trees[i] = make(map[string]gitstore.Hash, len(apps))
		for _, app := range apps {
			trees[i][app.Name] = app.Hash
		}
	}
	own, others := [2]side{{}, {}}, [2]side{{}, {}}
	for i := range trees {
		for app, tree := range trees[i] {
			to := others[i]
			if slices.Contains(m.apps, app) {
				to = own[i]
			}
			if tree == trees[1-i][app] {
				continue
			}
			if err := m.add(ctx, to, app, tree); err != nil {
				return err
			}
		}
	}
	m.between(cluster, own, others)
	return nil
}

// between records the objects that moved between two sides. An object that a side has in both trees did not move: two
// apps can have an equal Namespace in both.
func (m *movedObjects) between(cluster string, own, others [2]side) {
	m.moved(cluster, own[0].without(own[1]), others[1].without(others[0]), "%s %s moved from %s to %s on %s")
	m.moved(cluster, own[1].without(own[0]), others[0].without(others[1]), "%s %s moved to %s from %s on %s")
}

// moved records the objects that own has in one tree and others has in the other tree.
func (m *movedObjects) moved(cluster string, own, others side, format string) {
	for _, id := range slices.SortedStableFunc(maps.Keys(own), manifest.Compare) {
		app, ok := others[id]
		if !ok {
			continue
		}
		m.others.add(app)
		m.first = cmp.Or(m.first, fmt.Sprintf(format, id.Kind, id.Name, own[id], app, cluster))
	}
}

// add adds the objects of an app.
func (m *movedObjects) add(ctx context.Context, to side, app string, tree gitstore.Hash) error {
	files, err := m.store.Tree(ctx, tree)
	if err != nil {
		return err
	}
	for _, f := range files {
		id, err := m.identities.of(ctx, f)
		if errors.Is(err, errNoObject) {
			continue // one such file must not hide what the others hold
		}
		if err != nil {
			return err
		}
		to[id] = app
	}
	return nil
}
