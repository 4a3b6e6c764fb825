package rollout

import "time"

// forgettable returns which state of an upstream environment the record need not remember when it is full; -1 if it is
// not full. The states that stay are the sparser the older they are, so that some are always about to have baked,
// however often the environment changes. What is left out must not change what the others prove:
//   - A state that went back from the one before it ends the bake of what that one had.
//   - The state in which a workspace turned red or green decides what of it may be promoted.
//   - The first of the states that a workspace went back from says what must not come.
//
// If no other state can go, or if the environment runs what the oldest one had, the oldest one goes.
func (x *upstreams) forgettable(environment string) int {
	w := x.rec.Before[environment]
	if w == nil || len(w.Ran) < maxRan {
		return -1
	}
	runs := x.s.Running.Source
	if x.order.knows(runs) && x.order.knows(w.Ran[0].Source) && x.order.contains(runs, w.Ran[0].Source, nil) {
		return 0
	}
	drop, least := 0, 0.0
	for i := 1; i < len(w.Ran)-1; i++ {
		if !x.redundant(environment, w, i) {
			continue
		}
		age := x.s.Now.Sub(w.Ran[i].At) + time.Second // the newest ones may be of this moment
		if gap := float64(w.Ran[i+1].At.Sub(w.Ran[i-1].At)) / float64(age); drop == 0 || gap < least {
			drop, least = i, gap
		}
	}
	return drop
}

// redundant reports whether an upstream state can be left out without a change to what the others prove.
func (x *upstreams) redundant(environment string, w *UpstreamHistory, i int) bool {
	before, one, next := w.Ran[i-1], w.Ran[i], w.Ran[i+1]
	if !x.order.knows(before.Source) || !x.order.knows(one.Source) ||
		!x.order.contains(one.Source, before.Source, nil) {
		return false
	}
	for name, h := range w.Workspaces {
		if h.Since.Before(one.At) {
			continue
		}
		if h.Since.Before(next.At) {
			return false
		}
		state, known := x.stateAt(environment, h.Since)
		has := func(r PastState) bool { return x.order.containsWorkspace(state, x.order.oldest(r.Source), name) }
		if !known || !h.Red && has(before) && !has(one) {
			return false
		}
	}
	return true
}
