package rollout

import (
	"fmt"
	"slices"
)

// rollout continues the rollout under way, wave by wave.
type rollout struct {
	*facts
	rolloutGates *rolloutGates
}

// progress continues the waves of the current rollout. It returns the next move if its gates pass.
func (x *rollout) progress() (*Action, error) {
	p := x.rec.Progress
	if p == nil {
		return nil, nil
	}
	defer func() { x.d.Waves = x.waveProgress() }()
	if failed, err := x.failure(); failed || err != nil {
		return nil, err
	}
	if p.Rollback && x.s.Site == nil {
		if all := x.movable(x.behind(p.Changed)); len(all) > 0 {
			return &Action{
				Kind: MoveWave, Clusters: all, Source: p.Source,
				Reason: "a rollback moves all of its clusters at once",
			}, nil
		}
	}
	if x.s.Site != nil { // no branch of its clusters moves here
		if len(x.behind(x.names())) > 0 {
			x.d.WaveGates = []Gate{x.s.Site.movesGate(x.s.Now)}
		}
		return nil, nil
	}
	for i, w := range x.waves {
		for j, step := range w.Steps {
			next := x.behind(step)
			if len(next) == 0 {
				continue
			}
			x.d.WaveGates = append(x.rolloutGates.waveGates(i), x.rolloutGates.settleGate(w, j))
			if x.overtaken() && p.Current > 0 {
				x.d.WaveGates = append(x.d.WaveGates, Gate{
					Name: GateProgress, State: Waiting, Since: x.rec.Request.asked(),
					Reason: fmt.Sprintf("--now of %s comes first", x.rec.Request.Source),
				})
			}
			if free := x.movable(next); len(free) > 0 {
				next = free
			} else { // it does not move, and later steps wait
				x.d.WaveGates = append(x.d.WaveGates, Gate{
					Name: GateBranch, State: Red,
					Reason: x.clusters[next[0]].Foreign,
				})
			}
			if !Holds(x.d.WaveGates) {
				return nil, nil
			}
			return &Action{
				Kind: MoveWave, Wave: w.Name, Clusters: next, Source: p.Source, Overtakes: p.Now,
				By: p.NowBy, Reason: p.NowWhy,
			}, nil
		}
	}
	return nil, nil
}

// failure looks for red health during a rollout, and applies the environment's onFailure.
func (x *rollout) failure() (bool, error) {
	p := x.rec.Progress
	if !p.Done.IsZero() || p.Rollback || x.rec.Halt != nil || p.Current == 0 {
		return false, nil
	}
	if x.s.Site != nil && x.s.Site.Gate(x.s.Now).State != Green {
		return false, nil // what the statuses are about is not known
	}
	if x.overtaken() {
		return false, nil
	}
	gates := x.rolloutGates.healthGates()
	i := slices.IndexFunc(gates, func(g Gate) bool { return g.State == Red })
	if i < 0 {
		return false, nil
	}
	reason := fmt.Sprintf("%s failed: %s", p.Source, gates[i])
	x.d.WaveGates = gates
	if back, refused, err := x.takeBack(); back || err != nil {
		return true, err
	} else if refused != "" {
		reason += "; no workspace goes back alone: " + refused
	}
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

// overtaken reports whether a person asked, with --now, for another commit than the one that the rollout brings: a hotfix
// repairs what failed, and must not be stopped by the failure. Until it lands, what it replaces goes to no other wave: a
// failure that passes would leave no trace.
func (x *rollout) overtaken() bool {
	q := x.rec.Request
	return q != nil && q.Now && q.Renders == "" && !q.Source.Equal(x.rec.Progress.Source) && x.p.OnFailure != "rollback"
}

func (x *rollout) waveProgress() []WaveProgress {
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
		if !one.State.Over() {
			current = false
		}
		out = append(out, one)
	}
	return out
}

// waveState returns the state of a wave. current means that all earlier waves are complete. A wave is complete when
// it has moved, is healthy and has baked.
func (x *rollout) waveState(w Wave, current bool, out *WaveProgress) {
	p, left := x.rec.Progress, len(x.behind(w.Clusters()))
	failed := x.rec.Halt != nil && x.rec.Halt.By == "" && !p.Rollback
	switch {
	case current && failed && (left > 0 || p.underWay()):
		out.State, out.Since = WaveFailed, x.rec.Halt.At
	case current && left > 0:
		out.State, out.Since = WaveMoving, p.LastMove
		if !Holds(x.d.WaveGates) {
			out.Reason = firstClosed(x.d.WaveGates).brief()
		}
	case left == 0:
		x.movedWaveState(w, current, out)
	}
}

// movedWaveState returns the state of a wave whose clusters have all moved.
func (x *rollout) movedWaveState(w Wave, current bool, out *WaveProgress) {
	p, bake, moved := x.rec.Progress, x.rolloutGates.bakeGate(w), x.waveTime(w.Name)
	switch {
	case moved != nil && bake.State == Green && (!moved.Healthy.IsZero() || p.Rollback || !p.underWay()):
		out.State, out.Since = WaveDone, moved.Moved
		changed := func(cluster string) bool { return slices.Contains(p.Changed, cluster) }
		if p.Rollback && slices.ContainsFunc(w.Clusters(), changed) {
			out.State = WaveBack
		}
	case current && bake.State != Green:
		out.State, out.Reason, out.Since, out.Until = WaveBaking, bake.Reason, bake.Since, bake.Until
	case current && moved != nil:
		out.State, out.Since, out.Reason = WaveBaking, moved.Moved, firstClosed(x.rolloutGates.healthGates()).brief()
	}
}
