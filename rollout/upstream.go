package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
)

// LeftOut lists the apps of workspaces that a promotion leaves out, because they are red in an environment before this
// one.
type LeftOut struct {
	Whole      Source // what the environment would run with them
	From       string // the tree of the environment branch
	Workspaces []string
	Apps       []string // of these workspaces, on any cluster, before or after
	Refused    string   // why they cannot be left out; "" if they can
}

// is reports whether l describes a proposal on top of what the environment runs.
func (l *LeftOut) is(w *Proposal, tree string) bool {
	return l != nil && l.Whole.Equal(w.Whole) && l.From == tree && slices.Equal(l.Workspaces, w.Without)
}

// upstreams judges the environments that promotions come from.
type upstreams struct {
	*facts
	judged map[string]upstreamHealth // by environment, and what the record calls red there: each candidate asks again
}

// upstreamHealth is the health of an upstream environment. Red workspaces count only against what is promoted of them.
type upstreamHealth struct {
	judged
	red []string // workspaces that alone are red, or that were and are not healthy yet
}

// health judges an upstream environment. Workspaces that alone are red do not matter for its state: everything else
// must be healthy by statuses of its own, and another workspace must be healthy on each cluster on which one of them is
// not.
func (x *upstreams) health(b Upstream) upstreamHealth {
	key := strings.Join(append([]string{b.Name}, x.recordedRed(b.Name)...), " ")
	h, known := x.judged[key]
	if !known {
		h = x.judge(b)
		x.judged[key] = h
	}
	return h
}

func (x *upstreams) judge(b Upstream) upstreamHealth {
	if b.Site != nil {
		if h := b.Site.health(x.s.Now); h.state != Green {
			return upstreamHealth{h, x.recordedRed(b.Name)}
		}
	}
	clusters := living(b.Clusters)
	all := judge(x.p.Health, clusters)
	switch {
	case !x.p.SeparatesWorkspaces():
		return upstreamHealth{judged: all}
	case len(clusters) == 0: // all are frozen, which makes nothing healthy
		return upstreamHealth{all, x.recordedRed(b.Name)}
	case all.state == Green:
		return upstreamHealth{judged: all}
	}
	red := x.red(b, clusters)
	if len(red) == 0 {
		return upstreamHealth{judged: all}
	}
	patterns := x.p.Health.CommitStatuses
	rest := judgeEach(x.p.Health, clusters, func(c ClusterState) (State, string) {
		alone := slices.ContainsFunc(red, func(w string) bool { return ofWorkspace(patterns, c, w) != Green })
		return restOf(patterns, c, red, alone)
	})
	switch {
	case rest.state == Red && all.state != Red: // no other workspace is on a cluster on which one is not healthy yet
		return upstreamHealth{all, red}
	case rest.state == Red: // a failure of the whole environment, but what was red alone before stays so
		all.reason += "; no workspace is left out: something else is red, too, or no other workspace is on the same cluster"
		was := x.recordedRed(b.Name)
		return upstreamHealth{all, slices.DeleteFunc(red, func(w string) bool { return !slices.Contains(was, w) })}
	default:
		rest.reason = "without " + workspaceNoun(red) + Few(red) + ", " + rest.reason
		return upstreamHealth{rest, red}
	}
}

// red returns the workspaces that are red on some clusters, and those that were red and are not healthy on all of them
// again.
func (x *upstreams) red(b Upstream, clusters []ClusterState) []string {
	patterns := x.p.Health.CommitStatuses
	var out []string
	for _, c := range clusters {
		out = append(out, redOn(patterns, c)...)
	}
	for _, name := range x.recordedRed(b.Name) {
		if slices.ContainsFunc(clusters, func(c ClusterState) bool { return ofWorkspace(patterns, c, name) != Green }) {
			out = append(out, name)
		}
	}
	return sorted(out)
}

// recordedRed returns the workspaces of an upstream environment that the record calls red.
func (x *upstreams) recordedRed(environment string) []string {
	var out []string
	if watch := x.rec.Before[environment]; watch != nil {
		for name, h := range watch.Workspaces {
			if h.Red {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// ofWorkspace judges the apps of a workspace on a cluster, by the patterns that name ${app}. Without an app, it is
// green.
func ofWorkspace(patterns []string, c ClusterState, workspace string) State {
	if c.Apps == nil {
		return Unknown
	}
	own := c
	own.Apps = slices.DeleteFunc(slices.Clone(c.Apps),
		func(app string) bool { return fleet.WorkspaceOf(app) != workspace })
	state, _ := ofCluster(ofApps(patterns), own)
	return state
}

// ofApps returns the patterns that name ${app}. Only these tell workspaces apart.
func ofApps(patterns []string) []string {
	return slices.DeleteFunc(slices.Clone(patterns), func(p string) bool { return !strings.Contains(p, AppReference) })
}

// passed reports whether a workspace that is not red any more has baked upstream, and the environment runs nothing of
// it that was red. Then the record need not remember it.
func (x *upstreams) passed(environment, workspace string, since time.Time) bool {
	state, known := x.stateAt(environment, since)
	return known && !x.remembers(environment, workspace, since) && !x.asOf(environment).Before(since.Add(x.bake)) &&
		x.order.knows(x.s.Running.Source) && x.order.containsWorkspace(x.s.Running.Source, state, workspace)
}

// wentBack returns a state that an upstream environment ran before a time, whose part of a workspace went back until
// then, and that a source contains; "" if there is none. What the environment ran later may contain it as well, and was
// judged then: a source that has that part is newer.
func (x *upstreams) wentBack(environment, workspace string, since time.Time, promoted Source) string {
	state, known := x.stateAt(environment, since)
	if !known {
		return ""
	}
	var before, later []Source
	for _, r := range x.rec.Before[environment].Ran {
		if past := x.order.oldest(r.Source); r.At.After(since) {
			later = append(later, past)
		} else if !x.order.containsWorkspace(state, past, workspace) {
			before = append(before, past)
		}
	}
	for _, past := range before {
		repaired := func(s Source) bool {
			return x.order.containsWorkspace(s, past, workspace) && x.order.containsWorkspace(promoted, s, workspace)
		}
		if x.order.containsWorkspace(promoted, past, workspace) && !slices.ContainsFunc(later, repaired) {
			return past.String()
		}
	}
	return ""
}

// remembers reports whether a state of a workspace that went back is known that the environment does not run yet.
func (x *upstreams) remembers(environment, workspace string, since time.Time) bool {
	state, known := x.stateAt(environment, since)
	return known && slices.ContainsFunc(x.rec.Before[environment].Ran, func(r PastState) bool {
		past := x.order.oldest(r.Source)
		return !r.At.After(since) && !x.order.containsWorkspace(state, past, workspace) &&
			!x.order.containsWorkspace(x.s.Running.Source, past, workspace)
	})
}

// stateAt returns what an upstream environment ran at a time, as one commit for each app.
func (x *upstreams) stateAt(environment string, at time.Time) (Source, bool) {
	watch := x.rec.Before[environment]
	if watch == nil || len(watch.Ran) == 0 {
		return Source{}, false
	}
	state := watch.Ran[0]
	for _, r := range watch.Ran[1:] {
		if !r.At.After(at) {
			state = r
		}
	}
	return x.order.oldest(state.Source), true
}

// lateWorkspace is a workspace whose part of a source may not be promoted yet.
type lateWorkspace struct {
	name         string
	older        bool // it is not red any more, and the source has only what was, or what went back
	state        State
	reason       string
	since, until time.Time
}

// late returns the workspaces whose part of a source may not come from an upstream environment. A workspace that is not
// red any more must bake, and only what it runs there since then, or newer commits, may come: what it ran before was
// red.
func (x *upstreams) late(environment string, promoted Source) []lateWorkspace {
	watch := x.rec.Before[environment]
	if watch == nil || !x.p.SeparatesWorkspaces() {
		return nil
	}
	var out []lateWorkspace
	for _, name := range slices.Sorted(maps.Keys(watch.Workspaces)) {
		h := watch.Workspaces[name]
		one := lateWorkspace{name: name, state: Waiting, since: h.Since}
		state, known := x.stateAt(environment, h.Since)
		switch until := h.Since.Add(x.bake); {
		case h.Red:
			one.state, one.reason = Red, fmt.Sprintf("workspace %s is red in %s since %s", name, environment,
				Stamp(h.Since))
		case x.asOf(environment).Before(until):
			one.until, one.reason = until, fmt.Sprintf("workspace %s was red in %s, and bakes there until %s", name,
				environment, Stamp(until))
		case !known || !x.order.containsWorkspace(promoted, state, name):
			one.older, one.reason = true,
				fmt.Sprintf("workspace %s was red in %s until it ran %s, which %s does not contain", name, environment,
					state, promoted)
		default:
			past := x.wentBack(environment, name, h.Since, promoted)
			if past == "" {
				continue
			}
			one.older, one.reason = true, fmt.Sprintf("workspace %s was red in %s with %s, and went back there", name,
				environment, past)
		}
		out = append(out, one)
	}
	return out
}

// mayCome reports whether a workspace is late whose part of a source may be promoted later.
func (x *upstreams) mayCome(promoted Source) bool {
	return slices.ContainsFunc(x.s.Environment.After, func(name string) bool {
		return slices.ContainsFunc(x.late(name, promoted), func(w lateWorkspace) bool { return !w.older })
	})
}

// lateNames returns the workspaces whose part of a source may not come from some of the upstream environments.
func (x *upstreams) lateNames(promoted Source) []string {
	var out []string
	for _, name := range x.s.Environment.After {
		for _, w := range x.late(name, promoted) {
			out = append(out, w.name)
		}
	}
	return sorted(out)
}

// behind returns the workspaces that an earlier promotion left out and that are not promoted since.
func (x *upstreams) behind() []string {
	runs := x.s.Running.Source
	return slices.DeleteFunc(x.lateNames(Latest(x.s.Trunk, x.s.Before)), func(workspace string) bool {
		return !slices.ContainsFunc(x.names(), func(cluster string) bool {
			c := runs.On(cluster)
			return slices.ContainsFunc(appsOf(c), func(app string) bool {
				return fleet.WorkspaceOf(app) == workspace && x.order.at(c.Of(app)) < x.order.at(c.Commit)
			})
		})
	})
}

// differsOnlyIn reports whether a source differs from what the environment runs in apps of some workspaces only.
func (x *upstreams) differsOnlyIn(next Source, workspaces []string) bool {
	runs := x.s.Running.Source
	return !runs.Empty() && !slices.ContainsFunc(x.names(), func(cluster string) bool {
		have, want := runs.On(cluster), next.On(cluster)
		return have.Commit != want.Commit || slices.ContainsFunc(appsOf(have, want), func(app string) bool {
			return have.Of(app) != want.Of(app) && !slices.Contains(workspaces, fleet.WorkspaceOf(app))
		})
	})
}

// arrivedWithout reports whether the environment runs what was requested, without workspaces that are red upstream,
// since a rollout that began after the request, or without those whose requested commits were red and will not come any
// more. Such a request is done: automatic promotions bring the rest, or another request does.
func (x *upstreams) arrivedWithout(q *Request) bool {
	p := x.rec.Progress
	if q == nil || q.Now || q.Renders != "" || len(q.Apps) > 0 {
		return false
	}
	landed := p != nil && !p.Rollback && p.Tree == x.s.Running.Tree && !p.Started.Before(q.At)
	if !landed && x.mayCome(q.Source) {
		return false
	}
	if !x.order.knows(x.s.Running.Source) || !x.order.knows(q.Source) {
		return false
	}
	late := x.lateNames(q.Source)
	return len(late) > 0 && x.differsOnlyIn(x.order.compose(x.s.Running.Source, q.Source, nil), late)
}

// leaveOut keeps the workspaces of w.Without at the commits that the environment runs. If that is not possible,
// w.Refused says why.
func (x *upstreams) leaveOut(w *Proposal) {
	runs, names, l := x.s.Running.Source, x.names(), x.s.LeftOut
	switch {
	case len(w.Without) == 0:
		return
	case x.differsOnlyIn(w.Whole, w.Without):
		w.Source = runs.Among(names)
		return
	case x.s.Running.Tree == "":
		w.Refused = "the environment runs nothing yet"
		return
	case !l.is(w, x.s.Running.Tree):
		w.Refused = "which apps it has is not known"
		return
	case l.Refused != "":
		w.Refused = l.Refused
		return
	}
	next := Source{Commit: w.Source.Commit, Apps: w.Source.Apps, Clusters: map[string]ClusterSource{}}
	for _, name := range names {
		one, have := w.Source.On(name), runs.On(name)
		for _, app := range l.Apps {
			one = one.with(app, have.Of(app))
		}
		next.Clusters[name] = one
	}
	w.Source = next.Among(names)
}

// gate is the gate of an upstream environment that is green but for workspaces that are red there, or were.
func (x *upstreams) gate(w Proposal, environment string, g Gate) Gate {
	if until := x.bakesUntil(environment, w.Apps); !x.p.SeparatesWorkspaces() && x.asOf(environment).Before(until) {
		g.State, g.Until, g.Reason = Waiting, until, "a workspace that was red alone bakes in "+environment+" until "+
			Stamp(until)
		return g
	}
	var left []lateWorkspace
	for _, late := range x.late(environment, w.Promoted) {
		switch out := slices.Contains(w.Without, late.name); {
		case len(w.Apps) > 0 && (late.older || !hasAppOf(w.Apps, late.name)): // whoever names an app and a commit means it
		case out && w.Refused == "":
			left = append(left, late)
		default:
			g.State, g.Reason, g.Since, g.Until = late.state, late.reason, late.since, late.until
			if out {
				g.Reason += "; it is not left out: " + w.Refused
			}
			return g
		}
	}
	if len(left) > 0 {
		g.Reason, g.Until = "left out: "+reasons(left), x.firstUntil(left)
	}
	return g
}

// bakesUntil returns when the last workspace of some apps that was red alone in an upstream environment has baked
// there; zero if there is none. It counts after onWorkspaceFailure is removed: the health of the whole environment has
// not been red meanwhile, so its own time is older.
func (x *upstreams) bakesUntil(environment string, apps []string) time.Time {
	var out time.Time
	if watch := x.rec.Before[environment]; watch != nil {
		for name, h := range watch.Workspaces {
			if until := h.Since.Add(x.bake); (len(apps) == 0 || hasAppOf(apps, name)) && until.After(out) {
				out = until
			}
		}
	}
	return out
}

// reasons lists at most five reasons.
func reasons(late []lateWorkspace) string {
	out := make([]string, 0, len(late))
	for _, w := range late {
		out = append(out, w.reason)
	}
	if n := len(out) - 5; n > 0 {
		out = append(out[:5], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(out, "; ")
}

// firstUntil returns when the first of some workspaces may come without an event; zero if that is unknown.
func (x *upstreams) firstUntil(late []lateWorkspace) time.Time {
	times := make([]time.Time, 0, len(late))
	for _, w := range late {
		times = append(times, w.until)
	}
	return earliest(x.s.Now, times...)
}

// onlyLate returns the gates of a proposal that brings nothing but workspaces that are left out.
func (x *upstreams) onlyLate(w Proposal) []Gate {
	var out []Gate
	for _, name := range x.s.Environment.After {
		if late := x.late(name, w.Promoted); len(late) > 0 {
			out = append(out, Gate{
				Name: GateBefore + name, State: Waiting, Since: late[0].since, Until: x.firstUntil(late),
				Reason: fmt.Sprintf("everything else of %s runs: %s", short(w.Promoted.Commit), reasons(late)),
			})
		}
	}
	return out
}
