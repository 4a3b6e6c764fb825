package site

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// The kinds of events.
const (
	kindHydrate  = "hydrate"
	kindPromote  = "promote"
	kindRollback = "rollback"
	kindNow      = "override" // of gates, the policy or the trunk
	kindForeign  = "foreign"
)

// changeBudget is the number of trees that are read to find the apps that an event changed. Later events, which are
// older, name no apps then, and say so.
const changeBudget = 20_000

// history reads the commits of an environment branch.
func (b *reader) history(e *Environment) error {
	most := cmp.Or(b.request.Commits, historyLine)
	list, err := promote.ReadHistory(b.ctx, b.h, b.request.Trunk.Tree, e.Name, most+1)
	if err != nil {
		return err
	}
	e.Figures.Truncated = len(list) > most
	c := &changeFinder{reader: b, left: changeBudget}
	for i, h := range list[:min(len(list), most)] {
		if h.Command != nil {
			e.History = append(e.History, Event{
				Environment: e.Name, At: h.At, By: h.By(), What: h.What(),
				Kind: string(h.Command.Verb), Scope: h.Command.Scope, Until: h.Command.Until,
			})
			continue
		}
		event := Event{
			Environment: e.Name, Commit: h.Commit.String(), Source: b.commit(h.Source.Commit), At: h.At,
			By: h.By(), What: h.Subject, Kind: kindOf(h.Trailers),
		}
		event.Why = strings.TrimPrefix(strings.TrimPrefix(h.What(), h.Subject), "; ")
		event.tree, event.known, event.lead = h.Tree, true, promotedSources{now: h.Source, line: b.line}
		event.promoted = slices.ContainsFunc(h.Trailers,
			func(t gitstore.Trailer) bool { return t.Key == branch.TrailerFrom })
		if earlier := slices.IndexFunc(list[i+1:],
			func(h promote.HistoryEntry) bool { return h.Command == nil }); earlier >= 0 {
			event.Before, event.before = list[i+1+earlier].Commit.String(), list[i+1+earlier].Tree
			event.lead.before = list[i+1+earlier].Source
		} else {
			event.known = len(list) <= most // otherwise an older commit was not read
		}
		if event.Apps, event.Unknown, err = c.apps(event.before, h.Tree); err != nil {
			return err
		}
		e.History = append(e.History, event)
	}
	e.figures(b.request.Now)
	return nil
}

func kindOf(trailers []gitstore.Trailer) string {
	kind := kindForeign
	for _, t := range trailers {
		switch {
		case t.Key == branch.TrailerRollback, t.Key == branch.TrailerTakenBack:
			return kindRollback
		case t.Key == branch.TrailerRenderedAgain:
			return kindHydrate
		case t.Key == branch.TrailerNow, t.Key == branch.TrailerPolicyException, t.Key == branch.TrailerUnmerged:
			return kindNow
		case t.Key == branch.TrailerFrom || t.Key == branch.TrailerBy:
			kind = kindPromote
		case t.Key == branch.TrailerVersion && kind == kindForeign:
			kind = kindHydrate
		}
	}
	return kind
}

// changeFinder finds which apps changed between two trees of an environment branch, within a budget of trees.
type changeFinder struct {
	*reader
	left int
}

func (c *changeFinder) apps(before, after gitstore.Hash) (list []AppChange, unknown string, err error) {
	old, err := c.folders(before)
	if err != nil {
		return nil, "", err
	}
	now, err := c.folders(after)
	if err != nil {
		return nil, "", err
	}
	changed := map[string]*AppChange{}
	for _, name := range slices.Sorted(maps.Keys(union(old, now))) {
		if old[name] == now[name] {
			continue
		}
		if c.left <= 0 {
			return nil, "too many clusters changed to list the apps: `sluice diff` compares two commits", nil
		}
		was, err := c.folders(old[name])
		if err != nil {
			return nil, "", err
		}
		is, err := c.folders(now[name])
		if err != nil {
			return nil, "", err
		}
		for app := range union(was, is) {
			if was[app] == is[app] {
				continue
			}
			if changed[app] == nil {
				changed[app] = &AppChange{App: app}
			}
			changed[app].add(sample{name, was[app], is[app]})
		}
	}
	for _, app := range slices.Sorted(maps.Keys(changed)) {
		list = append(list, *changed[app])
	}
	return list, "", nil
}

func (c *changeFinder) folders(tree gitstore.Hash) (map[string]gitstore.Hash, error) {
	if !tree.IsZero() {
		c.left--
	}
	return c.trees(tree)
}

const week = 7 * 24 * time.Hour

// figures computes DORA's figures from the history.
func (e *Environment) figures(now time.Time) {
	f := &e.Figures
	const weeks = 12
	start := now.Truncate(week).Add(-(weeks - 1) * week)
	for i := range weeks {
		f.Weeks = append(f.Weeks, Week{Start: start.Add(time.Duration(i) * week)})
	}
	var leads, restores []time.Duration
	weekly := make([]struct{ leads, restores []time.Duration }, weeks)
	// commands deploy nothing
	states := slices.DeleteFunc(slices.Clone(e.History), func(h Event) bool { return h.Commit == "" })
	for i, h := range states {
		at := int(h.At.Sub(start) / week)
		inside := !h.At.Before(start) && at < len(f.Weeks)
		if h.Kind == kindRollback {
			f.Failed++
			if inside {
				f.Weeks[at].RolledBck++
			}
			if i+1 < len(states) {
				took := h.At.Sub(states[i+1].At)
				restores = append(restores, took)
				if inside {
					weekly[at].restores = append(weekly[at].restores, took)
				}
			}
			continue
		}
		f.Deployed++
		if inside {
			f.Weeks[at].Deployed++
		}
		if !h.promoted {
			continue
		}
		commits, ok := h.brought("")
		if !ok {
			f.LeadLacks++
		}
		for _, c := range commits {
			leads = append(leads, h.At.Sub(c.At))
			if inside {
				weekly[at].leads = append(weekly[at].leads, h.At.Sub(c.At))
			}
		}
	}
	for i := range weekly {
		w := &f.Weeks[i]
		w.Lead, w.LeadOf, w.Restore = median(weekly[i].leads), len(weekly[i].leads), median(weekly[i].restores)
	}
	f.Lead, f.LeadOf, f.Restore = median(leads), len(leads), median(restores)
	if n := len(states); n > 0 {
		span := now.Sub(states[n-1].At)
		f.PerWeek = float64(f.Deployed) / max(1, float64(span)/float64(week))
	}
}

func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// mainLine is the trunk's line of first parents, as far as it was read.
type mainLine struct {
	commits []Commit       // newest first
	at      map[string]int // their places, by hash
	touched Touched
}

// promotedSources are the source commits of a state of an environment, and of the state before it.
type promotedSources struct {
	now, before rollout.Source
	line        *mainLine
}

// move is a step of an app, or of all apps without a commit of their own, from one source commit to another.
type move struct{ from, to string }

// moves returns the steps that differ, for an app, or for all apps if app is "".
func (p promotedSources) moves(app string) map[move]bool {
	out := map[move]bool{}
	add := func(was, is rollout.ClusterSource, app string) {
		if m := (move{was.Of(app), is.Of(app)}); m.from != m.to && m.to != "" {
			out[m] = true
		}
	}
	clusters := map[string]bool{"": true} // "": those without a source of their own
	for name := range union(p.before.Clusters, p.now.Clusters) {
		clusters[name] = true
	}
	for name := range clusters {
		was, is := p.before.On(name), p.now.On(name)
		if app != "" {
			add(was, is, app)
			continue
		}
		add(was, is, "")
		for one := range union(was.Apps, is.Apps) {
			add(was, is, one)
		}
	}
	return out
}

// brought returns the commits of the trunk that a promotion brought for an app, or for any app if app is "", newest
// first: those after the commit that ran before. The first promotion to an environment brings the commit that it names.
// It is false if a commit is not on the part of the trunk that was read, or is newer than the promotion.
func (h *Event) brought(app string) (list []Commit, ok bool) {
	if !h.known { // the state before it
		return nil, false
	}
	line, places := h.lead.line, map[int]bool{}
	for m := range h.lead.moves(app) {
		to, known := line.at[m.to]
		from, alsoKnown := line.at[m.from]
		if m.from == "" {
			from, alsoKnown = to+1, known
		}
		if !known || !alsoKnown {
			return nil, false
		}
		for i := to; i < from; i++ { // none if the app went back
			places[i] = true
		}
	}
	for _, i := range slices.Sorted(maps.Keys(places)) {
		if line.commits[i].At.After(h.At) {
			return nil, false
		}
		list = append(list, line.commits[i])
	}
	return list, len(list) > 0
}
