package rollout

import (
	"cmp"
	"slices"
)

const (
	modeAuto    = "auto"
	modeManual  = "manual"
	modeRequest = "request"
)

// Next returns the source that an environment should run next, so that the caller can render it before it asks for a
// decision. It returns nil if there is nothing to promote. If the proposal is Refused, the caller renders Whole, fills
// Situation.LeftOut and asks again. If it has Held apps, or apps that it Returns, the caller renders Promoted, fills
// Situation.Changes and asks again. If it has an Entire source, the caller renders that, fills Situation.Entire and asks
// again.
func Next(s Situation) (*Proposal, error) {
	x, err := prepare(s)
	if err != nil {
		return nil, err
	}
	if err := x.observer.observe(); err != nil {
		return nil, err
	}
	return x.proposer.propose(), nil
}

// Latest returns the source that all upstream environments run, for a command without a commit: the oldest commit of
// each app. An environment without upstream follows the trunk.
func Latest(trunk Trunk, before []Upstream) Source {
	if len(before) == 0 {
		if len(trunk) == 0 {
			return Source{}
		}
		return Source{Commit: trunk[len(trunk)-1]}
	}
	if len(before) == 1 && before[0].Entire {
		return before[0].Source
	}
	sources := make([]Source, 0, len(before))
	for _, b := range before {
		sources = append(sources, b.Source)
	}
	return trunk.order().oldest(sources...)
}

// proposer finds the source that comes next.
type proposer struct {
	*facts
	gatekeeper *gatekeeper
	upstreams  *upstreams
}

// propose returns the requested promotion or, without a request, the one that the mode selects.
func (x *proposer) propose() *Proposal {
	var w *Proposal
	if q := x.rec.Request; q != nil && x.expediting() == nil {
		w = x.requested(q)
	} else if x.mode() != modeManual && x.rec.Request == nil {
		w = x.automatic()
	}
	x.divide(w)
	return w
}

// requested returns the promotion that somebody asked for. If it means everything, workspaces that are red upstream are
// left out. Held apps are not left out, because the person may mean them: without --again, they block it.
func (x *proposer) requested(q *Request) *Proposal {
	if q.Renders != "" {
		return &Proposal{
			Promoted: q.Source, Source: q.Source, Whole: q.Source, Renders: true, By: q.By, Reason: q.Reason,
		}
	}
	w := &Proposal{
		Promoted: q.Source, Apps: q.Apps, Workspaces: q.Workspaces, Overtakes: q.Now, By: q.By, Reason: q.Reason,
		Source: x.order.compose(x.s.Running.Source, q.Source, q.Apps).Among(x.names()),
	}
	if w.Whole = w.Source; len(q.Apps) == 0 && !q.Now {
		w.Without = x.upstreams.lateNames(q.Source)
		x.upstreams.leaveOut(w)
	}
	rest := *w
	x.leaveOutHeld(&rest, slices.DeleteFunc(slices.Clone(x.rec.Holds), func(h Hold) bool {
		return q.Again != "" && !h.Since.After(q.At) // what was held later, nobody meant
	}))
	w.Returns = rest.Held
	return w
}

// automatic returns the newest source that has baked upstream or, if none has, the one that has baked longest. A
// newer commit therefore does not delay a running bake, unless restartBake is set.
func (x *proposer) automatic() *Proposal {
	var ready, waiting, rest *Proposal
	for _, c := range x.candidates() {
		next := x.order.compose(x.s.Running.Source, c, nil)
		if next.equalOn(x.s.Running.Source, x.names()) || x.excluded(c, next) {
			continue
		}
		w := &Proposal{Promoted: c, Source: next, Whole: next, Without: x.upstreams.lateNames(c)}
		if x.onlyLate(*w) {
			if rest == nil || x.order.contains(c, rest.Promoted, nil) {
				rest = w
			}
		} else if Holds(x.gatekeeper.upstreamGates(*w)) {
			if ready == nil || x.order.contains(c, ready.Promoted, nil) {
				ready = w
			}
		} else if waiting == nil || x.order.contains(waiting.Promoted, c, nil) {
			waiting = w
		}
	}
	w := cmp.Or(ready, waiting, rest)
	if w == nil {
		return x.renderedUpstream()
	}
	x.upstreams.leaveOut(w)
	x.leaveOut(w)
	return w
}

// renderedUpstream returns what the environment runs, as its upstream rendered it again, if the tree of the upstream comes as
// it is. It takes nothing after a rollback: a person may have gone back to the rendering before.
func (x *proposer) renderedUpstream() *Proposal {
	run := x.s.Running
	if x.mode() != modeAuto || len(x.rec.Holds) > 0 || run.Restores || run.Foreign != "" || run.Overwrites || !RenderedUpstream(x.s) {
		return nil
	}
	return &Proposal{Promoted: run.Source, Source: run.Source, Whole: run.Source, Renders: true, Reason: "rendered again by " + x.s.Before[0].Name}
}

// RenderedUpstream reports whether the only upstream environment has another tree for the source that the environment runs,
// and the tree is promoted as it is.
func RenderedUpstream(s Situation) bool {
	return len(s.Before) == 1 && s.Before[0].Tree != "" && s.Before[0].Tree != s.Running.Tree && s.Running.Tree != "" &&
		s.Before[0].Source.Equal(s.Running.Source)
}

// onlyLate reports whether a proposal would bring nothing but workspaces that are left out, beside what is held.
func (x *proposer) onlyLate(w Proposal) bool {
	if len(w.Without) == 0 {
		return false
	}
	x.leaveOut(&w)
	return x.upstreams.differsOnlyIn(w.Source, w.Without)
}

// candidates returns the sources that may be next without a request.
func (x *proposer) candidates() []Source {
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
			everywhere := !slices.ContainsFunc(x.s.Before, func(o Upstream) bool {
				return !x.order.contains(o.Source,
					past, nil)
			})
			if everywhere && x.order.knows(past) && !slices.ContainsFunc(out, past.Equal) {
				out = append(out, past)
			}
		}
	}
	return out
}

// Contains reports whether the environment runs the commits of a source, or newer ones, for all apps or for some.
func Contains(trunk Trunk, runs, source Source, apps []string) bool {
	o := trunk.order()
	return o.knows(runs) && o.knows(source) && o.contains(runs, source, apps)
}
