package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// excluded reports whether a source has only changes that are held, or that a person declined.
func (x *proposer) excluded(c, next Source) bool {
	if d := x.rec.Declined; d != nil && x.mode() == modeRequest && x.notNewer(c.common(), d.Source.Commit) {
		return true
	}
	older := slices.ContainsFunc(x.rec.Holds,
		func(h Hold) bool { return x.order.at(c.Commit) <= x.order.at(h.Source.Commit) })
	if !older {
		return false
	}
	w := Proposal{Promoted: c, Source: next}
	x.leaveOut(&w)
	return w.Source.equalOn(x.s.Running.Source, x.names())
}

// leaveOut keeps held apps at the commits that they run.
func (x *proposer) leaveOut(w *Proposal) { x.leaveOutHeld(w, x.rec.Holds) }

// leaveOutHeld keeps the apps of some holds at the commits that they run.
func (x *proposer) leaveOutHeld(w *Proposal, holds []Hold) {
	runs, names := x.s.Running.Source, x.names()
	l := heldApps{promoted: w.Promoted, held: map[string]bool{}, released: map[string]bool{}}
	next := Source{Commit: w.Source.Commit, Apps: w.Source.Apps, Clusters: map[string]ClusterSource{}}
	for _, name := range names {
		next.Clusters[name] = w.Source.On(name)
	}
	for _, h := range holds {
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

// ReturnsText says which holds a requested promotion would break, who set them and why, and what to do.
func (s Situation) ReturnsText(w Proposal) string {
	var parts []string
	newer := "a newer commit that changes it is promoted without further words; "
	for _, h := range s.Record.Holds {
		if len(h.Apps) == 0 {
			newer = "" // what it changed is not known yet
		}
		if len(h.Apps) == 0 || slices.ContainsFunc(w.Returns, func(name string) bool {
			cluster := slices.ContainsFunc(s.Clusters, func(c ClusterState) bool { return c.Name == name })
			return slices.Contains(h.Apps, name) ||
				cluster && (len(h.Clusters) == 0 || slices.Contains(h.Clusters, name))
		}) {
			parts = append(parts, h.String())
		}
	}
	again := []string{"promote", s.Environment.Name}
	for _, name := range w.Workspaces {
		again = append(again, "--workspace", name)
	}
	for _, app := range (Scope{w.Apps, w.Workspaces}).others() {
		again = append(again, "--app", app)
	}
	if len(w.Promoted.Apps)+len(w.Promoted.Clusters) == 0 && w.Promoted.Commit != "" {
		again = append(again, "--commit", short(w.Promoted.Commit))
	}
	if w.Overtakes {
		again = append(again, "--now", "--reason WHY")
	}
	return fmt.Sprintf("it would bring back what was rolled back: %s (%s`%s` brings it as it was)",
		strings.Join(parts, "; "), newer, s.command(append(again, "--again REASON")...))
}

// heldApps is the result of leaveOut: apps or clusters that stay held, and held apps that the source changes.
type heldApps struct {
	promoted       Source
	changed        []string // apps of the current hold that promoted changes
	held, released map[string]bool
}

// keepHeld returns the source for one cluster that a hold covers.
func (x *proposer) keepHeld(h Hold, cluster string, want, have ClusterSource, l *heldApps) ClusterSource {
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

// changed returns the apps of a hold that a source changes.
func (x *proposer) changed(h Hold, promoted Source) []string {
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
