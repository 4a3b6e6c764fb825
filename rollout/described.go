package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
)

// Described are the clusters of one environment that apps of the environment at hand describe: objects of Cluster API on
// the branch of a management cluster. Such apps come in the waves of the clusters that they describe, each wave in a
// move of the environment branch of its own.
type Described struct {
	Environment fleet.Environment // of the described clusters
	Record      Record
	Clusters    []DescribedCluster // all clusters of the environment, so that the waves are the same
	Gone        []DescribedCluster // that the branch has, and that no app describes any more; each with one step
	Lost        bool               // the fleet has the environment no more; then Record is empty
}

// DescribedCluster is a cluster with the apps that describe it, in the order of an upgrade: the apps of one step move
// together. A cluster that no app describes has none.
type DescribedCluster struct {
	Cluster
	Steps [][]string
}

// Entire is what a proposal would bring if all described clusters moved at once.
type Entire struct {
	Source  Source
	Changed []string // apps that describe clusters and whose manifests it changes, on any cluster
	// Moved says when the move that last changed an app which describes a cluster was complete, or was followed by
	// another one; zero if none has followed yet. Apps that no known move changed are not in it.
	Moved map[string]time.Time
	// Others means that it changes apps that describe no cluster.
	Others bool
	// Behind names, for an app that describes a cluster, a cluster whose branch does not have what the environment branch
	// has of it, also a frozen one.
	Behind map[string]string
	// Skips are apps of described clusters that it would upgrade by more than one minor version, and that no older commit
	// upgrades by one, with the reason of each; SkipsWhy is that of all.
	Skips    map[string]string
	SkipsWhy string
	// Minors are apps of described clusters that it upgrades to another minor version.
	Minors map[string]bool
	// Round is what apps of described clusters get first. The other fields describe Source with the round applied.
	Round   Round
	Failure string // why it cannot be rendered: then the proposal is not divided
}

// Round is what apps of described clusters get before what is promoted, because Kubernetes skips no minor version. An
// empty Round changes nothing.
type Round struct {
	Apps  map[string]string // to an older commit of the trunk; "" keeps what the app runs
	Why   string
	Later string // what apps wait for that the round does not change
}

// Of returns a source with the commits of the round for its apps. Apps that run this commit, or a newer one, keep it.
func (r Round) Of(t Trunk, source, running Source, clusters []string) Source {
	if len(r.Apps) == 0 {
		return source
	}
	order, out := t.order(), Source{Commit: source.Commit, Apps: source.Apps, Clusters: map[string]ClusterSource{}}
	for _, name := range clusters {
		want, have := source.On(name), running.On(name)
		for app, commit := range r.Apps {
			switch {
			case want.Of(app) == have.Of(app):
			case order.at(have.Of(app)) >= order.at(commit):
				want = want.with(app, have.Of(app))
			default:
				want = want.with(app, commit)
			}
		}
		out.Clusters[name] = want
	}
	return out.Among(clusters)
}

// Stays returns which apps keep what they run whatever is promoted: those that describe frozen clusters, and those that
// holds name.
func Stays(s Situation) (func(app string) bool, error) {
	_, frozen, err := stages(s, 0)
	return func(app string) bool {
		return slices.Contains(frozen, app) || slices.ContainsFunc(s.Record.Holds, func(h Hold) bool {
			return (h.Tree != "" || h.Whole) && (len(h.Apps) == 0 || slices.Contains(h.Apps, app))
		})
	}, err
}

// stage is a part of the apps that describe clusters, which moves at once.
type stage struct {
	name   string        // prod/canary, prod/canary 2 of 3
	wave   string        // prod/canary
	apps   []string      // that may move
	all    []string      // with those of frozen clusters
	settle time.Duration // how long it must hold before the next stage of its wave
	bake   time.Duration // how long it must hold before later waves
	gates  []Gate        // what closes the environment of the described clusters
	firm   []Gate        // that of gates which --now does not pass
}

// stages divides the apps that describe clusters. Apps of frozen clusters are in no stage: they stay. settle is the pause
// between the steps of a wave, unless the environment of the described clusters has one.
func stages(s Situation, settle time.Duration) (out []stage, frozen []string, err error) {
	for _, d := range s.Described {
		clusters, members := map[string]DescribedCluster{}, make([]Cluster, 0, len(d.Clusters))
		for _, c := range d.Clusters {
			c.State = d.state(c.Cluster, s.Now)
			if clusters[c.Name] = c; c.State == "frozen" {
				frozen = append(frozen, slices.Concat(c.Steps...)...)
			}
			members = append(members, c.Cluster)
		}
		waves, err := Waves(d.Environment, members)
		if err != nil {
			return nil, nil, err
		}
		gates, err := d.gates(s.Now, false)
		if err != nil {
			return nil, nil, err
		}
		firm, err := d.gates(s.Now, true)
		if err != nil {
			return nil, nil, err
		}
		pause, err := duration(d.Environment.Promotion.Settle)
		if err != nil {
			return nil, nil, fmt.Errorf("environment %s: settle: %w", d.Environment.Name, err)
		}
		for _, w := range waves {
			for _, st := range d.wave(w, clusters, cmp.Or(pause, settle)) {
				st.gates, st.firm = gates, firm
				out = append(out, st)
			}
		}
		gone := stage{name: d.Environment.Name + "/" + wordGone, wave: d.Environment.Name + "/" + wordGone, gates: gates, firm: firm}
		for _, c := range d.Gone {
			apps := slices.Concat(c.Steps...)
			if gone.all = append(gone.all, apps...); d.state(c.Cluster, s.Now) == "frozen" {
				frozen = append(frozen, apps...)
			} else {
				gone.apps = append(gone.apps, apps...)
			}
		}
		if d.Lost {
			gone.gates = []Gate{{
				Name: GateDescribed + d.Environment.Name, State: Waiting,
				Reason: fmt.Sprintf("the fleet has no environment %s any more, so nothing says whether its clusters may go: `%s` lets them go",
					d.Environment.Name, s.command("promote", s.Environment.Name, "--now --reason WHY")),
			}}
		}
		if len(gone.all) > 0 {
			out = append(out, gone)
		}
	}
	return out, frozen, nil
}

const wordGone = "clusters that are gone"

// state returns the state of a described cluster: frozen also if a person froze it.
func (d Described) state(c Cluster, now time.Time) string {
	if slices.ContainsFunc(d.Record.Freezes, func(f Freeze) bool { return f.Target == c.Name && f.Holds(now) }) {
		return "frozen"
	}
	return c.State
}

// wave returns the stages of one wave: one for each step of the wave that has described clusters, and for each step of
// an upgrade.
func (d Described) wave(w Wave, clusters map[string]DescribedCluster, settle time.Duration) []stage {
	var out []stage
	for _, step := range w.Steps {
		for i := 0; ; i++ {
			one := stage{wave: d.Environment.Name + "/" + w.Name, settle: settle, bake: w.Bake}
			more := false
			for _, name := range step {
				c := clusters[name]
				if more = more || i < len(c.Steps); i >= len(c.Steps) {
					continue
				}
				if one.all = append(one.all, c.Steps[i]...); c.State != "frozen" {
					one.apps = append(one.apps, c.Steps[i]...)
				}
			}
			if !more {
				break
			}
			if len(one.all) > 0 {
				out = append(out, one)
			}
		}
	}
	for i := range out {
		if out[i].name = out[i].wave; len(out) > 1 {
			out[i].name += fmt.Sprintf(" %d of %d", i+1, len(out))
		}
	}
	return out
}

// gates returns what keeps all described clusters of an environment as they are: its halt, its freezes and its windows.
// --now ignores windows that allow.
func (d Described) gates(now time.Time, overtakes bool) ([]Gate, error) {
	freezes, err := Planned(d.Environment.Promotion)
	if err != nil {
		return nil, fmt.Errorf("environment %s: %w", d.Environment.Name, err)
	}
	for _, f := range d.Record.Freezes {
		if f.Target == "" {
			freezes = append(freezes, f)
		}
	}
	name := GateDescribed + d.Environment.Name
	var out []Gate
	if h := d.Record.Halt; h != nil {
		out = append(out, Gate{Name: name, State: Red, Since: h.At, Reason: d.Environment.Name + ": " + h.String()})
	}
	windows := d.Environment.Promotion.Windows
	if overtakes {
		windows = slices.DeleteFunc(slices.Clone(windows), func(w fleet.Window) bool { return !w.Deny })
	}
	if open, reason, next := Open(windows, freezes, now); !open {
		out = append(out, Gate{Name: name, State: Waiting, Until: next, Reason: d.Environment.Name + ": " + reason})
	}
	return out, nil
}

// divide keeps the described clusters whose stage has not come at what they run. The first stage that the proposal
// changes comes with everything else; with --now, all stages do. If that stage has to wait, everything else comes
// without it. Frozen clusters stay in any case, and those that would skip a minor version.
func (x *proposer) divide(w *Proposal) {
	if w == nil || w.Renders || len(x.stages)+len(x.stay) == 0 ||
		x.s.Running.Source.Empty() {
		return
	}
	w.Entire = w.Source
	if len(w.Apps) > 0 { // which stage comes first does not depend on what somebody names
		w.Entire = x.order.compose(x.s.Running.Source, w.Promoted, nil).Among(x.names())
	}
	e := x.s.Entire
	known := e != nil && e.Source.Equal(w.Entire)
	if known && e.Failure != "" {
		if len(w.Apps) == 0 {
			return
		}
		known = false
	}
	if known {
		w.Source, w.round = e.Round.Of(x.s.Trunk, w.Source, x.s.Running.Source, x.names()), e.Round.Why
	}
	w.stages = x.stages
	if gone := x.gone(); known && len(gone) > 0 {
		w.stages = append(slices.Clone(x.stages), stage{name: wordGone, wave: wordGone, apps: gone, all: gone})
	}
	named := func(app string) bool { return len(w.Apps) == 0 || slices.Contains(w.Apps, app) }
	changes := func(app string) bool { return named(app) && (!known || slices.Contains(e.Changed, app)) }
	later, first := map[string]bool{}, -1
	for i, st := range w.stages {
		for _, app := range st.apps {
			switch {
			case !changes(app):
			case known && e.Skips[app] != "":
				w.Held, w.note = append(w.Held, app), e.SkipsWhy
			case known && w.Overtakes:
				w.firm = append(w.firm, st.firm...)
				if e.Minors[app] && x.moving(app) {
					w.firm = append(w.firm, Gate{
						Name: GateDescribed + st.name, State: Waiting, Since: x.rec.Progress.Started,
						Reason: app + " is being upgraded: another minor version comes when that is complete",
					})
				}
			case known && (first < 0 || first == i):
				first = i
			default:
				later[app] = true
			}
		}
	}
	w.Later, w.undivided = len(later), !known && len(later) > 0
	for _, app := range x.stay {
		if changes(app) {
			w.Held = append(w.Held, app)
		}
	}
	if known && first >= 0 {
		w.Stage, w.stage = w.stages[first].name, first
		if gates := x.gatekeeper.describedGates(*w); e.Others && len(w.Apps) == 0 && !Holds(gates) {
			w.Stage, w.waits = "", firstClosed(gates).String()
			for _, app := range w.stages[first].apps {
				later[app] = true
			}
		}
	}
	for _, app := range w.Held {
		later[app] = true
	}
	x.keep(w, later)
}

// moving reports whether the last move changed an app and is not complete.
func (x *proposer) moving(app string) bool {
	at, moved := x.s.Entire.Moved[app]
	return moved && at.IsZero() && x.rec.Progress != nil && x.rec.Progress.Done.IsZero()
}

// gone returns the apps that describe clusters and that belong to no stage.
func (x *proposer) gone() []string {
	if x.s.Entire == nil {
		return nil
	}
	known := map[string]bool{}
	for _, st := range x.stages {
		for _, app := range st.all {
			known[app] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(x.s.Entire.Changed), func(app string) bool { return known[app] })
}

// keep leaves apps at the commits that they run.
func (x *proposer) keep(w *Proposal, apps map[string]bool) {
	names := x.names()
	next := Source{Commit: w.Source.Commit, Apps: w.Source.Apps, Clusters: map[string]ClusterSource{}}
	for _, name := range names {
		want, have := w.Source.On(name), x.s.Running.Source.On(name)
		for app := range apps {
			if want.Of(app) != have.Of(app) {
				want = want.with(app, have.Of(app))
			}
		}
		next.Clusters[name] = want
	}
	w.Source = next.Among(names)
}

// describedGates hold a stage back until those before it have moved, are healthy and have baked, and while the
// environment of its clusters is closed.
func (x *gatekeeper) describedGates(w Proposal) []Gate {
	if w.undivided {
		reason := "which described clusters it changes is not known yet"
		if e := x.s.Entire; e != nil && e.Failure != "" {
			reason = "which of its described clusters come first is not known: " + e.Failure
		}
		return []Gate{{Name: GateDescribed + x.s.Environment.Name, State: Unknown, Reason: reason}}
	}
	if w.waits != "" {
		return []Gate{{Name: GateDescribed + x.s.Environment.Name, State: Green, Reason: "it brings what describes no cluster; " + w.waits}}
	}
	var round []Gate
	if w.round != "" && w.Source.equalOn(x.s.Running.Source, x.names()) {
		return []Gate{{Name: GateDescribed + x.s.Environment.Name, State: Waiting, Reason: x.s.Entire.Round.Later}}
	}
	if w.round != "" {
		round = []Gate{{Name: GateDescribed + x.s.Environment.Name, State: Green, Reason: w.round}}
	}
	if w.Stage == "" {
		return slices.CompactFunc(append(round, w.firm...), func(a, b Gate) bool { return a.Name == b.Name && a.State == b.State })
	}
	st := w.stages[w.stage]
	g := Gate{Name: GateDescribed + st.name, State: Green}
	if w.Later > 0 {
		g.Reason = fmt.Sprintf("%s of later waves keep what they run", countApps(w.Later))
	}
	for _, before := range w.stages[:w.stage] {
		one := x.stageGate(before, st)
		worse := g.State == Green || one.State != g.State && worst(g.State, one.State) == one.State
		longer := one.State == g.State && !g.Until.IsZero() && !one.Until.Before(g.Until)
		if one.State == Green || !worse && !longer {
			continue
		}
		g.State, g.Reason, g.Since, g.Until = one.State, one.Reason, one.Since, one.Until
	}
	return slices.Concat(round, []Gate{g}, st.gates)
}

// described says of each app that describes a cluster, and that a proposal changes, what it waits for. gates are those of
// the proposal.
func (x *gatekeeper) described(w Proposal, gates []Gate) map[string]string {
	e := x.s.Entire
	if e == nil || !e.Source.Equal(w.Entire) || w.undivided {
		return nil
	}
	out := map[string]string{}
	add := func(app, why string) {
		if why != "" && out[app] == "" && slices.Contains(e.Changed, app) {
			out[app] = why
		}
	}
	for _, app := range x.stay {
		add(app, "its cluster is frozen")
	}
	for app, why := range e.Skips {
		add(app, why)
	}
	stage, why := w.Stage, w.waits
	if w.waits != "" {
		stage = w.stages[w.stage].name
	} else if closed := firstClosed(gates); closed.Name != "" {
		why = closed.brief()
	}
	for i, st := range w.stages {
		for _, app := range st.apps {
			if closed := firstClosed(st.gates); closed.Name != "" {
				add(app, closed.Reason)
			} else if stage == "" || i == w.stage {
				add(app, why)
			} else if why == "" {
				add(app, stage+" comes first")
			} else {
				add(app, stage+" comes first, and waits: "+why)
			}
		}
	}
	for app := range e.Round.Apps {
		if out[app] == "" && !slices.Contains(e.Changed, app) {
			out[app] = e.Round.Later
		}
	}
	return out
}

// stageGate reports whether a later stage may follow one: what that last brought is complete, healthy and has baked,
// and nothing of it was taken back.
func (x *gatekeeper) stageGate(st, next stage) Gate {
	p, g := x.rec.Progress, Gate{State: Green}
	if h, ok := x.takenBack(st); ok {
		name := x.s.Environment.Name
		g.State, g.Since = Red, h.Since
		g.Reason = fmt.Sprintf("%s comes first, and %s is held back: %s", st.name, h.Scope(name), h.Ends(name, cmp.Or(x.s.CommandPrefix, "/sluice")))
		return g
	}
	for _, app := range st.all {
		if on := x.s.Entire.Behind[app]; on != "" {
			g.State, g.Reason = Waiting, fmt.Sprintf("%s has not reached %s", st.name, on)
			if x.frozen(on) {
				g.Reason += ", which is frozen: unfreeze it, or `--now` skips the order"
			}
			return g
		}
	}
	if len(st.apps) > 0 && slices.ContainsFunc(st.apps, func(app string) bool {
		return slices.Contains(x.s.Entire.Changed, app) && x.s.Entire.Skips[app] == ""
	}) {
		g.State, g.Reason = Waiting, st.name+" comes first; `--now` skips the order"
		return g
	}
	var moved time.Time
	some, last := false, false
	for _, app := range st.all {
		if at, ok := x.s.Entire.Moved[app]; ok {
			some, last, moved = true, last || at.IsZero(), later(moved, at)
		}
	}
	if !some {
		return g
	}
	if last && p != nil {
		if p.Done.IsZero() {
			g.State, g.Since, g.Reason = Waiting, p.Started, st.name+" is not complete"
			return g
		}
		moved = p.Done
	}
	for _, health := range x.stageHealth(st) {
		if health.State != Green {
			g.State, g.Reason = health.State, fmt.Sprintf("%s: %s", health.Name, health.Reason)
			return g
		}
	}
	bake := st.bake
	if st.wave == next.wave {
		bake = st.settle
	}
	if g.Until = moved.Add(bake); x.s.Now.Before(g.Until) {
		g.State, g.Since, g.Reason = Waiting, moved, fmt.Sprintf("%s bakes until %s", st.name, Stamp(g.Until))
		return g
	}
	return Gate{State: Green}
}

// takenBack returns a hold on an app of a stage that failed or was rolled back: what it shows about the commit is that
// no other cluster should get it.
func (x *gatekeeper) takenBack(st stage) (Hold, bool) {
	for _, h := range x.rec.Holds {
		held := func(app string) bool { return len(h.Apps) == 0 || slices.Contains(h.Apps, app) }
		if h.Cause != CauseStopped && slices.ContainsFunc(st.all, held) {
			return h, true
		}
	}
	return Hold{}, false
}

// stageHealth judges the apps of a stage on all management clusters. What no status of an app tells, all of a cluster
// has to.
func (x *gatekeeper) stageHealth(st stage) []Gate {
	var on []ClusterState
	for _, name := range x.names() {
		c := x.clusters[name]
		if c.Tree == "" {
			continue
		}
		if c.Apps != nil {
			c.Apps = slices.DeleteFunc(slices.Clone(c.Apps), func(app string) bool { return !slices.Contains(st.all, app) })
		}
		on = append(on, c)
	}
	h := judge(x.p.Health, on)
	out := []Gate{{Name: GateHealth, State: h.state, Reason: h.reason}}
	var since time.Time
	if p := x.rec.Progress; p != nil {
		since = p.LastMove
	}
	return append(out, checks(x.s, since)...)
}

// EntireOf compares what an environment runs with its tree after a whole proposal, and finds when apps that describe
// clusters moved. describes reports whether an app does.
func EntireOf(s Situation, source Source, tree string, members []string, describes func(app string) bool, read Contents,
) (*Entire, error) {
	out := &Entire{Source: source}
	each := func(a, b string) ([]string, bool, error) {
		found, others := map[string]bool{}, false
		for _, cluster := range members {
			apps, err := differ(a, b, cluster, read)
			if err != nil {
				return nil, false, err
			}
			for app := range apps {
				if describes(app) {
					found[app] = true
				} else {
					others = true
				}
			}
		}
		return slices.Sorted(maps.Keys(found)), others, nil
	}
	var err error
	if out.Changed, out.Others, err = each(s.Running.Tree, tree); err != nil {
		return nil, err
	}
	ran := s.Record.Ran
	if len(ran) > 0 && ran[len(ran)-1].Tree != s.Running.Tree { // no pass has recorded it yet
		ran = append(slices.Clone(ran), PastState{Tree: s.Running.Tree, At: s.Now})
	}
	out.Moved = map[string]time.Time{}
	for i := len(ran) - 1; i > 0; i-- {
		apps, _, err := each(ran[i-1].Tree, ran[i].Tree)
		if errors.Is(err, ErrNoTree) { // older ones are not there either
			break
		} else if err != nil {
			return nil, err
		}
		var done time.Time
		if i+1 < len(ran) {
			done = ran[i+1].At
			if !ran[i].Healthy.IsZero() {
				done = ran[i].Healthy
			}
		}
		for _, app := range apps {
			if _, ok := out.Moved[app]; !ok {
				out.Moved[app] = done
			}
		}
	}
	return out, nil
}
