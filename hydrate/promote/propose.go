package promote

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	modeAuto    = "auto"
	modeManual  = "manual"
	modeRequest = "request"
)

// mode of the environment. Without a mode, one that follows the trunk is automatic, and any other waits for commands.
func (x *decider) mode() string {
	if x.p.Mode != "" {
		return x.p.Mode
	}
	if len(x.s.Environment.After) == 0 {
		return modeAuto
	}
	return modeManual
}

// Next returns what an environment should run next, so that a caller can render it before it asks for a decision; nil if
// there is nothing to promote. If the proposal has Held apps, a caller renders Promoted, fills Situation.Changes and asks again.
func Next(s Situation) (*Proposal, error) {
	x, err := prepare(s)
	if err != nil {
		return nil, err
	}
	if err := x.observe(); err != nil {
		return nil, err
	}
	return x.propose(), nil
}

// Latest is what all upstream environments run, for a command that names no commit: the oldest commit of each app. An
// environment without upstream follows the trunk.
func Latest(trunk Trunk, before []Upstream) Source {
	if len(before) == 0 {
		if len(trunk) == 0 {
			return Source{}
		}
		return Source{Commit: trunk[len(trunk)-1]}
	}
	sources := make([]Source, 0, len(before))
	for _, b := range before {
		sources = append(sources, b.Source)
	}
	return trunk.order().oldest(sources...)
}

// propose is the requested promotion, or else what the mode brings.
func (x *decider) propose() *Proposal {
	if q := x.rec.Request; q != nil && x.expediting() == nil {
		return &Proposal{
			Promoted: q.Source, Apps: q.Apps, Overtakes: q.Now, By: q.By, Reason: q.Reason,
			Source: x.order.compose(x.s.Running.Source, q.Source, q.Apps).Among(x.names()),
		}
	}
	if x.mode() == modeManual || x.rec.Request != nil {
		return nil
	}
	return x.automatic()
}

// names are the environment's clusters, sorted.
func (x *decider) names() []string { return slices.Sorted(maps.Keys(x.clusters)) }

// automatic is the newest source that has baked upstream, or else the one that has baked longest. So a newer commit does not
// delay one that bakes already, unless restartBake says so.
func (x *decider) automatic() *Proposal {
	var ready, waiting *Proposal
	for _, c := range x.candidates() {
		next := x.order.compose(x.s.Running.Source, c, nil)
		if next.equalOn(x.s.Running.Source, x.names()) || x.excluded(c, next) {
			continue
		}
		w := &Proposal{Promoted: c, Source: next}
		if Holds(x.upstreamGates(*w)) {
			if ready == nil || x.order.contains(c, ready.Promoted, nil) {
				ready = w
			}
		} else if waiting == nil || x.order.contains(waiting.Promoted, c, nil) {
			waiting = w
		}
	}
	w := cmp.Or(ready, waiting)
	if w != nil {
		x.leaveOut(w)
	}
	return w
}

// candidates are the sources that may come next without a request.
func (x *decider) candidates() []Source {
	latest := Latest(x.s.Trunk, x.s.Before)
	if len(x.s.Before) < len(x.s.Environment.After) || latest.Empty() {
		return nil
	}
	out := []Source{latest}
	if len(x.s.Environment.After) == 0 || x.p.RestartBake {
		return out
	}
	for _, b := range x.s.Before {
		w := x.rec.Before[b.Name]
		if w == nil {
			continue
		}
		for _, r := range w.Ran {
			past := x.order.oldest(r.Source)
			everywhere := !slices.ContainsFunc(x.s.Before, func(o Upstream) bool { return !x.order.contains(o.Source, past, nil) })
			if everywhere && x.order.knows(past) && !slices.ContainsFunc(out, past.Equal) {
				out = append(out, past)
			}
		}
	}
	return out
}

// excluded reports whether a source brings nothing but what is held, or what a person declined.
func (x *decider) excluded(c, next Source) bool {
	if d := x.rec.Declined; d != nil && x.mode() == modeRequest && x.notNewer(c.common(), d.Source.Commit) {
		return true
	}
	older := slices.ContainsFunc(x.rec.Holds, func(h Hold) bool { return x.order.at(c.Commit) <= x.order.at(h.Source.Commit) })
	if !older {
		return false
	}
	w := Proposal{Promoted: c, Source: next}
	x.leaveOut(&w)
	return w.Source.equalOn(x.s.Running.Source, x.names())
}

// leaveOut keeps what is held at what runs.
func (x *decider) leaveOut(w *Proposal) {
	runs, names := x.s.Running.Source, x.names()
	l := leftOut{promoted: w.Promoted, held: map[string]bool{}, released: map[string]bool{}}
	next := Source{Commit: w.Source.Commit, Apps: w.Source.Apps, Clusters: map[string]ClusterSource{}}
	for _, name := range names {
		next.Clusters[name] = w.Source.On(name)
	}
	for _, h := range x.rec.Holds {
		if h.Tree == "" && !h.Whole {
			continue
		}
		scope := h.Clusters
		if len(scope) == 0 {
			scope = names
		}
		l.changed = x.changed(h, w.Promoted)
		for _, name := range scope {
			if want, ok := next.Clusters[name]; ok {
				next.Clusters[name] = x.keepHeld(h, name, want, runs.On(name), &l)
			}
		}
	}
	w.Source = next.Among(names)
	w.Held, w.Released = slices.Sorted(maps.Keys(l.held)), slices.Sorted(maps.Keys(l.released))
}

// leftOut collects what leaveOut found: apps or clusters that stay held, and held apps that are changed.
type leftOut struct {
	promoted       Source
	changed        []string // apps of the hold in hand that promoted changes
	held, released map[string]bool
}

// keepHeld is what one cluster shall run if a hold covers it.
func (x *decider) keepHeld(h Hold, cluster string, want, have ClusterSource, l *leftOut) ClusterSource {
	older := h.Whole && x.notNewer(l.promoted.On(cluster), h.Source.On(cluster).Commit)
	if (older || len(h.Apps) == 0 && h.Tree != "") && !want.Equal(have) {
		l.held[cluster] = true
		return have
	}
	for _, app := range h.Apps {
		newer := x.order.at(l.promoted.Of(app)) > x.order.at(h.Source.On(cluster).Of(app))
		switch {
		case want.Of(app) == have.Of(app):
		case newer && slices.Contains(l.changed, app):
			l.released[app] = true
		default:
			want = want.with(app, have.Of(app))
			l.held[app] = true
		}
	}
	return want
}

// notNewer reports whether every app of a source has a commit, or one before it.
func (x *decider) notNewer(c ClusterSource, commit string) bool {
	newest := c.Commit
	for _, other := range c.Apps {
		newest = x.order.newer(newest, other)
	}
	return x.order.at(newest) <= x.order.at(commit)
}

// changed are the apps of a hold that a source changes.
func (x *decider) changed(h Hold, promoted Source) []string {
	c := x.s.Changes
	if c == nil || !c.Source.Equal(promoted) {
		return nil
	}
	i := slices.IndexFunc(c.Holds, func(o HoldChange) bool { return o.Hold.is(h) })
	if i < 0 {
		return nil
	}
	return c.Holds[i].Apps
}

// gates are those of a promotion.
func (x *decider) gates(w Proposal) []Gate {
	gates := []Gate{x.branchGate(w), x.haltGate()}
	if g, ok := x.holdGate(w); ok {
		gates = append(gates, g)
	}
	gates = append(gates, x.timeGates(w.Overtakes)...)
	if !w.Overtakes {
		gates = append(gates, x.upstreamGates(w)...)
		gates = append(gates, x.progressGate())
		gates = append(gates, checks(x.s, time.Time{})...)
	}
	gates = append(gates, x.renderedGates(w)...)
	if g, ok := x.approvalsGate(); ok {
		gates = append(gates, g)
	}
	return gates
}

// holdGate says what holds leave out of a promotion, and what it brings back. It blocks one of which nothing is left.
func (x *decider) holdGate(w Proposal) (Gate, bool) {
	g := Gate{Name: GateHold, State: Green}
	var parts []string
	if len(w.Held) > 0 {
		parts = append(parts, "leaves out "+Few(w.Held)+", which is held back")
	}
	if len(w.Released) > 0 {
		parts = append(parts, short(w.Promoted.Commit)+" changes "+Few(w.Released)+", so the hold ends when it lands")
	}
	if w.By != "" {
		for _, h := range x.rec.Holds {
			if h.Tree != "" && x.order.contains(w.Source, h.Source, h.Apps) && (len(w.Apps) == 0 || len(h.Apps) == 0 || slices.ContainsFunc(h.Apps, func(a string) bool { return slices.Contains(w.Apps, a) })) {
				parts = append(parts, fmt.Sprintf("%s asked for what is held back, so the hold on %s ends when it lands", w.By, h.Scope(x.s.Environment.Name)))
			}
		}
	}
	if w.Source.equalOn(x.s.Running.Source, x.names()) && len(w.Held) > 0 {
		g.State = Waiting
	}
	g.Reason = strings.Join(parts, "; ")
	return g, len(parts) > 0
}

// branchGate refuses what cannot be compared: a commit that is not on the known part of the trunk might be an older one.
func (x *decider) branchGate(w Proposal) Gate {
	g := Gate{Name: GateBranch, State: Green}
	switch {
	case !x.order.knows(x.s.Running.Source) && w.Overtakes && x.order.knows(w.Promoted):
		g.Reason = fmt.Sprintf("it runs %s, which is not on the trunk any more; --now continues from there", x.s.Running.Source)
	case !x.order.knows(x.s.Running.Source):
		g.State, g.Reason = Unknown, fmt.Sprintf("it runs %s, which is not on the trunk%s", x.s.Running.Source, x.unknownAdvice())
	case !x.order.knows(w.Promoted):
		g.State, g.Reason = Unknown, fmt.Sprintf("%s is not on the trunk%s", w.Promoted, x.unknownAdvice())
	case len(w.Apps) > 0 && x.s.Running.Source.Empty():
		g.State, g.Reason = Red, "the environment runs nothing yet: promote a whole commit first, without --app"
	}
	return g
}

// unknownAdvice says what to do about a commit that is not on the known part of the trunk. An incomplete clone is never a
// reason to bypass a gate.
func (x *decider) unknownAdvice() string {
	if x.s.Shallow {
		return " as far as this shallow clone knows: run `git fetch --unshallow`"
	}
	return "; if the trunk was rewritten, promote with --now"
}

func (x *decider) progressGate() Gate {
	g := Gate{Name: GateProgress, State: Green}
	p := x.rec.Progress
	if p == nil || !p.Done.IsZero() || x.p.RestartBake {
		return g
	}
	g.State, g.Since = Waiting, p.Started
	g.Reason = fmt.Sprintf("the rollout of %s is not complete", p.Source)
	for _, w := range x.waves {
		if b := x.bakeGate(w); b.State != Green {
			g.Until = b.Until
			break
		}
	}
	return g
}

// upstreamGates say whether the upstream environments run it, and have done so for long enough.
func (x *decider) upstreamGates(w Proposal) []Gate {
	gates := make([]Gate, 0, len(x.s.Environment.After))
	for _, name := range x.s.Environment.After {
		i := slices.IndexFunc(x.s.Before, func(b Upstream) bool { return b.Name == name })
		if i < 0 {
			gates = append(gates, Gate{Name: GateBefore + name, State: Unknown, Reason: "what it runs is unknown"})
			continue
		}
		gates = append(gates, x.upstreamGate(w, x.s.Before[i]))
	}
	return gates
}

func (x *decider) upstreamGate(w Proposal, b Upstream) Gate {
	g := Gate{Name: GateBefore + b.Name, State: Waiting}
	watch := x.rec.Before[b.Name]
	switch {
	case b.Source.Empty() || watch == nil || len(watch.Ran) == 0:
		g.Reason = b.Name + " runs nothing yet"
		return g
	case !x.order.knows(b.Source):
		g.State, g.Reason = Unknown, fmt.Sprintf("%s runs %s, which is not on the known part of the trunk", b.Name, b.Source)
		return g
	case !x.order.contains(b.Source, w.Promoted, w.Apps):
		g.Reason = fmt.Sprintf("%s runs %s", b.Name, b.Source)
		return g
	}
	if b.idle() {
		g.Reason = fmt.Sprintf("all clusters of %s are frozen and none runs %s; unfreeze one", b.Name, b.Source)
		return g
	}
	if h := judge(x.p.Health, living(b.Clusters)); h.state != Green {
		g.State, g.Reason, g.Since = h.state, b.Name+": "+h.reason, watch.LastRed
		return g
	}
	var healthy time.Time // of the first state that contained it, without a gap until now
	for _, r := range slices.Backward(watch.Ran) {
		if !x.order.contains(r.Source, w.Promoted, w.Apps) {
			break
		}
		if !r.Healthy.IsZero() {
			healthy = r.Healthy
		}
	}
	if healthy.IsZero() {
		g.Reason = b.Name + " has not completed its rollout"
		return g
	}
	if watch.LastRed.After(healthy) {
		healthy = watch.LastRed
	}
	g.Since, g.Until = healthy, healthy.Add(x.bake)
	if x.s.Now.Before(g.Until) {
		g.Reason = fmt.Sprintf("it bakes in %s until %s", b.Name, Stamp(g.Until))
		return g
	}
	g.State, g.Until = Green, time.Time{}
	return g
}

// renderedGates compare the candidate with the proposal, and give its policy verdict.
func (x *decider) renderedGates(w Proposal) []Gate {
	rendered, policy := Gate{Name: GateRendered, State: Green}, Gate{Name: GatePolicy, State: Unknown, Reason: "not rendered yet"}
	c := x.s.Candidate
	switch {
	case c == nil || !c.Source.Equal(w.Source):
		rendered.State, rendered.Reason = Waiting, w.Source.String()+" is not rendered yet"
	case c.Base != x.s.Running.Commit:
		rendered.State, rendered.Reason = Waiting, "the environment branch has moved since it was rendered"
	case c.Blocked != "":
		rendered.State, rendered.Reason = Red, c.Blocked
		policy.State, policy.Reason = c.Policy, c.Reason
	case c.Policy == Red || c.Policy == Waiting || c.Policy == Green:
		policy.State, policy.Reason = c.Policy, c.Reason
		if c.Tree == "" && c.Policy == Green {
			rendered.State, rendered.Reason = Unknown, "its tree is unknown"
		}
	default:
		policy.Reason = "policy has not judged it yet"
	}
	return []Gate{rendered, policy}
}

// Contains reports whether what runs has the commits of a source, or newer ones, of all apps or of some.
func Contains(trunk Trunk, runs, source Source, apps []string) bool {
	o := trunk.order()
	return o.knows(runs) && o.knows(source) && o.contains(runs, source, apps)
}
