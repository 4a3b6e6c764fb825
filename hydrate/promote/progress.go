package promote

import (
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
)

// progress goes on with the waves of the promotion that runs. It returns the next move, if its gates hold.
func (x *decider) progress() (*Action, error) {
	p := x.rec.Progress
	if p == nil {
		return nil, nil
	}
	if failed, err := x.failure(); failed || err != nil {
		x.d.Waves = x.waveProgress()
		return nil, err
	}
	defer func() { x.d.Waves = x.waveProgress() }()
	if p.Rollback {
		if all := x.movable(x.behind(p.names(x))); len(all) > 0 {
			return &Action{Kind: MoveWave, Clusters: all, Source: p.Source, Reason: "a rollback moves all at once"}, nil
		}
		return nil, nil
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
			} else { // it stays where it is, and what comes after it waits
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

// names are all clusters, by name.
func (*Progress) names(x *decider) []string {
	var out []string
	for _, w := range x.waves {
		out = append(out, w.Clusters()...)
	}
	slices.Sort(out)
	return out
}

// failure looks for red health while a promotion goes on, and does what the environment's onFailure says.
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
	reason := fmt.Sprintf("%s went wrong: %s", p.Source, gates[i])
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

// previous is the last state before this one that has not failed.
func (x *decider) previous() (Ran, bool) {
	for _, r := range slices.Backward(x.rec.Ran) {
		failed := slices.ContainsFunc(x.rec.Failed, func(f Failed) bool { return f.Source.Equal(r.Source) })
		if r.Tree != x.s.Running.Tree && r.Tree != "" && !failed {
			return r, true
		}
	}
	return Ran{}, false
}

// waveGates are those of the next move of clusters of wave i.
func (x *decider) waveGates(i int) []Gate {
	p := x.rec.Progress
	gates := append([]Gate{x.haltGate()}, x.timeGates(p.Now)...)
	gates = append(gates, x.healthGates()...)
	for _, w := range x.waves[:i] {
		if x.idle(w) && !p.Now {
			return append(gates, Gate{
				Name: GateBake, State: Waiting, Reason: fmt.Sprintf("wave %s proves nothing: all of its clusters are frozen; unfreeze one, or promote with --now", w.Name),
			})
		}
		if g := x.bakeGate(w); g.State != Green {
			return append(gates, g)
		}
	}
	return append(gates, Gate{Name: GateBake, State: Green})
}

// idle says that a wave has something to do and nobody to do it: all of its clusters are frozen, and stay behind.
func (x *decider) idle(w Wave) bool {
	names := w.Clusters()
	return len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return !x.frozen(n) || !x.clusters[n].behind() })
}

// movable are those whose branches are Sluice's to move.
func (x *decider) movable(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return x.clusters[n].Foreign != "" })
}

// settleGate keeps the steps of a wave apart. Health does that where somebody is asked for it; without, time must.
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
		g.Reason = fmt.Sprintf("the clusters that moved last settle until %s", stamp(until))
	}
	return g
}

// healthGates are statuses and checks, of what has moved so far.
func (x *decider) healthGates() []Gate {
	p := x.rec.Progress
	moved := x.movedClusters()
	if len(moved) == 0 {
		return nil
	}
	h := judge(x.p.Health, moved)
	return append([]Gate{{Name: GateHealth, State: h.state, Reason: h.reason, Since: p.LastMove}}, checks(x.s, p.LastMove)...)
}

// bakeGate says whether a wave has held for long enough.
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
			g.State, g.Reason = Waiting, fmt.Sprintf("wave %s bakes until %s", w.Name, stamp(g.Until))
		}
	}
	return g
}

func (x *decider) haltGate() Gate {
	h := x.rec.Halt
	if h == nil {
		return Gate{Name: GateHalt, State: Green}
	}
	who := "health"
	if h.By != "" {
		who = h.By
	}
	return Gate{
		Name: GateHalt, State: Red, Since: h.At,
		Reason: fmt.Sprintf("halted by %s: %s; /sluice resume %s lets it go on", who, h.Reason, x.s.Environment.Name),
	}
}

// timeGates are freezes and windows. Overtaking leaves out the windows that allow: freezes and what denies still win.
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
	p := x.rec.Progress
	out := make([]WaveProgress, 0, len(x.waves))
	current := true // the waves before are through
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
		bake := x.bakeGate(w)
		switch left := len(x.behind(w.Clusters())); {
		case current && left > 0 && x.rec.Halt != nil && x.rec.Halt.By == "":
			one.State, one.Reason = WaveFailed, x.rec.Halt.Reason
		case current && left > 0:
			one.State, one.Since = WaveMoving, p.LastMove
			if !Holds(x.d.WaveGates) {
				one.Reason = firstClosed(x.d.WaveGates).String()
			}
		case left == 0 && bake.State == Green && x.waveTime(w.Name) != nil:
			one.State, one.Since = WaveDone, x.waveTime(w.Name).Moved
		case left == 0 && current:
			one.State, one.Reason, one.Since, one.Until = WaveBaking, bake.Reason, bake.Since, bake.Until
		}
		if one.State != WaveDone {
			current = false
		}
		out = append(out, one)
	}
	return out
}
