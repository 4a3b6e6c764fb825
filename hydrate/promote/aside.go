package promote

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
)

// Aside is a workspace whose health turned red during a rollout. The rollout continues without its content, and no gate of the rollout
// counts its statuses any more.
type Aside struct {
	Workspace string    `yaml:"workspace"`
	Reason    string    `yaml:"reason"`
	At        time.Time `yaml:"at"`
}

// Aside returns the workspaces that the rollout under way, or the last one, goes on without.
func (r Record) Aside() []Aside {
	if r.Progress == nil {
		return nil
	}
	return r.Progress.Aside
}

// Unwell is the health of a workspace in an upstream environment, recorded when it is first red.
type Unwell struct {
	Red     bool      `yaml:"red,omitempty"` // until all of its statuses are green
	LastRed time.Time `yaml:"lastRed"`       // time of the last change to or from red
}

// without returns clusters without some of their apps, whose statuses then do not count.
func without(clusters []ClusterState, drop func(cluster, app string) bool) []ClusterState {
	out := slices.Clone(clusters)
	for i := range out {
		c := &out[i]
		if !slices.ContainsFunc(c.Apps, func(app string) bool { return drop(c.Name, app) }) {
			continue
		}
		apps := []string{} // nil would mean that they are unknown
		for _, app := range c.Apps {
			if !drop(c.Name, app) {
				apps = append(apps, app)
			}
		}
		c.Apps = apps
	}
	return out
}

// byWorkspace judges each workspace by the statuses of its apps. Only patterns that name ${app} tell workspaces apart.
func byWorkspace(h fleet.Health, clusters []ClusterState) map[string]judged {
	h.CommitStatuses = slices.DeleteFunc(slices.Clone(h.CommitStatuses), func(p string) bool { return !strings.Contains(p, AppReference) })
	if len(h.CommitStatuses) == 0 {
		return nil
	}
	parts := map[string][]ClusterState{}
	for _, c := range clusters {
		apps := map[string][]string{}
		for _, app := range c.Apps {
			if w := fleet.WorkspaceOf(app); w != "" {
				apps[w] = append(apps[w], app)
			}
		}
		for w, mine := range apps {
			one := c
			one.Apps = mine
			parts[w] = append(parts[w], one)
		}
	}
	out := map[string]judged{}
	for w, list := range parts {
		out[w] = judge(h, list)
	}
	return out
}

// redWorkspaces returns the workspaces that alone make some clusters red, sorted, with the reasons. It returns none if the clusters are red without
// them as well.
func redWorkspaces(h fleet.Health, clusters []ClusterState) ([]string, map[string]judged) {
	if judge(h, clusters).state != Red {
		return nil, nil
	}
	all := byWorkspace(h, clusters)
	maps.DeleteFunc(all, func(_ string, j judged) bool { return j.state != Red })
	rest := without(clusters, func(_, app string) bool { _, red := all[fleet.WorkspaceOf(app)]; return red })
	if len(all) == 0 || judge(h, rest).state == Red {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(all)), all
}

// counted returns the moved clusters with the apps whose statuses count for the rollout: not those of workspaces that are set aside, nor
// those that a hold keeps back on the cluster, so that the rollout brings nothing to them.
func (x *rolloutGates) counted() []ClusterState {
	p := x.rec.Progress
	before, _ := x.settled() // without an earlier state, everything counts
	return without(x.movedClusters(), func(cluster, app string) bool {
		w := fleet.WorkspaceOf(app)
		if w == "" {
			return false
		}
		return slices.ContainsFunc(p.Aside, func(a Aside) bool { return a.Workspace == w }) || slices.ContainsFunc(x.rec.Holds, func(h Hold) bool {
			return slices.Contains(h.Apps, app) && (len(h.Clusters) == 0 || slices.Contains(h.Clusters, cluster)) && !x.newer(cluster, app, before.Source)
		})
	})
}

// observeAside lets the rollout continue without the workspaces that alone turned it red: what it brings to them goes back where it has not
// arrived and, if onFailure says so, everywhere.
func (x *observer) observeAside() error {
	p := x.rec.Progress
	if !p.underWay() || p.Rollback || x.rec.Rollback != nil || x.rec.Halt != nil {
		return nil
	}
	names, why := redWorkspaces(x.p.Health, x.rolloutGates.counted())
	if len(names) == 0 {
		return nil
	}
	e := Event{Kind: EventSetAside, Workspaces: names}
	var reasons []string
	for _, w := range names {
		reasons = append(reasons, w+": "+why[w].reason)
	}
	e.Reason = strings.Join(reasons, "; ")
	to, known := x.settled()
	brought := map[string]bool{}
	for _, name := range x.names() {
		if !x.clusters[name].behind() && x.p.OnFailure != "rollback" {
			continue
		}
		apps := x.newerApps(name, names, to.Source)
		for _, app := range apps {
			brought[app] = true
		}
		if len(apps) == 0 {
			continue
		}
		e.Clusters = append(e.Clusters, name)
		if x.clusters[name].behind() {
			e.Later = append(e.Later, name)
		}
	}
	e.Apps = slices.Sorted(maps.Keys(brought))
	if e.To = to; !known && len(e.Clusters) > 0 {
		return nil // there is no state to take it from: the environment halts
	}
	return x.emit(e)
}

// newerApps returns the apps of workspaces that a cluster shall run from newer commits than an earlier source has.
func (x *facts) newerApps(cluster string, workspaces []string, earlier Source) []string {
	var out []string
	for _, w := range workspaces {
		for _, app := range x.s.Workspaces[w] {
			if x.newer(cluster, app, earlier) {
				out = append(out, app)
			}
		}
	}
	return out
}

// newer reports whether a cluster shall run an app from a newer commit than an earlier source has.
func (x *facts) newer(cluster, app string, earlier Source) bool {
	return x.order.at(x.s.Running.Source.On(cluster).Of(app)) > x.order.at(earlier.On(cluster).Of(app))
}

// settled returns the last earlier state whose rollout was complete, or else the last earlier state.
func (x *facts) settled() (PastState, bool) {
	for _, r := range slices.Backward(x.rec.Ran) {
		if r.Tree != x.s.Running.Tree && r.Tree != "" && !r.Healthy.IsZero() {
			return r, true
		}
	}
	return x.previous()
}

// setAside applies an EventSetAside.
func setAside(r *Record, e Event) {
	p := r.Progress
	for _, w := range e.Workspaces {
		p.Aside = append(p.Aside, Aside{Workspace: w, Reason: e.Reason, At: e.At})
	}
	if len(e.Clusters) == 0 {
		return // all clusters of the rollout have it, and keep it
	}
	r.Rollback = &Rollback{
		Aside: true, To: e.To.Source, Tree: e.To.Tree, From: p.Source, FromTree: p.Tree, Clusters: sorted(e.Clusters), Later: sorted(e.Later),
		Apps: sorted(e.Apps), Workspaces: sorted(e.Workspaces), Reason: e.Reason, At: e.At,
	}
}

// continued lets the rollout under way continue with another tree, in which workspaces are set aside. Waves keep their times.
func continued(r *Record, e Event) {
	p := r.Progress
	p.Source, p.Tree, p.LastMove = e.Source.tidy(), e.Tree, e.At
	p.Changed = sorted(append(slices.Clone(p.Changed), e.Clusters...))
	if n := len(r.Ran); n > 0 && r.Ran[n-1].Tree == r.Rollback.FromTree {
		r.Ran[n-1].Source, r.Ran[n-1].Tree = p.Source, p.Tree
	}
}

// observeWorkspaces follows the health of workspaces in an upstream environment.
func (x *observer) observeWorkspaces(b Upstream) error {
	clusters := living(b.Clusters)
	red, _ := redWorkspaces(x.p.Health, clusters)
	unwell := x.rec.Before[b.Name].Unwell
	var turned []string
	for _, w := range red {
		if !unwell[w].Red {
			turned = append(turned, w)
		}
	}
	if len(turned) > 0 {
		if err := x.emit(Event{Kind: EventBeforeRed, Target: b.Name, Workspaces: turned}); err != nil {
			return err
		}
	}
	var well []string
	var states map[string]judged
	for _, w := range slices.Sorted(maps.Keys(unwell)) {
		if !unwell[w].Red {
			continue
		}
		if states == nil {
			states = byWorkspace(x.p.Health, clusters)
		}
		if j, has := states[w]; !has || j.state == Green {
			well = append(well, w)
		}
	}
	if len(well) == 0 {
		return nil
	}
	return x.emit(Event{Kind: EventBeforeNotRed, Target: b.Name, Workspaces: well})
}

// upstreamHealth judges an upstream environment without the workspaces that are red in it.
func (x *facts) upstreamHealth(b Upstream) judged {
	clusters := living(b.Clusters)
	if w := x.rec.Before[b.Name]; w != nil && len(w.Unwell) > 0 {
		clusters = without(clusters, func(_, app string) bool { return w.Unwell[fleet.WorkspaceOf(app)].Red })
	}
	return judge(x.p.Health, clusters)
}

// notReady returns the gate of a workspace that is red in an upstream environment, or has not baked there since it was; nil if it may be
// promoted.
func (x *facts) notReady(workspace string, b Upstream) *Gate {
	watch := x.rec.Before[b.Name]
	if watch == nil {
		return nil
	}
	u, known := watch.Unwell[workspace]
	until := u.LastRed.Add(x.bake)
	switch {
	case !known:
		return nil
	case u.Red:
		why := byWorkspace(x.p.Health, living(b.Clusters))[workspace]
		return &Gate{Name: GateBefore + b.Name, State: Red, Since: u.LastRed, Reason: fmt.Sprintf("%s: workspace %s: %s", b.Name, workspace, why.reason)}
	case x.s.Now.Before(until):
		return &Gate{Name: GateBefore + b.Name, State: Waiting, Since: u.LastRed, Until: until, Reason: fmt.Sprintf("workspace %s bakes in %s until %s", workspace, b.Name, Stamp(until))}
	}
	return nil
}

// brings returns the workspaces of which a source has apps at other commits than the environment runs.
func (x *facts) brings(next Source) []string {
	var out []string
	for _, w := range slices.Sorted(maps.Keys(x.s.Workspaces)) {
		if slices.ContainsFunc(x.names(), func(cluster string) bool {
			return slices.ContainsFunc(x.s.Workspaces[w], func(app string) bool {
				return next.On(cluster).Of(app) != x.s.Running.Source.On(cluster).Of(app)
			})
		}) {
			out = append(out, w)
		}
	}
	return out
}

// leaveOutUnwell keeps the apps of workspaces that are not ready upstream at the commits that they run. If nothing is left of the proposal, it
// reports so, and the proposal stays as it is: its gates say why it waits.
func (x *proposer) leaveOutUnwell(w *Proposal) (nothingLeft bool) {
	runs := x.s.Running.Source
	if w.Overtakes || runs.Empty() || !slices.ContainsFunc(x.s.Before, func(b Upstream) bool { return x.rec.Before[b.Name] != nil && len(x.rec.Before[b.Name].Unwell) > 0 }) {
		return false
	}
	var out []string
	for _, space := range x.brings(w.Source) {
		if slices.ContainsFunc(x.s.Before, func(b Upstream) bool { return x.notReady(space, b) != nil }) {
			out = append(out, space)
		}
	}
	if len(out) == 0 {
		return false
	}
	next := x.keeps(w.Source, out)
	if next.equalOn(runs, x.names()) {
		return true
	}
	w.Source, w.Unwell = next, out
	return false
}

// doneButUnwell reports whether a requested promotion has landed except for workspaces that are not ready upstream. An automatic promotion
// or another request brings those.
func (x *facts) doneButUnwell(q *Request) bool {
	p := x.rec.Progress
	if p == nil || p.Tree != x.s.Running.Tree || p.Started.Before(q.At) || q.Now || len(q.Apps) > 0 {
		return false
	}
	next := x.order.compose(x.s.Running.Source, q.Source, nil).Among(x.names())
	late := x.brings(next)
	for _, w := range late {
		if !slices.ContainsFunc(x.s.Before, func(b Upstream) bool { return x.notReady(w, b) != nil }) {
			return false
		}
	}
	return len(late) > 0 && x.keeps(next, late).equalOn(x.s.Running.Source, x.names())
}

// keeps returns a source in which the environment keeps what it runs of some workspaces.
func (x *facts) keeps(next Source, workspaces []string) Source {
	out := Source{Commit: next.Commit, Apps: next.Apps, Clusters: map[string]ClusterSource{}}
	for _, name := range x.names() {
		one := next.On(name)
		for _, w := range workspaces {
			for _, app := range x.s.Workspaces[w] {
				one = one.with(app, x.s.Running.Source.On(name).Of(app))
			}
		}
		out.Clusters[name] = one
	}
	return out.Among(x.names())
}
