package promote

import (
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
)

// progress continues the waves of the current rollout. It returns the next move if its gates pass.
func (x *decider) progress() (*Action, error) {
	p := x.rec.Progress
	if p == nil {
		return nil, nil
	}
	defer func() { x.d.Waves = x.waveProgress() }()
	if failed, err := x.failure(); failed || err != nil {
		return nil, err
	}
	if p.Rollback {
		if all := x.movable(x.behind(p.Changed)); len(all) > 0 {
			return &Action{Kind: MoveWave, Clusters: all, Source: p.Source, Reason: "a rollback moves all of its clusters at once"}, nil
		}
	}
	for i, w := range x.waves {
		for j, step := range w.Steps {
			next := x.behind(step)
			if len(next) == 0 {
				continue
			}
			x.d.WaveGates = append(x.waveGates(i), x.settleGate(w, j))
			if free := x.movable(next); len(free) > 0 {
				next = free
			} else { // it does not move, and later steps wait
				x.d.WaveGates = append(x.d.WaveGates, Gate{Name: GateBranch, State: Red, Reason: x.clusters[next[0]].Foreign})
			}
			if !Holds(x.d.WaveGates) {
				return nil, nil
			}
			return &Action{Kind: MoveWave, Wave: w.Name, Clusters: next, Source: p.Source, Overtakes: p.Now, By: p.NowBy, Reason: p.NowWhy}, nil
		}
	}
	return nil, nil
}

// failure looks for red health during a rollout, and applies the environment's onFailure.
func (x *decider) failure() (bool, error) {
	p := x.rec.Progress
	if !p.Done.IsZero() || p.Rollback || x.rec.Halt != nil || p.Current == 0 {
		return false, nil
	}
	gates := x.healthGates()
	i := slices.IndexFunc(gates, func(g Gate) bool { return g.State == Red })
	if i < 0 {
		return false, nil
	}
	reason := fmt.Sprintf("%s failed: %s", p.Source, gates[i])
	x.d.WaveGates = gates
	if to, ok := x.previous(); ok && x.p.OnFailure == "rollback" {
		if err := x.emit(Event{Kind: EventFailedBack, Reason: reason, To: to}); err != nil {
			return false, err
		}
		x.rollback()
		return true, nil
	}
	if err := x.emit(Event{Kind: EventFailed, Reason: reason}); err != nil {
		return false, err
	}
	x.act(Action{Kind: DoHalt, Reason: reason})
	return false, nil
}

// previous returns the last earlier state that is not held.
func (x *decider) previous() (PastState, bool) {
	for _, r := range slices.Backward(x.rec.Ran) {
		bad := slices.ContainsFunc(x.rec.Holds, func(h Hold) bool { return h.Tree == r.Tree || h.Source.Equal(r.Source) })
		if r.Tree != x.s.Running.Tree && r.Tree != "" && !bad && !r.Source.Equal(x.rec.Progress.Source) {
			return r, true
		}
	}
	return PastState{}, false
}

// waveGates returns the gates of the next move of clusters of wave i.
func (x *decider) waveGates(i int) []Gate {
	p := x.rec.Progress
	gates := append([]Gate{x.haltGate()}, x.timeGates(p.Now)...)
	gates = append(gates, x.healthGates()...)
	for _, w := range x.waves[:i] {
		if x.idle(w) && !p.Now {
			return append(gates, Gate{
				Name: GateBake, State: Waiting, Reason: fmt.Sprintf("all clusters of wave %s are frozen, so later waves wait; unfreeze one, or promote with --now", w.Name),
			})
		}
		if g := x.bakeGate(w); g.State != Green {
			return append(gates, g)
		}
	}
	return append(gates, Gate{Name: GateBake, State: Green})
}

// idle reports whether all clusters of a wave are frozen and behind, so that the wave shows nothing about the commit.
func (x *decider) idle(w Wave) bool {
	names := w.Clusters()
	return len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return !x.frozen(n) || !x.clusters[n].behind() })
}

// movable returns the clusters whose branches Sluice may move.
func (x *decider) movable(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return x.clusters[n].Foreign != "" })
}

// settleGate separates the steps of a wave by a pause, if no health does.
func (x *decider) settleGate(w Wave, step int) Gate {
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

// healthGates returns the statuses and checks of the clusters that have moved so far.
func (x *decider) healthGates() []Gate {
	p := x.rec.Progress
	moved := x.movedClusters()
	if len(moved) == 0 {
		return nil
	}
	h := judge(x.p.Health, moved)
	return append([]Gate{{Name: GateHealth, State: h.state, Reason: h.reason, Since: p.LastMove}}, checks(x.s, p.LastMove)...)
}

// bakeGate reports whether a wave has been healthy for its bake time.
func (x *decider) bakeGate(w Wave) Gate {
	p := x.rec.Progress
	g := Gate{Name: GateBake, State: Green}
	touched := slices.ContainsFunc(w.Clusters(), func(n string) bool { return slices.Contains(p.Changed, n) })
	if !touched || w.Bake == 0 || p.Now || p.Rollback {
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

func (x *decider) haltGate() Gate {
	h := x.rec.Halt
	if h == nil {
		return Gate{Name: GateHalt, State: Green}
	}
	who := "Sluice"
	if h.By != "" {
		who = h.By
	}
	return Gate{
		Name: GateHalt, State: Red, Since: h.At,
		Reason: fmt.Sprintf("halted by %s%s", who, Because(h.Reason)),
	}
}

// timeGates are freezes and windows. --now ignores windows that allow, but not freezes and windows that deny.
func (x *decider) timeGates(overtakes bool) []Gate {
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

func (x *decider) waveProgress() []WaveProgress {
	out := make([]WaveProgress, 0, len(x.waves))
	current := true // all earlier waves are complete
	for _, w := range x.waves {
		one := WaveProgress{Name: w.Name, State: WavePending}
		for _, n := range w.Clusters() {
			c := x.clusters[n]
			one.Total++
			if !c.behind() {
				one.Moved++
			}
			if x.frozen(n) {
				one.Frozen = append(one.Frozen, n)
			}
		}
		x.waveState(w, current, &one)
		if one.State != WaveDone {
			current = false
		}
		out = append(out, one)
	}
	return out
}

// waveState returns the state of a wave. current means that all earlier waves are complete. A wave is complete when
// it has moved, is healthy and has baked.
func (x *decider) waveState(w Wave, current bool, out *WaveProgress) {
	p, left := x.rec.Progress, len(x.behind(w.Clusters()))
	failed := x.rec.Halt != nil && x.rec.Halt.By == "" && !p.Rollback
	switch {
	case current && failed && (left > 0 || p.underWay()):
		out.State, out.Since = WaveFailed, x.rec.Halt.At
	case current && left > 0:
		out.State, out.Since = WaveMoving, p.LastMove
		if !Holds(x.d.WaveGates) {
			out.Reason = firstClosed(x.d.WaveGates).String()
		}
	case left == 0:
		x.movedWaveState(w, current, out)
	}
}

// movedWaveState returns the state of a wave whose clusters have all moved.
func (x *decider) movedWaveState(w Wave, current bool, out *WaveProgress) {
	p, bake, moved := x.rec.Progress, x.bakeGate(w), x.waveTime(w.Name)
	switch {
	case moved != nil && bake.State == Green && (!moved.Healthy.IsZero() || p.Rollback || !p.underWay()):
		out.State, out.Since = WaveDone, moved.Moved
	case current && bake.State != Green:
		out.State, out.Reason, out.Since, out.Until = WaveBaking, bake.Reason, bake.Since, bake.Until
	case current && moved != nil:
		out.State, out.Since, out.Reason = WaveBaking, moved.Moved, firstClosed(x.healthGates()).String()
	}
}
