package rollout

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
)

// defaultSettle is the pause between the steps of a wave if neither statuses nor checks report the health of
// clusters.
const defaultSettle = 5 * time.Minute

// facts are a situation, what follows from it alone, and what was decided so far.
type facts struct {
	s        Situation
	p        fleet.Promotion
	bake     time.Duration
	settle   time.Duration
	order    order
	waves    []Wave
	stages   []stage  // of the apps that describe clusters
	stay     []string // apps that describe frozen clusters
	clusters map[string]ClusterState
	freezes  []Freeze // of the environment
	rec      Record
	d        Decision
}

func prepare(s Situation) (*decider, error) {
	s.Now = s.Now.UTC().Truncate(time.Second)
	x := &facts{
		s: s, p: s.Environment.Promotion, order: s.Trunk.order(), clusters: map[string]ClusterState{},
		rec: s.Record.clone(),
	}
	if x.rec.Environment == "" {
		x.rec = NewRecord(s.Environment.Name)
	}
	if x.rec.Environment != s.Environment.Name {
		return nil, fmt.Errorf("environment %s: the record belongs to %s", s.Environment.Name, x.rec.Environment)
	}
	if s.Now.IsZero() {
		return nil, fmt.Errorf("environment %s: the time is unknown", s.Environment.Name)
	}
	members := make([]Cluster, 0, len(s.Clusters))
	for _, c := range s.Clusters {
		members = append(members, c.Cluster)
		if c.State != "retired" {
			x.clusters[c.Name] = c
		}
	}
	var err error
	if x.waves, err = Waves(s.Environment, members); err != nil {
		return nil, err
	}
	if x.bake, err = duration(x.p.Bake); err != nil {
		return nil, fmt.Errorf("environment %s: bake: %w", s.Environment.Name, err)
	}
	if x.settle, err = duration(x.p.Settle); err != nil {
		return nil, fmt.Errorf("environment %s: settle: %w", s.Environment.Name, err)
	}
	if x.p.Settle == "" && len(x.p.Health.CommitStatuses)+len(x.p.Checks) == 0 {
		x.settle = defaultSettle
	}
	if x.stages, x.stay, err = stages(s, x.settle); err != nil {
		return nil, err
	}
	if x.freezes, err = Planned(x.p); err != nil {
		return nil, fmt.Errorf("environment %s: %w", s.Environment.Name, err)
	}
	for _, f := range x.rec.Freezes {
		if f.Target == "" {
			x.freezes = append(x.freezes, f)
		}
	}
	return newDecider(x), nil
}

// emit applies an event to the record, and adds it to the decision.
func (x *facts) emit(e Event) error {
	if e.At.IsZero() {
		e.At = x.s.Now
	}
	next, err := Apply(x.rec, e)
	if err != nil {
		return err
	}
	x.rec, x.d.Events = next, append(x.d.Events, e)
	return nil
}

func (x *facts) act(a Action) {
	a.Base = x.s.Running.Commit
	x.d.Actions = append(x.d.Actions, a)
}

// first reports whether the environment never ran anything: neither its branch, nor its record, nor a cluster has a
// state.
func (x *facts) first() bool { return x.s.Running.Commit == "" && x.unused() }

// unused reports whether nothing is known that ran before what the environment branch has.
func (x *facts) unused() bool {
	return len(x.rec.Ran) == 0 &&
		!slices.ContainsFunc(x.s.Clusters, func(c ClusterState) bool { return c.Tree != "" })
}

// thawed returns the clusters without frozen ones.
func (x *facts) thawed(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		return x.frozen(n)
	})
}

// frozen reports whether a cluster must not move.
func (x *facts) frozen(name string) bool {
	if x.clusters[name].State == "frozen" {
		return true
	}
	for _, f := range x.rec.Freezes {
		if f.Target == name && f.Holds(x.s.Now) {
			return true
		}
	}
	return false
}

// previous returns the last earlier state that is not held.
func (x *facts) previous() (PastState, bool) {
	past := slices.Clone(x.rec.Ran)
	slices.Reverse(past)
	for _, r := range past[x.ownStates(past):] {
		bad := slices.ContainsFunc(x.rec.Holds, func(h Hold) bool {
			return h.Tree == r.Tree ||
				h.Source.Equal(r.Source)
		})
		same := r.Source.Equal(x.rec.Progress.Source) && !x.rec.Progress.Renders
		if r.Tree != x.s.Running.Tree && r.Tree != "" && !bad && !same {
			return r, true
		}
	}
	return PastState{}, false
}

// idle reports whether all clusters of a wave are frozen and behind, so that the wave shows nothing about the commit.
func (x *facts) idle(w Wave) bool {
	names := w.Clusters()
	return len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool {
		return !x.frozen(n) ||
			!x.clusters[n].behind()
	})
}

// movable returns the clusters whose branches Sluice may move.
func (x *facts) movable(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return x.clusters[n].Foreign != "" })
}

// toMove returns the clusters that a move of the environment branch concerns. Without a record, it returns all
// clusters, since it is unknown which of them moved recently.
func (x *facts) toMove() []string {
	run := x.s.Running
	rollout := x.rec.Progress == nil && slices.ContainsFunc(x.s.Clusters, ClusterState.behind)
	var out []string
	for _, name := range x.names() {
		named := !run.Restores || len(run.Restored) == 0 || slices.Contains(run.Restored, name)
		if x.clusters[name].behind() && named || rollout && !run.Restores {
			out = append(out, name)
		}
	}
	return out
}

// behind returns the clusters that have to move: neither up to date nor frozen.
func (x *facts) behind(names []string) []string {
	var out []string
	for _, n := range names {
		if !x.frozen(n) && x.clusters[n].behind() {
			out = append(out, n)
		}
	}
	return out
}

// movedClusters returns the clusters that this rollout has moved.
func (x *facts) movedClusters() []ClusterState {
	var out []ClusterState
	for _, n := range x.rec.Progress.Changed {
		if c, ok := x.clusters[n]; ok && !c.behind() {
			out = append(out, c)
		}
	}
	return out
}

func (x *facts) waveTime(name string) *WaveTime {
	waves := x.rec.Progress.Waves
	if i := slices.IndexFunc(waves, func(w WaveTime) bool { return w.Name == name }); i >= 0 {
		return &waves[i]
	}
	return nil
}

// mode returns the mode of the environment. Without a mode, an environment that follows the trunk is automatic, and
// any other waits for commands.
func (x *facts) mode() string {
	if x.p.Mode != "" {
		return x.p.Mode
	}
	if len(x.s.Environment.After) == 0 {
		return modeAuto
	}
	return modeManual
}

// names returns the environment's clusters, sorted.
func (x *facts) names() []string { return slices.Sorted(maps.Keys(x.clusters)) }

// notNewer reports whether every app of a source has a commit, or an older one.
func (x *facts) notNewer(c ClusterSource, commit string) bool {
	newest := c.Commit
	for _, other := range c.Apps {
		newest = x.order.newer(newest, other)
	}
	return x.order.at(newest) <= x.order.at(commit)
}

// expediting returns the request to expedite the current rollout; nil if there is none.
func (x *facts) expediting() *Request {
	q, p := x.rec.Request, x.rec.Progress
	if q == nil || p == nil || !q.Now || p.Now || !p.Done.IsZero() || len(q.Apps) > 0 || !p.Source.Equal(q.Source) ||
		p.Tree != x.s.Running.Tree {
		return nil
	}
	return q
}
