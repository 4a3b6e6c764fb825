package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/rollout"
)

// setBack is prod's branch before somebody set it back.
type setBack struct {
	id, tip  string
	prod     tree
	restored []string
	restores bool
}

// setBackTo sets prod's branch to an earlier state, with force.
func (w *world) setBackTo() {
	ran := w.record.Ran
	to := w.past[w.r.IntN(len(w.past))]
	switch {
	case w.foreign || w.lost || to.Tree == w.id:
		return
	case len(ran) == 0 || ran[len(ran)-1].Tree != w.id: // no pass has seen the last move, so it cannot be missed
		return
	}
	w.was = &setBack{w.id, w.tip, w.prod, w.restored, w.restores}
	w.foreign = true
	w.id, w.prod, w.tip = to.Tree, w.trees[to.Tree], fmt.Sprintf("%s#%d", to.Tree, w.r.Uint32())
	w.done["set back"]++
	w.logf("somebody sets prod back to %s", to.Source)
}

// repair is what `sluice repair prod` does: it brings back what the branch had, or keeps what it has as a rollback.
func (w *world) repair(adopt bool) {
	was := w.was
	if was == nil || w.lost {
		return
	}
	repair := rollout.Event{Kind: rollout.EventRepair, By: "ann", Tip: w.tip}
	known := slices.ContainsFunc(w.record.Ran, func(p rollout.PastState) bool { return p.Tree == w.id })
	w.was, w.foreign = nil, false
	if !adopt || !known || w.record.Has(w.id) {
		w.id, w.prod, w.tip, w.restored, w.restores = was.id, was.prod, was.tip, was.restored, was.restores
		w.apply(repair)
		w.done["restored"]++
		w.logf("repair restores %s", w.prod.source)
		return
	}
	id, to := w.id, w.prod
	w.id, w.prod = was.id, was.prod // begin compares with what ran
	w.apply(repair)
	w.apply(rollout.Event{
		Kind: rollout.EventRollback, By: "ann", Reason: "adopted", Source: was.prod.source, Tree: was.id,
		To: rollout.PastState{Source: to.source, Tree: id},
	})
	w.wentBack(was.prod, to)
	w.begin(id, to, false, nil, true)
	w.history[len(w.history)-1].Back = &rollout.Rollback{To: to.source, Tree: id, By: "ann", Reason: "adopted", At: w.now}
	w.done["adopted"]++
	w.logf("repair adopts %s", to.source)
}

// wentBack remembers what a rollback of everything took back.
func (w *world) wentBack(old, next tree) {
	for _, m := range w.members {
		for app, version := range apps(next.subs[m.Name]) {
			key := m.Name + "/" + app
			if was := apps(old.subs[m.Name])[app]; was != version {
				if w.bad[key] == nil {
					w.bad[key] = map[string]bool{}
				}
				w.bad[key][was] = true
			}
			delete(w.bad[key], version)
		}
	}
}

// loseRecord deletes the record, or sets it back to an older one. Nothing moves until repairState.
func (w *world) loseRecord() {
	if w.lost || w.was != nil { // the two at once are beyond this model: nothing is left that tells of the first
		return
	}
	w.lost, w.declined, w.merged, w.forgotten = true, "", "", w.request
	if w.kept != nil && w.r.IntN(2) == 0 {
		w.record = *w.kept
		w.done["old record"]++
	} else {
		w.record = rollout.NewRecord("prod")
		w.done["lost record"]++
	}
	w.logf("the record is lost, version %d of it is left", w.record.Sequence)
}

// repairState is what `sluice repair state` does.
func (w *world) repairState() {
	if !w.lost {
		return
	}
	w.lost, w.repaired = false, true
	w.record = rollout.Rebuild(w.record, w.history, w.names(), 1_000_000, "ann", "lost", w.now)
	clear(w.ill)
	clear(w.recovered)
	w.done["rebuilt"]++
	w.logf("the record is rebuilt: holds %v", w.record.Holds)
}

// rewriteTrunk removes the newest commits of the trunk, and adds another one.
func (w *world) rewriteTrunk() {
	if len(w.trunk) < 2 || w.lost || w.record.Rollback != nil {
		return
	}
	w.forgetPassed()
	keep := max(1, len(w.trunk)-1-w.r.IntN(3))
	w.logf("the trunk is rewritten: without %v", w.trunk[keep:])
	w.trunk = slices.Clone(w.trunk[:keep])
	w.commit(false)
	w.stage()
	w.done["rewritten trunk"]++
}

// forgetPassed forgets what went back and is not held any more, because a newer commit was promoted: the trunk may lose
// that commit, and a promotion then goes back behind it.
func (w *world) forgetPassed() {
	for key := range w.bad {
		cluster, app, _ := strings.Cut(key, "/")
		maps.DeleteFunc(w.bad[key], func(version string, _ bool) bool {
			return !slices.ContainsFunc(w.record.Holds, func(h rollout.Hold) bool {
				return (len(h.Clusters) == 0 || slices.Contains(h.Clusters, cluster)) &&
					(len(h.Apps) == 0 || slices.Contains(h.Apps, app)) && apps(w.trees[h.Tree].subs[cluster])[app] == version
			})
		})
	}
}

// setClock sets the clock of the machine back. To set it forward is to let time pass.
func (w *world) setClock() {
	by := time.Duration(w.r.IntN(90)) * time.Minute
	w.now, w.behind = w.now.Add(-by), w.behind+by
	w.logf("the clock is set back by %s", by)
	w.done["clock"]++
}

// elapsed is the time of a clock that nobody sets. The bake times that the checks demand are measured with it.
func (w *world) elapsed() time.Time { return w.now.Add(w.behind) }

// onTrunk reports whether the trunk has everything that a wave brings to a cluster.
func (w *world) onTrunk(cluster string) error {
	before, next := apps(w.clusters[cluster]), w.prod.source.On(cluster)
	for app, version := range apps(w.prod.subs[cluster]) {
		if before[app] != version && !slices.Contains(w.trunk, next.Of(app)) {
			return fmt.Errorf("%s of %s comes from %s, which is not on the trunk", app, cluster, next.Of(app))
		}
	}
	return nil
}

// allOnTrunk reports whether the trunk has all commits of a source.
func (w *world) allOnTrunk(s rollout.Source) bool {
	return !slices.ContainsFunc(s.Commits(), func(c string) bool { return !slices.Contains(w.trunk, c) })
}

// trunkGate checks that the gate trunk is red only if a wave would bring what is not on the trunk.
func (w *world) trunkGate(d rollout.Decision) error {
	i := slices.IndexFunc(d.WaveGates, func(g rollout.Gate) bool { return g.Name == rollout.GateTrunk && g.State == rollout.Red })
	if p := d.Record.Progress; i < 0 || p == nil || p.From == "" { // nobody knows what all clusters ran before
		return nil
	}
	for _, m := range w.members {
		before, next := w.provenance[m.Name], w.prod.source.On(m.Name)
		for _, app := range append([]string{""}, w.apps...) {
			if c := next.Of(app); c != before.Of(app) && !slices.Contains(w.trunk, c) {
				return nil
			}
		}
	}
	return fmt.Errorf("the gate trunk is red, and no wave brings what is not on the trunk: %s", d.WaveGates[i].Reason)
}
