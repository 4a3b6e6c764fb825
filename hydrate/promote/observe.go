package promote

import (
	"slices"
	"time"
)

// observe puts what the branches and statuses say into the record. What a former run did and could not write down is
// found here: the branches are the truth, the record only remembers times.
func (x *decider) observe() error {
	if x.s.Running.Foreign == "" {
		if err := x.observeMove(); err != nil {
			return err
		}
	}
	if p := x.rec.Progress; p != nil && x.s.Running.Foreign == "" {
		if err := x.observeWaves(); err != nil {
			return err
		}
	}
	for _, b := range x.s.Before {
		if err := x.observeBefore(b); err != nil {
			return err
		}
	}
	return nil
}

func (x *decider) observeMove() error {
	run := x.s.Running
	if run.Tree == "" {
		return nil
	}
	q := x.rec.Request
	done := q != nil && x.order.knows(run.Source) && x.order.knows(q.Source) && x.order.contains(run.Source, q.Source, q.Apps)
	if p := x.rec.Progress; p == nil || p.Tree != run.Tree {
		// Where nothing is remembered, nobody knows which clusters moved of late: all of them are looked at.
		var changed []string
		behind := slices.ContainsFunc(x.s.Clusters, ClusterState.behind)
		for name, c := range x.clusters {
			if c.behind() || p == nil && behind {
				changed = append(changed, name)
			}
		}
		e := Event{Kind: EventMoved, Source: run.Source, Tree: run.Tree, Clusters: changed, Now: run.Overtakes, Restores: run.Restores}
		if err := x.emit(e); err != nil {
			return err
		}
	}
	if b := x.rec.Rollback; b != nil && b.whole() && b.Tree == run.Tree {
		if err := x.emit(Event{Kind: EventRolledBack}); err != nil {
			return err
		}
	}
	if h := x.hurry(); h != nil {
		if x.hurryGate(h).State != Green {
			return nil
		}
		if err := x.emit(Event{Kind: EventHurry, By: h.By, Reason: h.Reason}); err != nil {
			return err
		}
	}
	if done {
		return x.emit(Event{Kind: EventRequestDone})
	}
	return nil
}

func (x *decider) observeWaves() error {
	moved := len(x.movedClusters())
	if moved != x.rec.Progress.Current {
		if err := x.emit(Event{Kind: EventClusters, Current: moved}); err != nil {
			return err
		}
	}
	for _, w := range x.waves {
		if len(x.behind(w.Clusters())) > 0 {
			break
		}
		if x.waveTime(w.Name) == nil {
			if err := x.emit(Event{Kind: EventWave, Target: w.Name}); err != nil {
				return err
			}
		}
		if x.waveTime(w.Name).Healthy.IsZero() && Holds(x.healthGates()) {
			if err := x.emit(Event{Kind: EventWaveHealthy, Target: w.Name}); err != nil {
				return err
			}
		}
	}
	if !x.through() || !x.rec.Progress.Done.IsZero() {
		return nil
	}
	return x.emit(Event{Kind: EventDone})
}

// through says that all waves have moved and baked.
func (x *decider) through() bool {
	for _, w := range x.waves {
		if g := x.bakeGate(w); len(x.behind(w.Clusters())) > 0 || g.State != Green {
			return false
		}
	}
	return x.rec.Progress.Rollback || Holds(x.healthGates())
}

// behind are those of some clusters that are to move: not where they should be, and not frozen.
func (x *decider) behind(names []string) []string {
	var out []string
	for _, n := range names {
		if !x.frozen(n) && x.clusters[n].behind() {
			out = append(out, n)
		}
	}
	return out
}

// movedClusters are those that this promotion has moved.
func (x *decider) movedClusters() []ClusterState {
	var out []ClusterState
	for _, n := range x.rec.Progress.Changed {
		if c, ok := x.clusters[n]; ok && !c.behind() {
			out = append(out, c)
		}
	}
	return out
}

func (x *decider) waveTime(name string) *WaveTime {
	waves := x.rec.Progress.Waves
	if i := slices.IndexFunc(waves, func(w WaveTime) bool { return w.Name == name }); i >= 0 {
		return &waves[i]
	}
	return nil
}

// observeBefore watches an environment before this one.
func (x *decider) observeBefore(b Earlier) error {
	if b.Source.Empty() {
		return nil
	}
	w := x.rec.Before[b.Name]
	if w == nil || len(w.Ran) == 0 || !w.Ran[len(w.Ran)-1].Source.Equal(b.Source) {
		at := x.s.Now
		if w == nil && !b.Since.IsZero() && b.Since.Before(at) {
			at = b.Since
		}
		if err := x.emit(Event{Kind: EventBefore, Target: b.Name, Source: b.Source, At: at}); err != nil {
			return err
		}
		w = x.rec.Before[b.Name]
	}
	health := judge(x.p.Health, living(b.Clusters))
	now := w.Ran[len(w.Ran)-1]
	switch {
	case health.state == Red && !w.Red:
		return x.emit(Event{Kind: EventBeforeRed, Target: b.Name})
	case health.state == Green && w.Red:
		if err := x.emit(Event{Kind: EventBeforeNotRed, Target: b.Name}); err != nil {
			return err
		}
	}
	if health.state == Green && b.Complete && now.Healthy.IsZero() {
		at := time.Time{}
		if len(x.p.Health.CommitStatuses) == 0 {
			at = now.At // nobody is asked, so it was well from the beginning
		}
		return x.emit(Event{Kind: EventBeforeHealthy, Target: b.Name, At: at})
	}
	return nil
}

func living(clusters []ClusterState) []ClusterState {
	return slices.DeleteFunc(slices.Clone(clusters), func(c ClusterState) bool { return c.State == "retired" || c.State == "frozen" })
}
