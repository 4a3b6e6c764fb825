package rollout

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
)

// Without is the state of an environment in which some workspaces have what they had before the rollout: those that
// alone are red.
type Without struct {
	Workspaces []string
	Apps       []string // of these workspaces, whose manifests the rollout changes
	From       string   // the tree of the environment branch
	Tree       string   // the tree with which the rollout continues
	Refused    string   // why no workspace goes back alone; "" if they may
}

// RedWorkspaces are the workspaces that alone turned a rollout red.
type RedWorkspaces struct {
	Names  []string
	On     map[string][]string // by cluster: those that are red on it
	Before PastState           // what every cluster ran before the rollout
}

// RedAlone returns the workspaces that alone turned the rollout under way red, as far as the statuses show it. It
// returns nil if there is none, or if the environment fails as a whole.
func RedAlone(s Situation) (*RedWorkspaces, error) {
	if !s.Environment.Promotion.SeparatesWorkspaces() {
		return nil, nil //nolint:nilnil // every workspace belongs to the whole
	}
	x, err := prepare(s)
	if err != nil {
		return nil, err
	}
	if err := x.observer.observe(); err != nil {
		return nil, err
	}
	red := x.rolloutGates.redAlone()
	before, known := x.before()
	if red.state != Green || !known {
		return nil, nil //nolint:nilnil // nothing goes back alone
	}
	return &RedWorkspaces{Names: red.workspaces, On: red.on, Before: before}, nil
}

// Changed returns the apps of the workspaces whose manifests differ between two trees. refused says which workspace is
// red on a cluster on which its manifests do not differ, so that they are not the cause.
func (r *RedWorkspaces) Changed(before, after string, clusters []string, read Contents) (apps []string, refused string,
	err error,
) {
	all := map[string]bool{}
	for _, cluster := range clusters {
		differing, err := differ(before, after, cluster, read)
		if err != nil {
			return nil, "", err
		}
		changed := map[string]bool{}
		for app := range differing {
			if w := fleet.WorkspaceOf(app); slices.Contains(r.Names, w) {
				all[app], changed[w] = true, true
			}
		}
		for _, w := range r.On[cluster] {
			if !changed[w] {
				return nil, fmt.Sprintf("the rollout does not change workspace %s on %s, which is red there", w,
					cluster), nil
			}
		}
	}
	return slices.Sorted(maps.Keys(all)), "", nil
}

// alone is the judgement of a red rollout. Red means that the environment fails as a whole, waiting that statuses are
// missing, and green that workspaces alone are the cause.
type alone struct {
	state      State
	workspaces []string
	on         map[string][]string // by cluster
	reason     string
	until      time.Time
}

// redAlone judges whether workspaces alone turned the rollout red. Everything else on the clusters that have moved must
// be green, by statuses of its own, and another workspace must be green on each cluster on which one is red: what turns
// all of them red is not their own.
func (x *rolloutGates) redAlone() alone {
	if !x.p.SeparatesWorkspaces() || x.rec.Progress == nil {
		return alone{state: Red}
	}
	out := alone{state: Green, on: map[string][]string{}}
	moved := x.movedClusters()
	if judge(x.p.Health, moved).state != Red {
		return alone{state: Red}
	}
	for _, c := range moved {
		if red := redOn(x.p.Health.CommitStatuses, c); len(red) > 0 {
			out.on[c.Name] = red
			out.workspaces = sorted(append(out.workspaces, red...))
		}
	}
	if len(out.workspaces) == 0 {
		return alone{state: Red}
	}
	if why := x.keepsWorkspaces(); why != "" {
		return alone{state: Red, reason: why}
	}
	states := make([]State, 0, len(moved))
	for _, c := range moved {
		state, _ := restOf(x.p.Health.CommitStatuses, c, out.workspaces, len(out.on[c.Name]) > 0)
		states = append(states, state)
	}
	for _, g := range checks(x.s, x.rec.Progress.LastMove) {
		states = append(states, g.State)
	}
	names := workspaceNoun(out.workspaces) + Few(out.workspaces)
	out.until = x.rec.Progress.LastMove.Add(silentAfter)
	switch state := worst(states...); {
	case state == Green:
		out.reason = "only " + names + " is red, everything else is green"
	case state == Red:
		return alone{state: Red, reason: "something else is red, too, or no other workspace is on the same cluster"}
	case !x.s.Now.Before(out.until):
		return alone{state: Red, reason: "not everything else is green"}
	default:
		out.state = Waiting
		out.reason = fmt.Sprintf("only %s is red so far; Sluice waits until %s for the statuses of everything else",
			names, Stamp(out.until))
	}
	return out
}

// keepsWorkspaces returns why no workspace may go back alone from the rollout under way, whatever the statuses are; ""
// if one may. Every cluster must have run the same earlier state before, nobody may have asked for anything else, and
// no branch may be out of reach.
func (x *rolloutGates) keepsWorkspaces() string {
	p, r := x.rec.Progress, x.rec
	switch {
	case !p.underWay(), p.Rollback, p.Tree != x.s.Running.Tree, r.Rollback != nil:
		return "no rollout of a promotion is under way"
	case r.Halt != nil:
		return "the environment is halted"
	case p.Now:
		return "the rollout skips gates"
	case p.From == "":
		return "it is not known that every cluster ran the same state before the rollout"
	case r.Request != nil:
		return "somebody has asked for another promotion"
	case len(r.Holds) >= maxHolds-1:
		return "too many parts are held back already"
	}
	if open, _, _ := Open(nil, x.freezes, x.s.Now); !open { // a reason and a time, no errors
		return "the environment is frozen"
	}
	for _, name := range x.names() {
		switch c := x.clusters[name]; {
		case x.frozen(name):
			return "cluster " + name + " is frozen"
		case c.Foreign != "":
			return "Sluice may not move cluster " + name
		case c.Tree == "", c.Desired == "":
			return "cluster " + name + " is new, or has nothing to run"
		}
	}
	return ""
}

// redOn returns the workspaces of which an app is red on a cluster. Only patterns that name ${app} tell workspaces
// apart, and a red status counts only if no app of anybody else has a pattern that matches it, too: apps have names
// that their workspaces choose.
func redOn(patterns []string, c ClusterState) []string {
	if c.StatusesUnknown != "" {
		return nil
	}
	each := ofApps(patterns)
	own := make([][]string, len(c.Apps)) // the patterns of each app
	for i, app := range c.Apps {
		own[i] = eachApp(each, []string{app})
	}
	var out []string
	for _, s := range c.Statuses {
		if s.State != "failure" && s.State != "error" {
			continue
		}
		var owners []string
		for i, app := range c.Apps {
			if slices.ContainsFunc(own[i], func(p string) bool { return glob(p, s.Name) }) {
				owners = append(owners, fleet.WorkspaceOf(app))
			}
		}
		if owners = sorted(owners); len(owners) == 1 && owners[0] != "" {
			out = append(out, owners[0])
		}
	}
	return sorted(out)
}

// restOf judges a cluster without some workspaces. others means that it must have another workspace. A status that a
// pattern of the left out apps matches as well counts only against the rest, never for it.
func restOf(patterns []string, c ClusterState, without []string, others bool) (State, string) {
	rest, left := c, c
	rest.Apps, left.Apps = nil, nil
	other := false
	for _, app := range c.Apps {
		if w := fleet.WorkspaceOf(app); slices.Contains(without, w) {
			left.Apps = append(left.Apps, app)
		} else {
			rest.Apps, other = append(rest.Apps, app), other || w != ""
		}
	}
	if c.Apps != nil && others && !other {
		return Red, "no other workspace is on the same cluster"
	}
	if c.Apps != nil && rest.Apps == nil {
		rest.Apps = []string{} // nil would mean that they are unknown
	}
	all, why := ofCluster(patterns, rest)
	theirs := eachApp(ofApps(patterns), left.Apps)
	rest.Statuses = slices.DeleteFunc(slices.Clone(c.Statuses), func(s Status) bool {
		return slices.ContainsFunc(theirs, func(p string) bool { return glob(p, s.Name) })
	})
	own, ownWhy := ofCluster(patterns, rest)
	if state := worst(all, own); state != all {
		return state, ownWhy
	}
	return all, why
}

// takeBack lets the rollout continue without the changes of the workspaces that alone are red. refused says why it does
// not.
func (x *rollout) takeBack() (done bool, refused string, err error) {
	red, w := x.rolloutGates.redAlone(), x.s.Without
	before, known := x.before()
	switch {
	case red.state != Green:
		return false, red.reason, nil
	case w == nil || !known:
		return false, "the state before the rollout is not known", nil
	case w.Refused != "":
		return false, w.Refused, nil
	case w.From != x.s.Running.Tree || w.Tree == "" || len(w.Apps) == 0 || !slices.Equal(w.Workspaces, red.workspaces):
		return false, "the state without the workspace is not known", nil
	}
	var later []string
	for _, name := range x.names() {
		if x.clusters[name].behind() {
			later = append(later, name)
		}
	}
	cluster := slices.Sorted(maps.Keys(red.on))[0]
	_, why := ofCluster(x.p.Health.CommitStatuses, x.clusters[cluster])
	e := Event{
		Kind: EventTakenBack, Workspaces: w.Workspaces, Apps: w.Apps, To: before, Tree: w.Tree, Stopped: later,
		Reason: fmt.Sprintf("%s (%s: %s)", red.reason, cluster, why),
	}
	if err := x.emit(e); err != nil {
		return false, "", err
	}
	x.rollback()
	return true, "", nil
}

// before returns the state that every cluster ran when the rollout began.
func (x *facts) before() (PastState, bool) {
	if x.rec.Progress == nil || x.rec.Progress.From == "" {
		return PastState{}, false
	}
	for _, r := range slices.Backward(x.rec.Ran) {
		if r.Tree == x.rec.Progress.From {
			return r, x.order.knows(r.Source)
		}
	}
	return PastState{}, false
}

// ownStates returns how many of the newest past states, the one that runs included, belong to the last rollout. What it
// had until a workspace went back was never complete, so nothing goes back to it. Without a known state before the
// rollout, it returns 0.
func (x *facts) ownStates(newestFirst []PastState) int {
	p, b := x.rec.Progress, x.rec.Rollback
	if p == nil || p.From == "" || len(newestFirst) == 0 {
		return 0
	}
	// an interrupted run may have moved the branch to the latter
	if now := newestFirst[0].Tree; now != p.Tree && (b == nil || now != b.Continues) {
		return 0
	}
	return 1 + slices.IndexFunc(newestFirst[1:], func(r PastState) bool { return r.Tree == p.From })
}

// settled returns the tree that every cluster runs at the end of a complete rollout; "" if one may run another, or if
// it does not matter.
func (x *facts) settled() string {
	p := x.rec.Progress
	if !x.p.SeparatesWorkspaces() || p == nil || p.Done.IsZero() || len(p.CatchUp) > 0 {
		return ""
	}
	return p.Tree
}

// takingBack reports whether workspaces are going back: the environment branch has the tree before or after. An
// interrupted run may have moved it without recording that, so the rollout continues only when the record says that it
// does.
func (x *facts) takingBack() bool {
	b, p, tree := x.rec.Rollback, x.rec.Progress, x.s.Running.Tree
	return b != nil && b.Continues != "" && p != nil && p.Tree == b.FromTree &&
		(tree == b.FromTree || tree == b.Continues)
}

// takenBack applies the decision that workspaces go back alone. The record has it before the branches have.
func (r *Record) takenBack(e Event) error {
	p := r.Progress
	switch {
	case p == nil || !p.underWay():
		return errors.New("no rollout is under way")
	case e.To.Tree == "" || e.Tree == "" || len(e.Apps) == 0:
		return errors.New("the state without the workspaces is unknown")
	case r.Rollback != nil:
		return errors.New("a rollback is under way")
	}
	r.Rollback = &Rollback{
		To: e.To.Source, Tree: e.To.Tree, From: p.Source, FromTree: p.Tree, Apps: sorted(e.Apps),
		Workspaces: sorted(e.Workspaces),
		Continues:  e.Tree, Later: sorted(e.Stopped), Reason: e.Reason, At: e.At,
	}
	if q := r.Request; q != nil && q.Again == "" && (len(q.Apps) == 0 ||
		slices.ContainsFunc(q.Apps, func(app string) bool { return slices.Contains(e.Apps, app) })) {
		r.Request = nil // it was made before anybody knew, and would bring them back
		r.Rollback.Reason += fmt.Sprintf("; the promotion to %s that %s asked for has ended with it", q.Source, q.By)
	}
	return nil
}

// continued ends the return of workspaces: what they had is held, and the rollout continues. The clusters that it had
// reached must become healthy again, and their waves bake again, because no cluster has run this combination before.
func (r *Record) continued(e Event) error {
	b, old := r.Rollback, r.Progress
	if e.Tree != b.Continues || old == nil || old.Tree != b.FromTree {
		return fmt.Errorf("the environment branch has the tree %s, and not %s", e.Tree, b.Continues)
	}
	// a cluster that neither state changes has no say in the health of the rollout
	e.Clusters = slices.Concat(old.Changed, b.Later)
	e.From, e.Restores, e.Now = old.From, false, false
	r.moved(e)
	r.Rollback = nil
	r.Holds = withHolds(r.Holds, Hold{
		Cause: CauseFailed, Source: b.From.WithoutGaps(), Tree: b.FromTree, Apps: b.Apps, Workspaces: b.Workspaces,
		Reason: b.Reason, Since: e.At,
	})
	return nil
}
