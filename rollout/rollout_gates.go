package rollout

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
)

// rolloutGates lists what must be true before a rollout takes its next step.
type rolloutGates struct{ *facts }

// waveGates returns the gates of the next move of clusters of wave i.
func (x *rolloutGates) waveGates(i int) []Gate {
	p := x.rec.Progress
	gates := append([]Gate{x.haltGate(), x.trunkGate()}, x.timeGates(p.Now)...)
	gates = append(gates, x.healthGates()...)
	last := Gate{Name: GateBake, State: Green}
	for _, w := range x.waves[:i] {
		if x.idle(w) && !p.Now {
			return append(gates, Gate{
				Name: GateBake, State: Waiting,
				Reason: fmt.Sprintf("all clusters of wave %s are frozen, so later waves wait; unfreeze one, or promote with --now", w.Name),
			})
		}
		g := x.bakeGate(w)
		if g.State != Green {
			return append(gates, g)
		}
		last.Reason = cmp.Or(last.Reason, g.Reason)
	}
	return append(gates, last)
}

// settleGate separates the steps of a wave by a pause, if no health does.
func (x *rolloutGates) settleGate(w Wave, step int) Gate {
	p := x.rec.Progress
	g := Gate{Name: GateSettle, State: Green}
	earlier := slices.ContainsFunc(w.Steps[:step], func(s []string) bool {
		return slices.ContainsFunc(s, func(n string) bool { return slices.Contains(p.Changed, n) })
	})
	if !earlier || p.Rollback || p.Now && len(x.p.AvoidTogether) == 0 {
		return g
	}
	if until := p.LastMove.Add(x.settle); x.s.Now.Before(until) {
		g.State, g.Since, g.Until = Waiting, p.LastMove, until
		g.Reason = fmt.Sprintf("the clusters that moved last settle until %s", Stamp(until))
	}
	return g
}

// healthGates returns the statuses and checks of the clusters that have moved so far. A red check is no failure of a
// first fill: nothing answered before.
func (x *rolloutGates) healthGates() []Gate {
	p := x.rec.Progress
	moved := x.movedClusters()
	if len(moved) == 0 {
		return nil
	}
	h := judge(x.p.Health, moved)
	health := Gate{Name: GateHealth, State: h.state, Reason: h.reason, Since: p.LastMove}
	if h.state == Red {
		if alone := x.redAlone(); alone.state == Waiting {
			health.State, health.Until, health.Reason = Waiting, alone.until, h.reason+"; "+alone.reason
		}
	}
	results := checks(x.s, p.LastMove)
	for i := range results {
		if results[i].State == Red && p.First {
			results[i].State = Waiting
		}
	}
	return append([]Gate{health}, results...)
}

// bakeGate reports whether a wave has been healthy for its bake time.
func (x *rolloutGates) bakeGate(w Wave) Gate {
	p := x.rec.Progress
	g := Gate{Name: GateBake, State: Green}
	touched := slices.ContainsFunc(w.Clusters(), func(n string) bool { return slices.Contains(p.Changed, n) })
	if !touched || w.Bake == 0 || p.Now || p.Rollback {
		return g
	}
	if p.First {
		g.Reason = notOfFirst
		return g
	}
	t := x.waveTime(w.Name)
	switch {
	case t == nil:
		g.State, g.Reason = Waiting, fmt.Sprintf("wave %s has not moved", w.Name)
	case t.Healthy.IsZero():
		g.State, g.Reason, g.Since = Waiting, fmt.Sprintf("wave %s is not healthy yet", w.Name), t.Moved
	default:
		g.Since, g.Until = t.Healthy, t.Healthy.Add(w.Bake)
		if x.s.Now.Before(g.Until) {
			g.State, g.Reason = Waiting, fmt.Sprintf("wave %s bakes until %s", w.Name, Stamp(g.Until))
		}
	}
	return g
}

func (x *rolloutGates) haltGate() Gate {
	h := x.rec.Halt
	if h == nil {
		return Gate{Name: GateHalt, State: Green}
	}
	return Gate{Name: GateHalt, State: Red, Since: h.At, Reason: h.String()}
}

// bringsLost reports whether the rollout brings a commit that the trunk does not have. An app that stays at such a
// commit does not count.
func (x *rolloutGates) bringsLost() bool {
	p := x.rec.Progress
	if x.order.knows(p.Source) {
		return false
	}
	i := slices.IndexFunc(x.rec.Ran, func(s PastState) bool { return p.From != "" && s.Tree == p.From })
	if i < 0 {
		return true
	}
	return slices.ContainsFunc(x.names(), func(cluster string) bool {
		before, now := x.rec.Ran[i].Source.On(cluster), p.Source.On(cluster)
		lost := func(app string) bool {
			return before.Of(app) != now.Of(app) && x.order.at(now.Of(app)) < 0
		}
		return lost("") || slices.ContainsFunc(appsOf(before, now), lost)
	})
}

// trunkGate stops a rollout of commits that the trunk does not have any more: somebody rewrote it, and nobody decided
// what becomes of the clusters that wait. A rollback needs no trunk.
func (x *rolloutGates) trunkGate() Gate {
	g := Gate{Name: GateTrunk, State: Green}
	p := x.rec.Progress
	if p.Rollback || !x.bringsLost() {
		return g
	}
	g.State, g.Since = Red, p.Started
	if x.s.Shallow {
		g.State = Unknown
		g.Reason = fmt.Sprintf("%s is not on the trunk as far as this shallow clone knows: run `git fetch --unshallow`", p.Source)
		return g
	}
	g.Reason = fmt.Sprintf("%s is not on the trunk any more, which was rewritten: push it there again, bring a commit of the trunk with `%s --commit COMMIT --now --reason WHY`, or go back with `%s`",
		p.Source, x.s.command("promote", x.s.Environment.Name), x.s.command("rollback", x.s.Environment.Name))
	return g
}

// timeGates are freezes and windows. --now ignores windows that allow, but not freezes and windows that deny.
func (x *rolloutGates) timeGates(overtakes bool) []Gate {
	windows := slices.Clone(x.p.Windows)
	if overtakes {
		windows = slices.DeleteFunc(windows, func(w fleet.Window) bool { return !w.Deny })
	}
	freeze := Gate{Name: GateFreeze, State: Green}
	if open, reason, next := Open(nil, x.freezes, x.s.Now); !open {
		freeze.State, freeze.Reason, freeze.Until = Waiting, reason, next
	}
	window := Gate{Name: GateWindow, State: Green}
	open, reason, next := Open(windows, nil, x.s.Now)
	if window.Until = next; !open {
		window.State, window.Reason = Waiting, reason
	}
	return []Gate{freeze, window}
}

// complete reports whether all waves have moved, baked, and are healthy.
func (x *rolloutGates) complete() bool {
	if s := x.s.Site; s != nil { // its own waves and bakes count
		return s.Gate(x.s.Now).State == Green && !s.Healthy.IsZero() && len(x.behind(x.names())) == 0 &&
			(x.rec.Progress.Rollback || Holds(x.healthGates()))
	}
	for _, w := range x.waves {
		if g := x.bakeGate(w); len(x.behind(w.Clusters())) > 0 || g.State != Green {
			return false
		}
	}
	return x.rec.Progress.Rollback || Holds(x.healthGates())
}
