package rollout_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/rollout"
)

// decidesAlike checks that an immediate second decision is the same and observes nothing new.
func (w *world) decidesAlike(s rollout.Situation, d rollout.Decision) error {
	s.Record = d.Record
	again, err := rollout.Decide(s)
	if err != nil {
		return err
	}
	failing := slices.ContainsFunc(d.Actions, func(a rollout.Action) bool { return a.Kind == rollout.DoHalt })
	request := d.Proposal == nil || again.Proposal != nil
	if len(again.Events) != 0 || !failing && request && !reflect.DeepEqual(again.Actions, d.Actions) {
		return fmt.Errorf("a second decision differs: %+v and %+v, events %+v after %+v", d.Actions, again.Actions,
			again.Events, d.Events)
	}
	return nil
}

// bringsBack checks invariant 3: Sluice promotes a held commit only when somebody asks for it.
func (w *world) bringsBack(next tree) error {
	for _, m := range w.members {
		have := apps(w.prod.subs[m.Name])
		for app, version := range apps(next.subs[m.Name]) {
			if have[app] != version && w.bad[m.Name+"/"+app][version] {
				return fmt.Errorf("%s of %s comes back to %s, and nobody asked for it; holds %v", app, version, m.Name,
					w.record.Holds)
			}
		}
	}
	return nil
}

// mayPromote checks a move of prod against the state of the simulated world, not against the record.
func (w *world) mayPromote(s rollout.Situation, a rollout.Action) error {
	at := func(c string) int { return slices.Index(w.trunk, c) }
	old := w.prod.source
	for _, m := range w.members {
		for _, app := range append([]string{""}, w.apps...) {
			if at(a.Source.On(m.Name).Of(app)) < at(old.On(m.Name).Of(app)) {
				return fmt.Errorf("app %q of %s goes back from %s to %s", app, m.Name, old.On(m.Name).Of(app),
					a.Source.On(m.Name).Of(app))
			}
		}
		if len(a.Apps) > 0 && a.Source.On(m.Name).Commit != old.On(m.Name).Commit {
			return fmt.Errorf("a promotion of some apps moves all")
		}
	}
	if a.Tree != s.Candidate.Tree || s.Candidate.Policy != rollout.Green {
		return fmt.Errorf("the tree is not the one that was checked")
	}
	if err := w.mayMove(a.Overtakes); err != nil {
		return err
	}
	if a.Overtakes != (s.Record.Request != nil && s.Record.Request.Now) && a.Overtakes {
		return fmt.Errorf("nobody asked to overtake")
	}
	if n := w.env.Promotion.Approvers.Count; n > 0 {
		for _, p := range s.Record.Approvals {
			if p.Tree == a.Tree && p.By != "author" {
				n--
			}
		}
		if n > 0 {
			return fmt.Errorf("%d approvals of %s are missing", n, a.Tree)
		}
	}
	if a.Overtakes {
		return nil
	}
	return w.hasBaked(s, a)
}

// hasBaked checks that staging has run the promoted source, healthy, for its bake.
func (w *world) hasBaked(s rollout.Situation, a rollout.Action) error {
	at := func(c string) int { return slices.Index(w.trunk, c) }
	wanted := a.Source.Commit
	if a.By != "" && s.Record.Request != nil {
		wanted = s.Record.Request.Source.Commit
	}
	since := time.Time{} // start of the unbroken time in which staging's states contain the promoted source
	for _, r := range slices.Backward(w.stagingLog) {
		if at(r.source.Commit) < at(wanted) {
			break
		}
		since = r.at
	}
	if w.stagingRed.After(since) {
		since = w.stagingRed
	}
	if w.elapsed().Sub(since) < w.bake() || w.allRed() || since.IsZero() {
		return fmt.Errorf("staging has it, in health, since %s only", since)
	}
	return nil
}

// bake is the bake time of prod's promotions.
func (w *world) bake() time.Duration {
	if w.env.Promotion.Bake == "" {
		return 0
	}
	d, err := w.env.Promotion.Bake.Parse()
	if err != nil {
		panic(err)
	}
	return d
}

func (w *world) mayMove(overtakes bool) error {
	if w.record.Halt != nil {
		return fmt.Errorf("it is halted")
	}
	for _, f := range w.record.Freezes {
		if f.Target == "" && f.Holds(w.now) {
			return fmt.Errorf("it is frozen")
		}
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		return err
	}
	if h := w.now.In(berlin).Hour(); len(w.env.Promotion.Windows) > 0 && !overtakes && (h < 8 || h >= 20) {
		return fmt.Errorf("no window is open")
	}
	return nil
}

// skips reports whether the rollout under way skips windows and bakes, because somebody asked for it with --now.
func (w *world) skips() bool { return w.overtakes || w.expedited }

func (w *world) mayMoveWave(a rollout.Action, frozen func(string) bool) error {
	overtakes := w.skips()
	if err := w.mayMove(overtakes); err != nil {
		return err
	}
	waves, err := rollout.Waves(w.env, w.members)
	if err != nil {
		return err
	}
	for _, v := range waves {
		if v.Name == a.Wave {
			break
		}
		var last time.Time
		for _, name := range v.Clusters() {
			if w.clusters[name] != w.prod.subs[name] && !frozen(name) {
				return fmt.Errorf("%s of the wave %s before is behind", name, v.Name)
			}
			// the end of a freeze does not restart a bake
			if w.changed[name] && w.movedAt[name].After(last) && !w.wasFrozen[name] {
				last = w.movedAt[name]
			}
		}
		if !overtakes && !w.restores && last.After(w.progress) && w.elapsed().Sub(last) < v.Bake {
			return fmt.Errorf("wave %s has moved at %s, and bakes", v.Name, last)
		}
	}
	return w.healthyMoves()
}

// healthyMoves checks that the clusters that have moved are healthy.
func (w *world) healthyMoves() error {
	for name := range w.changed {
		if w.clusters[name] == w.prod.subs[name] && (w.red[name] || w.pending[name] || w.redApp(name) != "") &&
			!w.restores {
			return fmt.Errorf("%s has moved, and is not healthy", name)
		}
	}
	return nil
}

// arrive lets everything be healthy, and checks invariant 4: the environment arrives. In half of the histories nobody
// ends a hold: a commit that changes every app must end them.
func (w *world) arrive() error {
	w.r = rand.New(rand.NewPCG(1, 1))
	w.broken, w.sick = map[string]bool{}, map[string]string{}
	w.repairState()
	w.repair(false)
	w.red, w.pending, w.isRed, w.foreign = map[string]bool{}, map[string]bool{}, false, false
	for i := range w.members {
		w.members[i].State = ""
	}
	w.commit(true)
	w.stage()
	w.declined = ""
	for _, target := range append([]string{""}, w.names()...) {
		w.apply(rollout.Event{Kind: rollout.EventUnfreeze, Target: target})
	}
	for i := range 200 {
		w.now = w.now.Add(45 * time.Minute)
		// a request for what the trunk lost, or for what was held since, waits for a person
		if q := w.record.Request; q != nil && (i == 60 || !slices.Contains(w.trunk, q.Source.Commit)) {
			w.apply(rollout.Event{Kind: rollout.EventCancel, By: "ann"})
		}
		if q := w.record.Request; !w.allOnTrunk(w.prod.source) && (q == nil || !q.Source.Equal(w.staging)) { // what the gates branch and trunk say
			w.apply(rollout.Event{
				Kind: rollout.EventPromote, By: "ann", Source: w.staging, Now: true, Reason: "rewritten", Again: "rewritten",
			})
		}
		if w.record.Halt != nil {
			w.apply(rollout.Event{Kind: rollout.EventResume, By: "ann"})
		}
		s, err := w.situation()
		if err != nil {
			return err
		}
		if s.Candidate != nil {
			w.apply(rollout.Event{
				Kind: rollout.EventApprove, By: "ann", Teams: []string{"sre"},
				Tree: s.Candidate.Tree,
			})
			w.apply(rollout.Event{
				Kind: rollout.EventApprove, By: "bob", Teams: []string{"sre"},
				Tree: s.Candidate.Tree,
			})
		}
		if w.env.Promotion.Mode == "manual" && s.Record.Request == nil && !w.prod.source.Equal(w.staging) {
			w.apply(rollout.Event{Kind: rollout.EventPromote, By: "ann", Source: w.staging})
		}
		if w.request != nil {
			w.merge()
		}
		if err := w.reconcile(false); err != nil {
			return err
		}
		w.pending = map[string]bool{}
		behind := slices.ContainsFunc(w.members,
			func(c rollout.Cluster) bool { return w.clusters[c.Name] != w.prod.subs[c.Name] })
		if w.prod.source.Equal(w.staging) && !behind {
			w.done["arrived"]++
			return w.invariants()
		}
	}
	s, err := w.situation()
	if err != nil {
		return err
	}
	d, err := rollout.Decide(s)
	return errors.Join(err, fmt.Errorf("prod never arrives at %s: runs %s, waits for %q, gates %v, waves %v, holds %v, request %v", w.staging, w.prod.source, d.WaitsFor, d.Gates, d.WaveGates, w.record.Holds, w.record.Request))
}
