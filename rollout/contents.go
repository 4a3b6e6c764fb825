package rollout

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Contents returns a digest of each app's manifests on a cluster in a tree of an environment branch. Equal manifests
// have equal digests. It returns ErrNoTree for a tree that the branch's history no longer has.
type Contents func(tree, cluster string) (map[string]string, error)

// ErrNoTree means that a tree cannot be read, because it is not in the history of the environment branch.
var ErrNoTree = errors.New("the tree is not in the history of the environment branch")

// CompleteHolds determines the apps of holds: those whose manifests the rollback changed. tree is the tree that the
// environment runs. It drops a hold if the rollback changed nothing in it. If the tree of a hold no longer exists,
// the hold stays unchanged and covers everything in its scope.
func CompleteHolds(r Record, tree string, members []string, read Contents) (Record, error) {
	if r.Rollback != nil || tree == "" {
		return r, nil
	}
	var out []Hold
	for _, h := range r.Holds {
		if len(h.Apps) > 0 || h.Tree == "" {
			out = append(out, h)
			continue
		}
		apps := map[string]bool{}
		err := h.each(members, func(cluster string) error {
			differing, err := differ(h.Tree, tree, cluster, read)
			for app := range differing {
				apps[app] = true
			}
			return err
		})
		switch {
		case errors.Is(err, ErrNoTree):
			out = append(out, h)
			continue
		case err != nil:
			return r, err
		case len(apps) == 0:
			continue
		}
		h.Apps = slices.Sorted(maps.Keys(apps))
		out = append(out, h)
	}
	r.Holds = out
	return r, nil
}

// each calls f for each cluster of a hold.
func (h Hold) each(members []string, f func(cluster string) error) error {
	scope := h.Clusters
	if len(scope) == 0 {
		scope = members
	}
	for _, c := range scope {
		if err := f(c); err != nil {
			return err
		}
	}
	return nil
}

// differ returns the apps of a cluster whose manifests differ between two trees.
func differ(a, b, cluster string, read Contents) (map[string]bool, error) {
	left, err := read(a, cluster)
	if err != nil {
		return nil, err
	}
	right, err := read(b, cluster)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for app, id := range left {
		if right[app] != id {
			out[app] = true
		}
	}
	for app := range right {
		if _, ok := left[app]; !ok {
			out[app] = true
		}
	}
	return out, nil
}

// ChangesOf compares the promoted manifests with the held ones. promotedTree is the environment's tree with the whole
// source; tree is the tree that the environment runs. An app counts as changed if its manifests differ from the held
// ones on every rolled-back cluster of the hold.
func ChangesOf(r Record, promoted Source, promotedTree, tree string, members []string, read Contents) (*Changes,
	error,
) {
	out := &Changes{Source: promoted}
	for _, h := range r.Holds {
		if h.Tree == "" {
			continue
		}
		f := newAppChanges()
		err := h.each(members, func(cluster string) error { return f.look(h.Tree, promotedTree, tree, cluster, read) })
		if errors.Is(err, ErrNoTree) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out.Holds = append(out.Holds, HoldChange{Hold: h, Apps: f.changed(h)})
	}
	return out, nil
}

// RolledBackError refuses a rollback of a scope that is rolled back already.
type RolledBackError struct {
	Environment string
	Runs        Source
	Choices     []PastState // earlier states that --to can name, newest first
}

// Error returns the reason with the choices.
func (e *RolledBackError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is rolled back already and runs %s", e.Environment, e.Runs)
	if len(e.Choices) == 0 {
		fmt.Fprintf(&b, "; every other state that `sluice history %s` lists equals what runs, or was rolled back, too",
			e.Environment)
		return b.String()
	}
	b.WriteString("; to go back further, choose a state: ")
	for i, c := range e.Choices {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "--to %s (since %s)", short(c.Source.Commit), Stamp(c.At))
	}
	return b.String()
}

// RollbackTarget returns the state for a rollback without --to. history is the environment branch, newest first,
// beginning with the current state. No clusters, or no apps, means all of them. The target is the newest state that
// differs from the current one in the scope and contains nothing that was rolled back there. If the current state is
// that state, it returns a *RolledBackError.
func RollbackTarget(s Situation, history []PastState, clusters, apps []string, read Contents) (PastState, error) {
	x, err := prepare(s)
	if err != nil {
		return PastState{}, err
	}
	if len(history) == 0 {
		return PastState{}, fmt.Errorf("%s has no earlier state", s.Environment.Name)
	}
	scope := clusters
	if len(scope) == 0 {
		scope = x.names()
	}
	t := &targetSearch{holds: x.rec.Holds, scope: scope, apps: apps, now: history[0].Tree, read: read}
	own := max(x.ownStates(history), 1)
	skipped := own > 1
	for i, past := range history {
		if i < own {
			continue
		}
		differs, err := t.differs(past.Tree)
		if err != nil {
			return PastState{}, err
		}
		bad, err := t.held(past.Tree)
		if err != nil {
			return PastState{}, err
		}
		switch {
		case bad, differs && i == 1 && (s.Running.Restores || s.Running.TakesBack):
			// the result of a rollback, even if no record has it
			skipped = true
		case differs:
			return past, nil
		case skipped:
			choices, err := t.choices(history[i+1:])
			if err != nil {
				return PastState{}, err
			}
			return PastState{}, &RolledBackError{s.Environment.Name, s.Running.Source, choices}
		}
	}
	if skipped {
		return PastState{}, &RolledBackError{Environment: s.Environment.Name, Runs: s.Running.Source}
	}
	return PastState{}, t.none(s.Environment.Name, history[own:])
}

// targetSearch compares states in the scope of a rollback.
type targetSearch struct {
	holds       []Hold
	scope, apps []string
	now         string
	read        Contents
}

// none says why no earlier state of an environment is one to go back to.
func (t *targetSearch) none(environment string, earlier []PastState) error {
	if len(earlier) == 0 {
		return fmt.Errorf("%s has no earlier state", environment)
	}
	where := "the clusters that the fleet has now (clusters that left it are not restored)"
	if len(t.apps) > 0 {
		where = Few(t.apps) + " on " + where
	}
	return fmt.Errorf("the earlier states of %s (`sluice history %[1]s` lists %d) equal what runs, on %s: there is nothing to go back to",
		environment, len(earlier), where)
}

// differs reports whether a tree differs from the current one in the scope.
func (t *targetSearch) differs(tree string) (bool, error) {
	if tree == t.now {
		return false, nil
	}
	for _, cluster := range t.scope {
		apps, err := differ(tree, t.now, cluster, t.read)
		if err != nil {
			return false, err
		}
		for app := range apps {
			if len(t.apps) == 0 || slices.Contains(t.apps, app) {
				return true, nil
			}
		}
	}
	return false, nil
}

// held reports whether a tree contains, in the scope, what a hold covers.
func (t *targetSearch) held(tree string) (bool, error) {
	for _, h := range t.holds {
		if h.Tree == "" {
			continue
		}
		for _, cluster := range t.scope {
			if len(h.Clusters) > 0 && !slices.Contains(h.Clusters, cluster) {
				continue
			}
			has, err := t.hasHeld(tree, cluster, h)
			if errors.Is(err, ErrNoTree) {
				break // the hold has no tree to compare with
			}
			if has || err != nil {
				return has, err
			}
		}
	}
	return false, nil
}

// hasHeld reports whether a tree has, on one cluster, manifests that were rolled back when the hold began.
func (t *targetSearch) hasHeld(tree, cluster string, h Hold) (bool, error) {
	went, err := differ(h.Tree, t.now, cluster, t.read)
	if err != nil {
		return false, err
	}
	changed, err := differ(h.Tree, tree, cluster, t.read)
	if err != nil {
		return false, err
	}
	for app := range went {
		named := (len(t.apps) == 0 || slices.Contains(t.apps, app)) &&
			(len(h.Apps) == 0 || slices.Contains(h.Apps, app))
		if named && !changed[app] {
			return true, nil
		}
	}
	return false, nil
}

// choices returns past states that differ from the current one in the scope, except held ones.
func (t *targetSearch) choices(past []PastState) ([]PastState, error) {
	const most = 5
	var out []PastState
	for _, p := range past {
		if slices.ContainsFunc(out, func(o PastState) bool { return o.Tree == p.Tree }) {
			continue
		}
		differs, err := t.differs(p.Tree)
		if err != nil {
			return nil, err
		}
		bad, err := t.held(p.Tree)
		if err != nil {
			return nil, err
		}
		if differs && !bad {
			if out = append(out, p); len(out) == most {
				break
			}
		}
	}
	return out, nil
}
