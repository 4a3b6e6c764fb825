package rollout

import (
	"fmt"
	"slices"
	"time"
)

// decider is one call of Decide or Next: it observes what happened, continues the rollout under way, and begins the
// next one.
type decider struct {
	*facts
	agreement    *agreement
	rolloutGates *rolloutGates
	gatekeeper   *gatekeeper
	proposer     *proposer
	observer     *observer
	rollout      *rollout
}

// Decide returns the next actions in an environment, and what blocks others. An error is a mistake in the
// configuration or in the record, and says what to correct. Decide is pure: it may be called at any time, and the
// caller may discard the result.
func Decide(s Situation) (Decision, error) {
	x, err := prepare(s)
	if err != nil {
		return Decision{}, err
	}
	if err := x.observer.observe(); err != nil {
		return Decision{}, err
	}
	if b := x.rec.Rollback; b != nil && len(b.Clusters) > 0 && len(x.thawed(b.Clusters)) == 0 {
		// An empty rollback must neither block others nor become a rollback of all clusters.
		end := Event{Kind: EventRollbackDropped, Reason: "all of its clusters were frozen meanwhile"}
		if x.s.Running.Restores && x.s.Running.Tree != b.FromTree {
			end = Event{Kind: EventRolledBack} // an interrupted run moved the environment branch
		}
		if err := x.emit(end); err != nil {
			return Decision{}, err
		}
		if x.s.Running.Foreign == "" { // no hold ends while a rollback is pending
			if err := x.observer.observeHolds(); err != nil {
				return Decision{}, err
			}
		}
	}
	switch {
	case x.s.Running.Foreign != "":
		x.d.Gates = []Gate{{Name: GateBranch, State: Red, Reason: x.s.Running.Foreign}}
	case x.rec.Rollback != nil:
		x.rollout.rollback()
	case x.s.Unprotected != "":
		x.d.Gates = []Gate{{Name: GateProtection, State: Red, Reason: x.s.Unprotected}}
	default:
		if err := x.advance(); err != nil {
			return Decision{}, err
		}
	}
	return x.finish(), nil
}

func newDecider(x *facts) *decider {
	agreed, pace, before := &agreement{x}, &rolloutGates{x}, &upstreams{x, map[string]upstreamHealth{}}
	gates := &gatekeeper{x, agreed, pace, before}
	return &decider{
		facts: x, agreement: agreed, rolloutGates: pace, gatekeeper: gates,
		proposer: &proposer{x, gates, before}, observer: &observer{x, agreed, pace, before}, rollout: &rollout{x, pace},
	}
}

// advance continues the current rollout, and starts the next one.
func (x *decider) advance() error {
	moved, err := x.rollout.progress()
	if err != nil || x.rec.Rollback != nil {
		return err
	}
	if h := x.expediting(); h != nil {
		x.d.Gates = []Gate{x.agreement.expediteGate(h)}
	}
	next := x.proposer.propose()
	x.d.Proposal = next
	if foreign := x.gatekeeper.foreignUpstreams(); next == nil && len(foreign) > 0 {
		x.d.Gates = foreign
	} else if next == nil {
		if x.s.Request != nil {
			x.act(Action{Kind: CloseRequest, Reason: "nothing is left to promote"})
		}
	} else if x.renderedAlready(*next) {
		x.d.Proposal = nil
		if err := x.emit(Event{Kind: EventRequestDone}); err != nil {
			return err
		}
	} else if x.onlyHeld(*next) {
		x.heldOnly(*next)
	} else {
		x.d.Gates = x.gatekeeper.gates(*next)
		x.d.Waits = x.gatekeeper.described(*next, x.d.Gates)
		if err := x.agreement.offer(*next); err != nil {
			return err
		}
		if x.promote(*next) {
			return nil // the waves start again with the new tree
		}
	}
	if moved != nil {
		x.act(*moved)
	}
	return nil
}

// renderedAlready reports whether rendering again gives what the environment has.
func (x *decider) renderedAlready(next Proposal) bool {
	c, run := x.s.Candidate, x.s.Running
	return next.Renders && c != nil && c.Source.Equal(next.Source) && c.Base == run.Commit && c.Tree == run.Tree &&
		!run.Overwrites
}

// onlyHeld reports whether a promotion would bring nothing but held apps, or a commit that was merged already to
// clusters that were rolled back to equal manifests. People are not asked to merge what changes only Sluice's records;
// in other modes, the environment branch gets them.
func (x *decider) onlyHeld(next Proposal) bool {
	run, held := x.s.Running.Source, len(next.Held)+len(next.Without) > 0
	if next.Refused != "" || !held && next.Promoted.Commit != run.Commit {
		return false
	}
	c := x.s.Candidate
	asks := x.mode() == modeRequest && x.rec.Request == nil
	return held && next.Source.equalOn(run, x.names()) || asks && c != nil && c.Same && c.Source.Equal(next.Source)
}

// heldOnly handles the case that only held apps are left to promote.
func (x *decider) heldOnly(next Proposal) {
	x.d.Proposal = nil
	x.d.Gates = nil
	x.d.Waits = x.gatekeeper.described(next, nil)
	if len(next.Held) > 0 {
		x.d.Gates = []Gate{{
			Name: GateHold, State: Waiting,
			Reason: fmt.Sprintf("everything of %s runs but %s, which is held back", short(next.Promoted.Commit),
				Few(next.Held)),
		}}
		if next.note != "" {
			x.d.Gates[0].State = Red // until somebody promotes another commit first
			x.d.Gates[0].Reason += "; " + next.note
		}
	}
	x.d.Gates = append(x.d.Gates, x.gatekeeper.upstreams.onlyLate(next)...)
	if x.s.Request != nil {
		x.act(Action{Kind: CloseRequest, Reason: "what is left is held back"})
	}
}

// promote moves the environment branch, or updates the merge request. It reports whether the branch moves.
func (x *decider) promote(w Proposal) bool {
	a := Action{
		Source: w.Source, Apps: w.Apps, Workspaces: w.Workspaces, Overtakes: w.Overtakes, Renders: w.Renders,
		By: w.By, Reason: w.Reason,
	}
	if x.first() && !w.Overtakes {
		a.Inapplicable = x.gatekeeper.inapplicable()
	}
	if w.Refused == "" {
		a.Without = w.Without
	}
	if c := x.s.Candidate; c != nil {
		a.Tree = c.Tree
	}
	if x.mode() != modeRequest || x.rec.Request != nil {
		if !Holds(x.d.Gates) {
			return false
		}
		a.Kind, a.ApprovedBy = MoveEnvironment, x.agreement.approvers(a.Tree, x.agreement.candidateAuthors(),
			x.agreement.needsNow())
		x.act(a)
		return true
	}
	open := x.s.Request
	// the forge counts approvals of the merge request
	others := slices.DeleteFunc(slices.Clone(x.d.Gates), func(g Gate) bool { return g.Name == GateApprovals })
	switch {
	case x.s.Running.Commit == "": // there is no branch that a merge request could target
	case Holds(others) && (open == nil || open.Tree != a.Tree || !open.Source.Equal(a.Source)):
		a.Kind = OpenRequest
		x.act(a)
	case open != nil && slices.ContainsFunc(others, func(g Gate) bool { return g.State == Red }):
		x.act(Action{Kind: CloseRequest, Reason: firstClosed(others).String()})
	}
	return false
}

// rollback executes a rollback that a command or a failure requested. It waits for no gate.
func (x *rollout) rollback() {
	b := x.rec.Rollback
	a := Action{
		Kind: DoRollback, Source: b.To, Tree: b.Tree, Wave: b.Wave, Clusters: b.Clusters, Apps: b.Apps,
		Workspaces: b.Workspaces,
		Stopped:    b.Stopped, Continues: b.Continues, Later: b.Later, By: b.By, Reason: b.Reason,
	}
	for _, name := range x.names() {
		if x.frozen(name) {
			a.Frozen = append(a.Frozen, name)
		}
	}
	x.act(a)
}

func (x *decider) finish() Decision {
	d := x.d
	d.Record, d.Silent = x.rec, x.rolloutGates.silent()
	for _, c := range x.s.Clusters {
		if !c.behind() || c.State == "retired" {
			continue
		}
		d.Behind = append(d.Behind, c.Name)
		if x.frozen(c.Name) {
			d.Frozen = append(d.Frozen, c.Name)
		}
	}
	slices.Sort(d.Frozen)
	slices.Sort(d.Behind)
	d.LeftOut = x.gatekeeper.upstreams.behind()
	for _, f := range append(slices.Clone(x.freezes), x.rec.Freezes...) {
		if f.Holds(x.s.Now) && !slices.Contains(d.Freezes, f) {
			d.Freezes = append(d.Freezes, f)
		}
	}
	times := []time.Time{}
	for _, g := range slices.Concat(d.Gates, d.WaveGates) {
		times = append(times, g.Until)
	}
	for _, f := range x.rec.Freezes {
		times = append(times, f.Until)
	}
	d.Next = earliest(x.s.Now, times...)
	d.WaitsFor = x.waitsFor(d)
	if len(d.Actions) == 0 {
		d.Actions = []Action{{Kind: Nothing, Base: x.s.Running.Commit, Reason: d.WaitsFor}}
	}
	return d
}

func (x *decider) waitsFor(d Decision) string {
	name := x.s.Environment.Name
	acts := slices.ContainsFunc(d.Actions, func(a Action) bool {
		return a.Kind == MoveEnvironment ||
			a.Kind == MoveWave || a.Kind == DoRollback
	})
	switch {
	case acts:
		return ""
	case !Holds(d.Gates) && x.expediting() != nil:
		return fmt.Sprintf("--now waits%s", firstClosed(d.Gates).wait())
	case x.rec.Halt != nil && x.rec.Halt.By == "" && len(x.s.Described) > 0 && (!Holds(d.WaveGates) || !Holds(d.Gates)):
		return fmt.Sprintf("%s is halted: `%s` continues it when it is healthy again; `%s` brings a newer commit that corrects an app",
			name, x.s.command("resume", name), x.s.command("promote", name, "--app APP --now --reason WHY"))
	case x.rec.Halt != nil && (!Holds(d.WaveGates) || !Holds(d.Gates)):
		return fmt.Sprintf("%s is halted: `%s` continues it, `%s` goes back", name, x.s.command("resume", name),
			x.s.command("rollback", name))
	case !Holds(d.WaveGates):
		return fmt.Sprintf("the clusters of %s wait%s", name, firstClosed(d.WaveGates).wait())
	case !Holds(d.Gates):
		return fmt.Sprintf("%s waits%s", name, firstClosed(d.Gates).wait())
	case d.Proposal != nil && x.s.Running.Commit == "":
		return fmt.Sprintf("%s has no branch yet: its first state needs a command: %s", name,
			x.s.command("promote", name))
	case d.Proposal != nil:
		return fmt.Sprintf("%s waits until its merge request is merged", name)
	case x.rec.Declined != nil && x.mode() == modeRequest:
		return fmt.Sprintf("the merge request for %s was closed: %s waits for a newer commit or %s",
			x.rec.Declined.Source, name, x.s.command("promote", name))
	case x.mode() == modeManual && x.proposer.automatic() != nil:
		return x.waitsForCommand(*x.proposer.automatic())
	case len(d.Frozen) > 0:
		return "frozen clusters stay behind: " + Few(d.Frozen)
	default:
		return ""
	}
}

// waitsForCommand suggests a promotion, unless a halt or a freeze would refuse it.
func (x *decider) waitsForCommand(next Proposal) string {
	name := x.s.Environment.Name
	if late := x.gatekeeper.upstreams.onlyLate(next); next.Source.equalOn(x.s.Running.Source, x.names()) &&
		len(late) > 0 {
		return fmt.Sprintf("%s waits%s", name, late[0].wait())
	}
	for _, g := range append([]Gate{x.rolloutGates.haltGate()}, x.rolloutGates.timeGates(true)...) {
		if g.State != Green {
			return fmt.Sprintf("%s waits%s; then it needs a command: %s", name, g.wait(), x.s.command("promote", name))
		}
	}
	return fmt.Sprintf("%s waits for a command: %s", name, x.s.command("promote", name))
}

// firstClosed returns the gate to report: the first red one or, without a red one, the first that is not green.
func firstClosed(gates []Gate) Gate {
	if i := slices.IndexFunc(gates, func(g Gate) bool { return g.State == Red }); i >= 0 {
		return gates[i]
	}
	if i := slices.IndexFunc(gates, func(g Gate) bool { return g.State != Green }); i >= 0 {
		return gates[i]
	}
	return Gate{}
}
