package promote_test

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// happen is one thing that the world does.
func (w *world) happen() {
	w.now = w.now.Add(time.Duration(w.r.IntN(25)) * time.Minute)
	cluster := w.members[w.r.IntN(len(w.members))].Name
	target := pick(w.r, "", cluster)
	switch w.r.IntN(20) {
	case 0, 1, 2:
		w.commit()
		w.stage()
	case 3:
		w.isRed = !w.isRed
		w.logf("staging red: %v", w.isRed)
	case 4:
		if w.r.IntN(2) == 0 {
			w.red[cluster] = true
			w.logf("%s red", cluster)
		}
	case 5, 6:
		clear(w.red)
		clear(w.pending)
	case 7:
		w.wasFrozen[target] = true
		ok := w.apply(promote.Event{Kind: promote.EventFreeze, By: "ann", Reason: "fair", Target: target, Until: w.now.Add(time.Hour)})
		w.logf("freeze %q: %v", target, ok)
	case 8:
		w.logf("unfreeze %q: %v", target, w.apply(promote.Event{Kind: promote.EventUnfreeze, Target: target}))
	case 9:
		w.logf("halt: %v", w.apply(promote.Event{Kind: promote.EventHalt, By: "ann", Reason: "look"}))
	case 10, 11:
		w.logf("resume: %v", w.apply(promote.Event{Kind: promote.EventResume, By: "ann"}))
	case 12, 13:
		w.ask()
	case 14:
		w.goBack(cluster)
	case 15, 16:
		if s, err := w.situation(); err == nil && s.Candidate != nil {
			by := pick(w.r, "ann", "bob", "author")
			w.logf("%s approves %s: %v", by, s.Candidate.Tree, w.apply(promote.Event{Kind: promote.EventApprove, By: by, Teams: []string{"sre"}, Tree: s.Candidate.Tree}))
		}
	case 17:
		if w.request != nil {
			w.merge()
		}
	case 18:
		w.foreign = !w.foreign && w.r.IntN(2) == 0
		w.logf("foreign: %v", w.foreign)
	case 19:
		if w.r.IntN(8) == 0 {
			w.record, w.lost = promote.NewRecord("prod"), true
			w.done["lost record"]++
			w.logf("the record is lost")
		}
	}
}

func (w *world) ask() {
	e := promote.Event{Kind: promote.EventPromote, By: "ann", Source: promote.Source{Commit: w.trunk[w.r.IntN(len(w.trunk))]}, Reason: "hotfix", Now: w.r.IntN(3) == 0}
	if w.r.IntN(3) == 0 {
		e.Apps = []string{pick(w.r, "a", "b")}
	}
	ok := w.apply(e)
	if ok {
		w.failed = nil
		w.now_ = w.now_ || e.Now && len(e.Apps) == 0 && w.prod.tree.source.Equal(e.Source) // what is on its way hurries
	}
	w.logf("promote %s %v now=%v: %v", e.Source, e.Apps, e.Now, ok)
}

func (w *world) goBack(cluster string) {
	s, err := w.situation()
	if err != nil || len(s.Record.Ran) == 0 {
		return
	}
	to := s.Record.Ran[w.r.IntN(len(s.Record.Ran))]
	e := promote.Event{Kind: promote.EventRollback, By: "ann", Source: w.prod.tree.source, To: to, Reason: "bad"}
	switch w.r.IntN(4) {
	case 0:
		e.Clusters = []string{cluster}
	case 1:
		e.Apps = []string{"a"}
	}
	w.logf("rollback to %s %v %v: %v", to.Source, e.Clusters, e.Apps, w.apply(e))
}

// reconcile is one pass: decide, store, act; or only a part of that, as when a run is cut off.
func (w *world) reconcile(hostile bool) error {
	for range 3 {
		s, err := w.situation()
		if err != nil {
			return err
		}
		d, err := promote.Decide(s)
		if err != nil {
			return err
		}
		if err := w.settled(s, d); err != nil {
			return err
		}
		cut := hostile && w.r.IntN(12) == 0
		if cut && w.r.IntN(2) == 0 {
			w.done["cut off"]++
			return nil // nothing is done before the record is stored
		}
		w.store(d.Record)
		if w.isRed { // what nobody saw, nobody knows
			w.stagingRed = w.now
		}
		for _, a := range d.Actions {
			if cut && w.r.IntN(2) == 0 {
				w.done["cut off"]++
				return nil
			}
			if err := w.act(s, d, a); err != nil {
				return fmt.Errorf("%+v: %w", a, err)
			}
		}
		if d.Actions[0].Kind == promote.Nothing {
			return nil
		}
	}
	return nil
}

// settled looks whether a decision, made again at once, is the same and sees nothing new.
func (w *world) settled(s promote.Situation, d promote.Decision) error {
	s.Record = d.Record
	again, err := promote.Decide(s)
	if err != nil {
		return err
	}
	failing := slices.ContainsFunc(d.Actions, func(a promote.Action) bool { return a.Kind == promote.DoHalt })
	request := d.Wants == nil || again.Wants != nil
	if len(again.Events) != 0 || !failing && request && !reflect.DeepEqual(again.Actions, d.Actions) {
		return fmt.Errorf("a second decision differs: %+v and %+v, events %+v after %+v", d.Actions, again.Actions, again.Events, d.Events)
	}
	return nil
}

func (w *world) act(s promote.Situation, d promote.Decision, a promote.Action) error {
	if a.Base != w.prod.tip {
		w.done["lost swap"]++
		return nil
	}
	if w.foreign && a.Kind != promote.Nothing {
		return fmt.Errorf("it acts on somebody else's commit")
	}
	w.done[string(a.Kind)]++
	if a.Kind != promote.Nothing {
		w.logf("%s %s %s%v%v", a.Kind, a.Source, a.Tree, a.Clusters, a.Apps)
	}
	switch a.Kind {
	case promote.MoveEnvironment:
		if err := w.mayPromote(s, a); err != nil {
			return err
		}
		if a.Overtakes {
			w.done["overtaken"]++
		}
		if len(a.Apps) > 0 {
			w.done["partial"]++
		}
		if w.r.IntN(15) == 0 { // somebody was faster
			w.prod.tip += "'"
			w.done["lost swap"]++
			return nil
		}
		w.begin(a.Tree, w.trees[a.Tree], a.Overtakes, false)
	case promote.OpenRequest:
		w.request = &promote.MergeRequest{Source: a.Source, Tree: a.Tree}
	case promote.CloseRequest:
		w.request = nil
	case promote.MoveWave:
		return w.moveWave(d, a)
	case promote.DoHalt:
		w.failed = append(w.failed, w.prod.tree.source)
	case promote.DoRollback:
		w.back(d, a)
	}
	return nil
}

// mayPromote holds a move of prod against what the world knows, not what the record says.
func (w *world) mayPromote(s promote.Situation, a promote.Action) error {
	at := func(c string) int { return slices.Index(w.trunk, c) }
	old := w.prod.tree.source
	for _, app := range []string{"", "a", "b"} {
		if at(a.Source.Of(app)) < at(old.Of(app)) {
			return fmt.Errorf("app %q goes back from %s to %s", app, old.Of(app), a.Source.Of(app))
		}
	}
	if len(a.Apps) > 0 && a.Source.Commit != old.Commit {
		return fmt.Errorf("a promotion of some apps moves all")
	}
	if a.Tree != s.Candidate.Tree || s.Candidate.Policy != promote.Green {
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
	if a.By == "" && slices.ContainsFunc(w.failed, func(f promote.Source) bool { return f.Equal(a.Source) }) && !w.lost {
		return fmt.Errorf("%s failed before", a.Source)
	}
	if a.Overtakes {
		return nil
	}
	asked := s.Record.Request
	since := time.Time{} // of the oldest of staging's states without a gap until now that hold what is promoted
	for _, r := range slices.Backward(w.stagingLog) {
		wanted := a.Source.Commit
		if asked != nil {
			wanted = asked.Source.Commit
		}
		if at(r.source.Commit) < at(wanted) {
			break
		}
		since = r.at
	}
	if w.stagingRed.After(since) {
		since = w.stagingRed
	}
	if bake, _ := w.env.Promotion.Bake.Parse(); w.env.Promotion.Bake != "" && w.now.Sub(since) < bake || w.isRed || since.IsZero() {
		return fmt.Errorf("staging has it, in health, since %s only", since)
	}
	return nil
}

func (w *world) mayMove(overtakes bool) error {
	record := w.record
	if record.Halt != nil {
		return fmt.Errorf("it is halted")
	}
	for _, f := range record.Freezes {
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

// moveWave holds a move of clusters against what the world knows, and does it.
func (w *world) moveWave(d promote.Decision, a promote.Action) error {
	frozen := func(name string) bool {
		for _, f := range d.Record.Freezes {
			if f.Target == name && f.Holds(w.now) {
				return true
			}
		}
		return false
	}
	pairs := map[string]bool{}
	for _, name := range a.Clusters {
		i := slices.IndexFunc(w.members, func(c promote.Cluster) bool { return c.Name == name })
		pair := w.members[i].Labels["pair"]
		if frozen(name) {
			return fmt.Errorf("%s is frozen", name)
		}
		if pairs[pair] && len(w.env.Promotion.AvoidTogether) > 0 && !w.restored && a.Wave != "" {
			return fmt.Errorf("two of pair %s move at once", pair)
		}
		pairs[pair] = true
	}
	if a.Wave != "" {
		if err := w.mayMoveWave(a, frozen); err != nil {
			return err
		}
	}
	for _, name := range a.Clusters {
		if w.r.IntN(20) == 0 {
			continue // the push of this one was refused
		}
		w.clusters[name], w.movedAt[name] = w.prod.tree.subs[name], w.now
		w.pending[name] = w.r.IntN(3) == 0
		if w.wasFrozen[name] {
			w.done["thawed"]++
		}
	}
	return nil
}

func (w *world) mayMoveWave(a promote.Action, frozen func(string) bool) error {
	if err := w.mayMove(w.now_); err != nil {
		return err
	}
	waves, err := promote.Waves(w.env, w.members)
	if err != nil {
		return err
	}
	for _, v := range waves {
		if v.Name == a.Wave {
			break
		}
		var last time.Time
		for _, name := range v.Clusters() {
			if w.clusters[name] != w.prod.tree.subs[name] && !frozen(name) {
				return fmt.Errorf("%s of the wave %s before is behind", name, v.Name)
			}
			if w.changed[name] && w.movedAt[name].After(last) && !w.wasFrozen[name] { // a thaw does not begin a bake anew
				last = w.movedAt[name]
			}
		}
		if !w.now_ && last.After(w.progress) && w.now.Sub(last) < v.Bake {
			return fmt.Errorf("wave %s has moved at %s, and bakes", v.Name, last)
		}
	}
	for name := range w.changed {
		if w.clusters[name] == w.prod.tree.subs[name] && (w.red[name] || w.pending[name]) {
			return fmt.Errorf("%s has moved, and is not healthy", name)
		}
	}
	return nil
}

// back does a rollback, as a caller does.
func (w *world) back(d promote.Decision, a promote.Action) {
	old, to := w.prod.tree, w.trees[a.Tree]
	w.failed = append(w.failed, old.source)
	switch {
	case len(a.Clusters) > 0:
		t := tree{source: old.source, subs: map[string]string{}}
		for name, sub := range old.subs {
			t.subs[name] = sub
			if slices.Contains(a.Clusters, name) {
				t.subs[name] = to.subs[name]
			}
		}
		w.begin(fmt.Sprintf("T(%s %v)", t.source, t.subs), t, false, true)
	case len(a.Apps) > 0:
		s := promote.Source{Commit: old.source.Commit, Apps: map[string]string{}}
		for _, app := range []string{"a", "b"} {
			s.Apps[app] = old.source.Of(app)
		}
		for _, app := range a.Apps {
			s.Apps[app] = to.source.Of(app)
		}
		id, t := w.render(s)
		w.begin(id, t, false, true)
	default:
		w.begin(a.Tree, to, false, true)
	}
	w.trees[w.prod.id] = w.prod.tree
	if len(a.Clusters)+len(a.Apps) > 0 || len(d.Record.Rollback.Clusters) > 0 {
		w.apply(promote.Event{Kind: promote.EventRolledBack, Source: w.prod.tree.source, Tree: w.prod.id})
	}
	for name := range w.changed {
		if !slices.Contains(d.Frozen, name) && w.r.IntN(4) > 0 {
			if !slices.ContainsFunc(d.Record.Freezes, func(f promote.Freeze) bool { return f.Target == name && f.Holds(w.now) }) {
				w.clusters[name], w.movedAt[name] = w.prod.tree.subs[name], w.now
			}
		}
	}
}
