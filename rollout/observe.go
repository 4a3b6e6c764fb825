package rollout

import (
	"slices"
	"time"
)

// observer turns what happened since the last call into events of the record.
type observer struct {
	*facts
	agreement    *agreement
	rolloutGates *rolloutGates
	upstreams    *upstreams
}

// observe records the state of branches and statuses. It also finds actions of an earlier run that were not recorded:
// the branches are authoritative, and the record only adds times.
func (x *observer) observe() error {
	if x.s.Running.Foreign == "" {
		for _, step := range []func() error{x.observeMove, x.observeHolds, x.observeRequest, x.observeWaves} {
			if err := step(); err != nil {
				return err
			}
		}
	}
	for _, b := range x.s.Before {
		if err := x.observeUpstream(b); err != nil {
			return err
		}
	}
	if x.s.Running.Foreign != "" || x.takingBack() || !x.upstreams.arrivedWithout(x.rec.Request) {
		return nil
	}
	return x.emit(Event{Kind: EventRequestDone})
}

func (x *observer) observeMove() error {
	run := x.s.Running
	if run.Tree == "" {
		return nil
	}
	q := x.rec.Request
	done := q != nil && x.order.knows(run.Source) && x.order.knows(q.Source) &&
		x.order.contains(run.Source, q.Source, q.Apps)
	if q != nil && q.Renders != "" {
		done = q.Renders != run.Commit // it was rendered, or something else was brought since
	}
	if x.takingBack() {
		return nil
	}
	if err := x.observeTree(); err != nil {
		return err
	}
	if b := x.rec.Rollback; b != nil && b.everywhere() && b.Tree == run.Tree {
		if err := x.emit(Event{Kind: EventRolledBack}); err != nil {
			return err
		}
	}
	if h := x.expediting(); h != nil {
		if x.agreement.expediteGate(h).State != Green {
			return nil
		}
		if err := x.emit(Event{Kind: EventExpedited, By: h.By, Reason: h.Reason}); err != nil {
			return err
		}
	}
	if !done {
		return nil
	}
	// no newer commit passes one that the trunk lost; where its content is known, another commit may have the same
	if err := x.endHolds(func(h Hold) bool {
		return !x.order.knows(h.Source) && !h.Since.After(q.At) && len(q.Apps) == 0 && q.Renders == "" && h.Tree == ""
	}); err != nil {
		return err
	}
	return x.emit(Event{Kind: EventRequestDone})
}

// observeTree begins a new rollout if the environment branch has another tree.
func (x *observer) observeTree() error {
	run, p, b := x.s.Running, x.rec.Progress, x.rec.Rollback
	if p != nil && p.Tree == run.Tree {
		return nil
	}
	if b != nil && b.Continues != "" {
		if err := x.emit(Event{
			Kind:   EventRollbackDropped,
			Reason: "the environment branch moved meanwhile",
		}); err != nil {
			return err
		}
	}
	return x.emit(Event{
		Kind: EventMoved, Source: run.Source, Tree: run.Tree, From: x.settled(), Clusters: x.toMove(),
		Now: run.Overtakes, Restores: run.Restores, First: run.First && x.unused(), Renders: run.Renders,
	})
}

// observeHolds ends holds, for each app that the environment runs at the held commit or a newer one on all of the
// hold's clusters.
func (x *observer) observeHolds() error {
	if x.rec.Rollback != nil || len(x.rec.Holds) == 0 {
		return nil
	}
	runs := x.s.Running.Source
	if !x.order.knows(runs) {
		return nil
	}
	var left []Hold
	changed := false
	for _, h := range x.rec.Holds {
		scope := h.Clusters
		if len(scope) == 0 {
			scope = x.names()
		}
		passed := func(apps []string) bool {
			return x.order.knows(h.Source) && !slices.ContainsFunc(scope,
				func(c string) bool { return !x.order.includes(runs.On(c), h.Source.On(c), apps) })
		}
		rest := slices.DeleteFunc(slices.Clone(h.Apps), func(app string) bool { return passed([]string{app}) })
		switch {
		case len(h.Apps) == 0 && passed(nil), len(h.Apps) > 0 && len(rest) == 0:
			changed = true
			continue
		case len(rest) < len(h.Apps):
			changed, h.Apps = true, rest
		}
		left = append(left, h)
	}
	if !changed {
		return nil
	}
	return x.emit(Event{Kind: EventHolds, Holds: left})
}

// endHolds drops the holds for which over returns true.
func (x *observer) endHolds(over func(Hold) bool) error {
	left := slices.DeleteFunc(slices.Clone(x.rec.Holds), over)
	if len(left) == len(x.rec.Holds) {
		return nil
	}
	return x.emit(Event{Kind: EventHolds, Holds: left})
}

// observeRequest follows the merge request of a promotion. If it is neither open nor merged, a person closed it:
// Sluice does not offer that commit again without a newer commit or a command.
func (x *observer) observeRequest() error {
	if !x.s.RequestKnown || x.mode() != modeRequest {
		return nil
	}
	open, last := x.s.Request, x.rec.Opened
	switch {
	case open != nil && open.Tree != "" && (!last.Is(open.Tree) || !last.Source.Equal(open.Source)):
		return x.emit(Event{Kind: EventOpened, Source: open.Source, Tree: open.Tree})
	case open != nil || last == nil:
		return nil
	case last.Tree == x.s.Running.Tree || x.order.contains(x.s.Running.Source, last.Source, nil):
		return x.emit(Event{Kind: EventClosed})
	default:
		return x.emit(Event{Kind: EventDeclined})
	}
}

func (x *observer) observeWaves() error {
	if x.rec.Progress == nil || x.takingBack() {
		return nil
	}
	if site := x.s.Site; site != nil && site.Gate(x.s.Now).State != Green {
		return nil
	}
	moved := len(x.movedClusters())
	if moved != x.rec.Progress.Current {
		if err := x.emit(Event{Kind: EventClusters, Current: moved, At: x.movedAt()}); err != nil {
			return err
		}
	}
	for _, w := range x.waves {
		if len(x.behind(w.Clusters())) > 0 {
			break
		}
		if x.waveTime(w.Name) == nil {
			if err := x.emit(Event{Kind: EventWave, Target: w.Name, At: x.movedAt()}); err != nil {
				return err
			}
		}
		if x.waveTime(w.Name).Healthy.IsZero() && Holds(x.rolloutGates.healthGates()) {
			if err := x.emit(Event{Kind: EventWaveHealthy, Target: w.Name, At: x.movedAt()}); err != nil {
				return err
			}
		}
	}
	if !x.rolloutGates.complete() || !x.rec.Progress.Done.IsZero() {
		return nil
	}
	var frozen []string
	for _, name := range x.names() {
		if x.clusters[name].behind() {
			frozen = append(frozen, name)
		}
	}
	return x.emit(Event{Kind: EventDone, Clusters: frozen, At: x.movedAt()})
}

// movedAt returns when clusters were seen to have moved in the current rollout. A receipt may be older than it, if they
// had before what it brings.
func (x *observer) movedAt() time.Time { return later(x.rec.Progress.Started, x.s.Site.seen(x.s.Now)) }

// observeUpstream follows an upstream environment.
func (x *observer) observeUpstream(b Upstream) error {
	w, seen := x.rec.Before[b.Name], b.Site.seen(x.s.Now)
	if b.Site != nil && b.Site.Contradicts != "" && w != nil && len(w.Ran) > 0 && !w.Red {
		// whatever ran there, its bake starts again
		return x.emit(Event{Kind: EventBeforeRed, Target: b.Name, At: seen})
	}
	if b.Source.Empty() {
		return nil
	}
	if w == nil || len(w.Ran) == 0 || !w.Ran[len(w.Ran)-1].Source.Equal(b.Source) {
		at := seen
		if (w == nil || b.Site != nil) && !b.Since.IsZero() && b.Since.Before(at) {
			at = b.Since
		}
		if err := x.emit(Event{
			Kind: EventBefore, Target: b.Name, Source: b.Source, At: at,
			Forgets: x.upstreams.forgettable(b.Name),
		}); err != nil {
			return err
		}
	}
	health := x.upstreams.health(b)
	if err := x.observeWorkspaces(b, health.red); err != nil {
		return err
	}
	w = x.rec.Before[b.Name]
	now := w.Ran[len(w.Ran)-1]
	switch {
	case health.state == Red && !w.Red:
		return x.emit(Event{Kind: EventBeforeRed, Target: b.Name, At: seen})
	case health.state == Green && w.Red:
		if err := x.emit(Event{Kind: EventBeforeNotRed, Target: b.Name, At: seen}); err != nil {
			return err
		}
	}
	if health.state == Green && b.Complete && !b.idle() && now.Healthy.IsZero() {
		at := seen
		if b.Site != nil {
			if b.Site.Healthy.IsZero() {
				return nil // its waves are not complete
			}
			at = later(now.At, b.Site.Healthy)
		} else if len(x.p.Health.CommitStatuses) == 0 {
			at = now.At // without statuses, it counts as healthy from the beginning
		}
		return x.emit(Event{Kind: EventBeforeHealthy, Target: b.Name, At: at})
	}
	return nil
}

// observeWorkspaces records which workspaces of an upstream environment are red.
func (x *observer) observeWorkspaces(b Upstream, red []string) error {
	was := x.upstreams.recordedRed(b.Name)
	var passed []string
	for name, h := range x.rec.Before[b.Name].Workspaces {
		since := h.Since
		if h.Red {
			since = x.s.Now
		}
		if !slices.Contains(red, name) && x.upstreams.passed(b.Name, name, since) {
			passed = append(passed, name)
		}
	}
	if slices.Equal(red, was) && len(passed) == 0 {
		return nil
	}
	return x.emit(Event{
		Kind: EventBeforeAlone, Target: b.Name, Workspaces: red, Passed: sorted(passed),
		At: x.asOf(b.Name),
	})
}

func living(clusters []ClusterState) []ClusterState {
	return slices.DeleteFunc(slices.Clone(clusters), func(c ClusterState) bool {
		return c.State == "retired" ||
			c.State == "frozen"
	})
}
