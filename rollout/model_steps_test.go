package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/rollout"
)

// happen is one thing that the world does.
func (w *world) happen() {
	w.now = w.now.Add(time.Duration(w.r.IntN(25)) * time.Minute)
	if w.lost && w.r.IntN(3) == 0 {
		w.repairState()
	}
	cluster := w.members[w.r.IntN(len(w.members))].Name
	target := pick(w.r, "", cluster)
	switch w.r.IntN(26) {
	case 0, 1, 2:
		w.commit(false)
		w.stage()
	case 3:
		w.sicken()
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
		ok := w.apply(rollout.Event{
			Kind: rollout.EventFreeze, By: "ann", Reason: "fair", Target: target,
			Until: w.now.Add(time.Hour),
		})
		w.logf("freeze %q: %v", target, ok)
	case 8:
		w.logf("unfreeze %q: %v", target, w.apply(rollout.Event{Kind: rollout.EventUnfreeze, Target: target}))
	case 9:
		w.logf("halt: %v", w.apply(rollout.Event{Kind: rollout.EventHalt, By: "ann", Reason: "look"}))
	case 10, 11:
		w.resume(cluster)
	case 12, 13:
		w.ask()
	case 14, 15:
		w.goBack(cluster)
	case 16: // two people at once
		w.goBack(cluster)
		w.goBack(w.members[w.r.IntN(len(w.members))].Name)
	case 17, 18:
		w.approve()
	case 19:
		w.decideRequest()
	case 20:
		if w.was == nil {
			w.foreign = !w.foreign && w.r.IntN(2) == 0
			w.logf("foreign: %v", w.foreign)
		}
	case 21:
		if w.r.IntN(4) == 0 {
			w.loseRecord()
		}
	case 22:
		w.setBackTo()
	case 23:
		w.repair(w.r.IntN(2) == 0)
	case 24:
		if w.r.IntN(2) == 0 {
			w.rewriteTrunk()
		}
	case 25:
		w.setClock()
	}
}

func (w *world) approve() {
	if s, err := w.situation(); err == nil && s.Candidate != nil {
		by := pick(w.r, "ann", "bob", "author")
		w.logf("%s approves %s: %v", by, s.Candidate.Tree, w.apply(rollout.Event{
			Kind: rollout.EventApprove, By: by,
			Teams: []string{"sre"}, Tree: s.Candidate.Tree,
		}))
	}
}

// decideRequest is a person who merges or closes the merge request.
func (w *world) decideRequest() {
	switch {
	case w.request == nil:
	case w.r.IntN(3) == 0:
		if w.record.Opened != nil { // nobody can know that a merge request was closed after the record of it was lost
			w.declined = w.request.Source.Commit
		}
		w.logf("a person closes the merge request of %s", w.request.Source)
		w.request = nil
		w.done["declined"]++
	default:
		w.merge()
	}
}

func (w *world) resume(cluster string) {
	e := rollout.Event{Kind: rollout.EventResume, By: pick(w.r, "ann", "bob"), Members: w.names()}
	switch w.r.IntN(4) {
	case 0:
		e.Clusters = []string{cluster}
	case 1:
		e.Apps = w.apps[:1]
	case 2:
		e.Named = []string{"all"}
	}
	holds := len(w.record.Holds)
	ok := w.apply(e)
	w.logf("resume %v %v %v: %v", e.Clusters, e.Apps, e.Named, ok)
	if !ok || len(e.Clusters)+len(e.Apps)+len(e.Named) == 0 {
		return
	}
	w.merged = ""
	if holds > 0 {
		w.done["resumed hold"]++
	}
	for _, m := range w.members {
		for _, app := range w.apps {
			if (len(e.Clusters) == 0 || slices.Contains(e.Clusters, m.Name)) &&
				(len(e.Apps) == 0 || slices.Contains(e.Apps, app)) {
				delete(w.bad, m.Name+"/"+app)
			}
		}
	}
}

func (w *world) ask() {
	e := rollout.Event{
		Kind: rollout.EventPromote, By: "ann",
		Source: rollout.Source{Commit: w.trunk[w.r.IntN(len(w.trunk))]}, Reason: "hotfix", Now: w.r.IntN(3) == 0,
	}
	if w.r.IntN(3) == 0 {
		e.Apps = []string{pick(w.r, w.apps...)}
	}
	if w.r.IntN(2) == 0 {
		e.Again = "we know why"
	} else if w.returns(e) { // package promote refuses it
		w.done["refused return"]++
		w.logf("promote %s %v now=%v: it would bring back what was rolled back", e.Source, e.Apps, e.Now)
		return
	}
	back := w.record.Rollback
	// before the request: a workspace goes back, and the request is about the rollout that follows
	decided := back != nil && back.Continues != ""
	ok := w.apply(e)
	if ok {
		w.declined, w.merged = "", ""
		// it expedites the rollout under way
		w.overtakes = w.overtakes || e.Now && len(e.Apps) == 0 && w.prod.source.Equal(e.Source) && !decided
	}
	w.logf("promote %s %v now=%v: %v", e.Source, e.Apps, e.Now, ok)
}

// returns reports whether a promotion would bring back what was rolled back, as package promote does.
func (w *world) returns(e rollout.Event) bool {
	e.At = w.now
	record, err := rollout.Apply(w.record, e)
	if err != nil || len(w.record.Holds) == 0 {
		return false
	}
	saved := w.record
	defer func() { w.record = saved }()
	w.record = record
	s, err := w.situation()
	if err != nil {
		return false
	}
	next, err := rollout.Next(s)
	return err == nil && next != nil && len(next.Returns) > 0
}

// goBack rolls back as a caller does: to a state that a person names, or to the default.
func (w *world) goBack(cluster string) {
	s, err := w.situation()
	if err != nil || w.foreign || w.lost {
		return
	}
	e := rollout.Event{
		Kind: rollout.EventRollback, By: pick(w.r, "ann", "bob"), Source: w.prod.source, Tree: w.id,
		Reason: "bad",
	}
	switch w.r.IntN(5) {
	case 0:
		e.Clusters = []string{cluster}
	case 1:
		e.Apps = []string{pick(w.r, w.apps...)}
	case 2:
		e.Wave, e.Clusters = "canary", []string{"c0"}
	case 3:
		e.Clusters, e.Apps = []string{cluster}, w.apps[:1]
	}
	if w.r.IntN(3) == 0 {
		if e.To = w.past[w.r.IntN(len(w.past))]; e.To.Tree == w.id {
			return // package promotion refuses the state that runs
		}
	} else if e.To, err = rollout.RollbackTarget(s, w.past, e.Clusters, e.Apps, w.read); err != nil {
		if _, twice := errors.AsType[*rollout.RolledBackError](err); twice {
			w.done["refused second rollback"]++
		}
		w.logf("rollback %v %v: %v", e.Clusters, e.Apps, err)
		return
	}
	if len(e.Clusters)+len(e.Apps) > 0 {
		if e.Stopped, err = rollout.Unreached(s, e.Clusters, e.Apps); err != nil {
			w.logf("rollback: %v", err)
			return
		}
	}
	w.logf("rollback to %s %v %v, stopped %v: %v", e.To.Source, e.Clusters, e.Apps, e.Stopped, w.apply(e))
}

// reconcile is one pass: decide, store, act; or only a part of that, as when a run is cut off.
func (w *world) reconcile(hostile bool) error {
	if w.lost {
		return nil // each pass is an error until somebody repairs the records
	}
	for range 3 {
		s, err := w.situation()
		if err != nil {
			return err
		}
		d, err := rollout.Decide(s)
		if err != nil {
			return err
		}
		if w.passes++; w.passes%3 == 0 { // a second decision costs a fifth of a history
			if err := w.decidesAlike(s, d); err != nil {
				return err
			}
		}
		if err := w.trunkGate(d); err != nil {
			return err
		}
		cut := hostile && w.r.IntN(12) == 0
		if cut && w.r.IntN(2) == 0 {
			w.done["cut off"]++
			return nil // nothing is done before the record is stored
		}
		w.store(d.Record)
		w.sees() // what nobody saw, nobody knows
		if err := w.restGoesOn(s, d); err != nil {
			return err
		}
		for _, a := range d.Actions {
			if cut && w.r.IntN(2) == 0 {
				w.done["cut off"]++
				return nil
			}
			if err := w.act(s, d, a); err != nil {
				return fmt.Errorf("%s %s by %q: %w", a.Kind, a.Source, a.By, err)
			}
		}
		if d.Actions[0].Kind == rollout.Nothing {
			return nil
		}
	}
	return nil
}

func (w *world) act(s rollout.Situation, d rollout.Decision, a rollout.Action) error {
	if a.Base != w.tip {
		w.done["lost swap"]++
		return nil
	}
	if w.foreign && a.Kind != rollout.Nothing {
		return fmt.Errorf("it acts on somebody else's commit")
	}
	w.done[string(a.Kind)]++
	if a.Kind != rollout.Nothing {
		w.logf("%s %s %s%v%v", a.Kind, a.Source, a.Tree, a.Clusters, a.Apps)
	}
	switch a.Kind {
	case rollout.MoveEnvironment:
		return w.moveEnvironment(s, d, a)
	case rollout.OpenRequest:
		at := func(c string) int { return slices.Index(w.trunk, c) }
		if a.Source.Commit == w.merged || at(a.Source.Commit) <= at(w.declined) {
			return fmt.Errorf("a second merge request; merged %s, declined %s", w.merged, w.declined)
		}
		if err := w.bringsBack(w.trees[a.Tree]); err != nil {
			return err
		}
		w.request = &rollout.MergeRequest{Source: a.Source, Tree: a.Tree}
		w.apply(rollout.Event{Kind: rollout.EventOpened, Source: a.Source, Tree: a.Tree})
	case rollout.CloseRequest:
		w.request = nil
		w.apply(rollout.Event{Kind: rollout.EventClosed})
	case rollout.MoveWave:
		return w.moveWave(d, a)
	case rollout.DoRollback:
		return w.back(a)
	}
	return nil
}

func (w *world) moveEnvironment(s rollout.Situation, d rollout.Decision, a rollout.Action) error {
	if err := w.mayPromote(s, a); err != nil {
		return err
	}
	if err := w.leavesOut(a); err != nil {
		return err
	}
	next := w.trees[a.Tree]
	if q := s.Record.Request; a.By == "" || q != nil && q.Again == "" {
		if err := w.bringsBack(next); err != nil {
			return err
		}
	} else {
		for _, m := range w.members { // asked for: what it brings is not bad any more
			for app, version := range apps(next.subs[m.Name]) {
				delete(w.bad[m.Name+"/"+app], version)
			}
		}
	}
	if d.Proposal != nil && len(d.Proposal.Held) > 0 {
		w.done["held"]++
	}
	if d.Proposal != nil && len(d.Proposal.Released) > 0 {
		w.done["released"]++
	}
	if a.Overtakes {
		w.done["overtaken"]++
	}
	if len(a.Apps) > 0 {
		w.done["partial"]++
	}
	if w.r.IntN(15) == 0 { // somebody was faster
		w.tip += "'"
		w.done["lost swap"]++
		return nil
	}
	w.begin(a.Tree, next, a.Overtakes, nil, false)
	return nil
}

// moveWave holds a move of clusters against what the world knows, and does it.
func (w *world) moveWave(d rollout.Decision, a rollout.Action) error {
	frozen := func(name string) bool {
		return slices.ContainsFunc(d.Record.Freezes, func(f rollout.Freeze) bool {
			return f.Target == name &&
				f.Holds(w.now)
		})
	}
	pairs := map[string]bool{}
	for _, name := range a.Clusters {
		i := slices.IndexFunc(w.members, func(c rollout.Cluster) bool { return c.Name == name })
		pair := w.members[i].Labels["pair"]
		switch {
		case frozen(name):
			return fmt.Errorf("%s is frozen", name)
		case pairs[pair] && len(w.env.Promotion.AvoidTogether) > 0 && !w.restores && a.Wave != "":
			return fmt.Errorf("two of pair %s move at once", pair)
		case a.Wave == "" && (!w.restores || len(w.restored) > 0 && !slices.Contains(w.restored, name)):
			return fmt.Errorf("%s moves at once, and no rollback names it", name)
		}
		pairs[pair] = true
	}
	if a.Wave != "" {
		if err := w.mayMoveWave(a, frozen); err != nil {
			return err
		}
	}
	for _, name := range a.Clusters {
		if err := w.onTrunk(name); err != nil && a.Wave != "" && !w.restores {
			return err
		}
		if w.r.IntN(20) == 0 {
			continue // the push of this one was refused
		}
		w.move(name)
		w.pending[name] = w.r.IntN(3) == 0
		if w.wasFrozen[name] {
			w.done["thawed"]++
		}
		if slices.ContainsFunc(d.Record.Holds, func(h rollout.Hold) bool {
			return h.Tree != w.id &&
				len(h.Workspaces) > 0 && w.continues == w.id
		}) {
			w.done["went on without a workspace"]++
		}
	}
	return nil
}

func (w *world) move(name string) {
	if w.clusters[name] != w.prod.subs[name] { // equal content restarts no bake
		w.movedAt[name] = w.elapsed()
	}
	w.clusters[name], w.provenance[name] = w.prod.subs[name], w.prod.source.On(name)
}

// back does a rollback, as a caller does, and checks invariant 2: nothing outside its scope moves.
func (w *world) back(a rollout.Action) error {
	to, ok := w.trees[a.Tree]
	if !ok {
		return fmt.Errorf("the tree to go back to is unknown")
	}
	old := w.prod
	next := tree{
		source: rollout.RestoredSource(old.source, a, to.source, w.provenance, w.names()),
		subs:   map[string]string{},
	}
	whole := len(a.Clusters)+len(a.Apps) == 0
	for _, m := range w.members {
		next.subs[m.Name] = w.content(m.Name, next.source.On(m.Name))
		if err := w.goesBack(a, m.Name, old, to, next); err != nil {
			return err
		}
	}
	if w.countBack(a); whole {
		next = to
	}
	commits := len(w.history)
	if id := w.keep(next); a.Continues != "" {
		if err := w.goesOn(a, id, next); err != nil {
			return err
		}
	} else if id != w.id {
		w.begin(id, next, false, w.restoredWith(a.Clusters), true)
	}
	if len(w.history) > commits { // the trailers of the commit say so
		w.history[commits].Back = &rollout.Rollback{
			To: next.source, Tree: w.id, Wave: a.Wave, Clusters: a.Clusters, Apps: a.Apps, Workspaces: a.Workspaces,
			Reason: a.Reason, By: a.By, At: w.now,
		}
	}
	cut := w.r.IntN(8) == 0 || a.Continues != "" && w.r.IntN(3) == 0 // before the record is stored
	for _, m := range w.members {
		scope := len(a.Clusters) == 0 || slices.Contains(a.Clusters, m.Name)
		if scope && !slices.Contains(slices.Concat(a.Later, a.Stopped, a.Frozen), m.Name) && w.r.IntN(4) > 0 {
			w.move(m.Name)
		}
	}
	if cut {
		w.done["cut off"]++
		return nil
	}
	var left []string
	for _, m := range w.members {
		if w.clusters[m.Name] != w.prod.subs[m.Name] {
			left = append(left, m.Name)
		}
	}
	w.apply(rollout.Event{Kind: rollout.EventRolledBack, Source: w.prod.source, Tree: w.id, Clusters: left})
	return nil
}

// countBack counts a rollback by its kind.
func (w *world) countBack(a rollout.Action) {
	switch {
	case a.Continues != "":
		w.done["workspace back"]++
		if a.Continues == w.id {
			w.done["workspace back, interrupted"]++
		}
	case len(a.Clusters) > 0:
		w.done["rollback of clusters"]++
	case len(a.Apps) > 0:
		w.done["rollback of apps"]++
	default:
		w.done["rollback of all"]++
	}
	if len(a.Stopped) > 0 {
		w.done["stopped"]++
	}
}

// restoredWith returns the clusters that a rollback of clusters restores, with those of a rollback under way; nil means
// any.
func (w *world) restoredWith(clusters []string) []string {
	switch {
	case !w.restores || len(clusters) == 0:
		return clusters
	case len(w.restored) == 0:
		return nil // the rollback before may still be under way on any cluster
	}
	return append(slices.Clone(clusters), w.restored...)
}

// goesBack checks invariant 2 on one cluster, and remembers what went back on it.
func (w *world) goesBack(a rollout.Action, cluster string, old, to, next tree) error {
	whole := len(a.Clusters)+len(a.Apps) == 0
	named := whole || len(a.Clusters) == 0 || slices.Contains(a.Clusters, cluster)
	for app, version := range apps(next.subs[cluster]) {
		inScope := named && (len(a.Apps) == 0 || slices.Contains(a.Apps, app))
		was, runs := apps(old.subs[cluster])[app], apps(w.clusters[cluster])[app]
		switch {
		case inScope && version != apps(to.subs[cluster])[app]:
			return fmt.Errorf("%s of %s is %s and not %s", app, cluster, version, apps(to.subs[cluster])[app])
		case !inScope && slices.Contains(a.Stopped, cluster) && version != runs:
			return fmt.Errorf("%s of %s, which the rollout had not reached, is %s and not %s", app, cluster, version,
				runs)
		case !inScope && !slices.Contains(a.Stopped, cluster) && version != was:
			return fmt.Errorf("%s of %s is outside the rollback and becomes %s", app, cluster, version)
		}
		if version != was { // it goes back, or its rollout stops
			if w.bad[cluster+"/"+app] == nil {
				w.bad[cluster+"/"+app] = map[string]bool{}
			}
			w.bad[cluster+"/"+app][was] = true
		}
		delete(w.bad[cluster+"/"+app], version) // somebody asked for that state
	}
	return nil
}
