package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// sicken changes the health of staging: of all of it or, with workspaces, of one app of them.
func (w *world) sicken() {
	if !w.tenants || w.r.IntN(3) == 0 {
		w.isRed = !w.isRed
		w.logf("staging red: %v", w.isRed)
		return
	}
	app := pick(w.r, w.apps[:2]...)
	if w.sick[app] = pick(w.r, "failure", "failure", "failure", "pending", "", ""); w.sick[app] == "" {
		delete(w.sick, app)
	}
	w.logf("staging: %s is %q", app, w.sick[app])
}

// stagingStatuses are those of the apps of staging.
func (w *world) stagingStatuses() []rollout.Status {
	out := w.statuses(w.isRed, "")
	for i, app := range w.apps {
		if state := w.sick[app]; state != "" && !w.isRed {
			out[i].State = state
		}
	}
	return out
}

// unhealthy are the workspaces of staging that are red, or were and are not green yet, and whether one is red now.
func (w *world) unhealthy() (out []string, red bool) {
	for _, app := range w.apps {
		name := fleet.WorkspaceOf(app)
		if name != "" && (w.sick[app] == "failure" || w.ill[name] && w.sick[app] != "") {
			out, red = append(out, name), red || w.sick[app] == "failure"
		}
	}
	return out, red
}

// allRed reports whether staging as a whole is red: no other workspace is green.
func (w *world) allRed() bool {
	out, red := w.unhealthy()
	return w.isRed || red && len(out) == 2
}

// sees notes what the pass has seen of staging.
func (w *world) sees() {
	if w.allRed() {
		w.stagingRed = w.elapsed()
	}
	for _, app := range w.apps {
		name := fleet.WorkspaceOf(app)
		switch {
		case name == "":
		case !w.isRed && w.sick[app] == "failure" && !w.allRed():
			w.ill[name] = true
		case !w.isRed && w.sick[app] == "" && w.ill[name]:
			delete(w.ill, name)
			w.recovered[name] = ran{w.staging, w.elapsed()}
		}
	}
}

// leaves describes a promotion without workspaces, as a caller does.
func (w *world) leaves(s *rollout.Situation, next *rollout.Proposal) (*rollout.Proposal, error) {
	if next.Refused == "" {
		return next, nil
	}
	s.LeftOut = &rollout.LeftOut{Whole: next.Whole, From: w.id, Workspaces: next.Without}
	for _, app := range w.apps {
		if slices.Contains(next.Without, fleet.WorkspaceOf(app)) {
			s.LeftOut.Apps = append(s.LeftOut.Apps, app)
		}
	}
	if w.r.IntN(8) == 0 {
		s.LeftOut.Refused = "an object moves"
		w.done["left out, refused"]++
	}
	return rollout.Next(*s)
}

// leavesOut checks that a promotion brings no commit of a workspace that is red in staging, or that was red there and
// did not bake since.
func (w *world) leavesOut(a rollout.Action) error {
	at := func(c string) int { return slices.Index(w.trunk, c) }
	if len(a.Without) > 0 {
		w.done["left out"]++
		if a.By != "" {
			w.done["left out, requested"]++
		}
	}
	if a.Overtakes {
		return nil
	}
	bake := w.bake()
	for _, m := range w.members {
		for _, app := range w.apps {
			have, want, name := w.prod.source.On(m.Name).Of(app), a.Source.On(m.Name).Of(app), fleet.WorkspaceOf(app)
			left, again := slices.Contains(a.Without, name), w.recovered[name]
			switch {
			case have == want:
				continue
			case left:
				return fmt.Errorf("%s is left out, and %s of %s becomes %s", name, app, m.Name, want)
			case w.ill[name]:
				return fmt.Errorf("%s is red in staging, and %s of %s becomes %s", name, app, m.Name, want)
			case again.at.IsZero():
				continue
			case w.elapsed().Sub(again.at) < bake:
				return fmt.Errorf("%s is green in staging since %s only", name, again.at)
			case len(a.Apps) == 0 && at(want) < at(again.source.Commit) && !w.hadSince(app, again):
				return fmt.Errorf("%s was red in staging until it ran %s, and %s of %s becomes %s", name, again.source,
					app, m.Name, want)
			}
			if at(have) < at(w.prod.source.On(m.Name).Commit) {
				w.done["left out, caught up"]++
			}
		}
	}
	return nil
}

// hadSince reports whether prod has run an app as staging did when it was green again. If somebody then asks for an
// older commit, that is theirs.
func (w *world) hadSince(app string, again ran) bool {
	at := func(c string) int { return slices.Index(w.trunk, c) }
	return slices.ContainsFunc(w.past, func(p rollout.PastState) bool {
		return !p.At.Before(again.at) && !slices.ContainsFunc(w.names(),
			func(cluster string) bool { return at(p.Source.On(cluster).Of(app)) < at(again.source.Commit) })
	})
}

// restGoesOn checks that red workspaces do not delay the rest: if staging's gate is green without their statuses, it is
// green with them, and they are left out.
func (w *world) restGoesOn(s rollout.Situation, d rollout.Decision) error {
	out, _ := w.unhealthy()
	if len(out) == 0 || w.allRed() || s.LeftOut != nil && s.LeftOut.Refused != "" || w.record.Rollback != nil {
		return nil
	}
	healthy := s
	healthy.Before = slices.Clone(s.Before)
	up := &healthy.Before[0]
	up.Clusters = slices.Clone(up.Clusters)
	up.Clusters[0].Statuses = slices.Clone(up.Clusters[0].Statuses)
	for i, app := range w.apps {
		if slices.Contains(out, fleet.WorkspaceOf(app)) {
			up.Clusters[0].Statuses[i].State = "success"
		}
	}
	healthy.Record.Before = maps.Clone(s.Record.Before)
	if history := s.Record.Before["staging"]; history != nil {
		one := *history
		one.Workspaces = nil
		healthy.Record.Before["staging"] = &one
	}
	without, err := rollout.Decide(healthy)
	if err != nil || without.Proposal == nil || without.Proposal.Overtakes || len(without.Proposal.Apps) > 0 ||
		!w.bringsMore(*without.Proposal, out) {
		return err
	}
	gate := func(gates []rollout.Gate) rollout.Gate {
		i := slices.IndexFunc(gates, func(g rollout.Gate) bool { return strings.HasPrefix(g.Name, rollout.GateBefore) })
		if i < 0 {
			return rollout.Gate{}
		}
		return gates[i]
	}
	want, got := gate(without.Gates), gate(d.Gates)
	if want.State != rollout.Green {
		return nil
	}
	w.done["left out, rest goes on"]++
	if got.State != rollout.Green || d.Proposal == nil || !d.Proposal.Promoted.Equal(without.Proposal.Promoted) {
		return fmt.Errorf("without the statuses of %v, %+v is %v; with them, %+v is %v", out, without.Proposal, want,
			d.Proposal, got)
	}
	return nil
}

// bringsMore reports whether a proposal changes more than workspaces that may be left out.
func (w *world) bringsMore(p rollout.Proposal, out []string) bool {
	for name := range w.recovered {
		out = append(out, name)
	}
	return slices.ContainsFunc(w.names(), func(cluster string) bool {
		have, want := w.prod.source.On(cluster), p.Source.On(cluster)
		return have.Commit != want.Commit || slices.ContainsFunc(w.apps, func(app string) bool {
			return have.Of(app) != want.Of(app) && !slices.Contains(out, fleet.WorkspaceOf(app))
		})
	})
}
