package promote

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/rollout"
)

// Standing says whether a cluster runs what a person waits for, and whether that is healthy.
type Standing struct {
	Cluster     string
	Environment string
	Branch      string // of the cluster
	Tip         string // of that branch; "" if it does not exist
	// State is green if the cluster has what it should, and that is healthy and has baked. Red means that a person must
	// act; unknown and waiting mean that a later call may find something else.
	State  rollout.State
	Reason string
	Until  time.Time // when it may turn green without an event; zero if that is unknown
	// Blind means that health was asked for, and that neither commit statuses nor checks are declared that tell it.
	Blind bool
}

// StandingRequest asks for the standing of a cluster.
type StandingRequest struct {
	Request
	Cluster string
	// Has reports whether a fleet is one that the cluster should run. It is called with the fleets of the commits that the
	// cluster was rendered from.
	Has func(*fleet.Fleet) bool
	// Health asks for health and bake time, too.
	Health bool
}

// Stands reads the standing of a cluster from the branches, the records and the commit statuses. It changes nothing.
//
// An environment that comes after another one has the health of its rollout: the wave of the cluster is complete, and the
// longer one of its bake and that of the environment has passed since the cluster first ran a fleet that Has accepts. An
// environment that follows the trunk has the health that the environments after it recorded, and the longest of their
// bakes counts. Commit statuses that can be read and are not green count in both.
func Stands(ctx context.Context, h *hydrate.Hydrator, r StandingRequest) (*Standing, error) {
	p, err := newPass(ctx, h, r.Request)
	if err != nil {
		return nil, err
	}
	defer p.close()
	c, ok := p.fleet.Cluster(r.Cluster)
	if !ok {
		return nil, fmt.Errorf("the trunk has no cluster %s", r.Cluster)
	}
	e, ok := p.fleet.Environment(c.Environment)
	if !ok {
		return nil, UnknownEnvironment(p.fleet, c.Environment)
	}
	v := &standing{
		pass: p, request: r, cluster: c, e: *e,
		out: &Standing{
			Cluster: c.Name, Environment: e.Name, Branch: p.fleet.ClusterBranch(c),
			Tip: hashText(p.refs[p.fleet.ClusterBranch(c)]),
		},
	}
	return v.out, v.judge(ctx)
}

// standing judges one cluster.
type standing struct {
	*pass
	request StandingRequest
	cluster *fleet.Cluster
	e       fleet.Environment
	out     *Standing
}

func (v *standing) is(state rollout.State, format string, args ...any) {
	v.out.State, v.out.Reason = state, fmt.Sprintf(format, args...)
}

func (v *standing) judge(ctx context.Context) error {
	v.is(rollout.Green, "")
	for _, name := range append([]string{v.e.Name}, v.after()...) {
		if err := v.records.broken[name]; err != nil {
			return err
		}
	}
	s, err := v.observer.situation(ctx, v.e)
	if err != nil {
		return err
	}
	if v.runs(ctx, &s); v.out.State != rollout.Green || !v.request.Health {
		return nil
	}
	patterns := v.patterns()
	s.Environment.Promotion.Health.CommitStatuses = patterns
	if err := v.proposals.evidence.collect(ctx, s.Environment, &s); err != nil {
		return err
	}
	v.out.Blind = len(patterns) == 0 && len(s.Environment.Promotion.Checks) == 0
	one := s.Clusters[v.at(&s)]
	if why := v.lenient(); why != "" && one.StatusesUnknown != "" && len(patterns) > 0 {
		v.is(rollout.Unknown, "the statuses of %s are not known (%s), and %s", v.cluster.Name, one.StatusesUnknown, why)
		return nil
	}
	if len(patterns) > 0 {
		health := rollout.HealthOf(s.Environment.Promotion.Health, one)
		if health.State == rollout.Red || health.State == rollout.Waiting || one.StatusesUnknown == "" && health.State != rollout.Green {
			v.is(health.State, "%s: %s", v.cluster.Name, health.Reason)
			return nil
		}
	}
	for _, check := range s.Checks {
		if check.State != rollout.Green {
			v.is(check.State, "check %s: %s", check.Name, check.Reason)
			return nil
		}
	}
	for _, name := range v.after() {
		if watch := v.records.known[name].Before[v.e.Name]; watch != nil && watch.Red {
			v.is(rollout.Red, "%s is red, as %s records", v.e.Name, name)
			return nil
		}
	}
	if len(v.e.After) == 0 {
		v.follows(ctx)
		return nil
	}
	return v.rolled(ctx, s)
}

// after lists the environments that come directly after that of the cluster.
func (v *standing) after() []string {
	var out []string
	for _, e := range v.fleet.Spec.Environments {
		if slices.Contains(e.After, v.e.Name) {
			out = append(out, e.Name)
		}
	}
	return out
}

// patterns are those of the statuses that tell the health of the cluster: of its own environment and, if that follows
// the trunk, of the environments after it, which judge it by theirs.
func (v *standing) patterns() []string {
	out := slices.Clone(v.e.Promotion.Health.CommitStatuses)
	if len(v.e.After) == 0 {
		for _, name := range v.after() {
			e, _ := v.fleet.Environment(name)
			out = append(out, e.Promotion.Health.CommitStatuses...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// lenient says why records of the environment's health do not tell that of each cluster; "" if they do.
func (v *standing) lenient() string {
	judges := []string{v.e.Name}
	if len(v.e.After) == 0 {
		judges = v.after()
	}
	for _, name := range judges {
		e, _ := v.fleet.Environment(name)
		if share := e.Promotion.Health.Healthy; share != "" && share != "100%" {
			return fmt.Sprintf("%s counts as healthy with %s of its clusters", v.e.Name, share)
		}
		if e.Promotion.SeparatesWorkspaces() {
			return fmt.Sprintf("%s counts as healthy without workspaces that alone are red", v.e.Name)
		}
	}
	return ""
}

func (v *standing) at(s *rollout.Situation) int {
	return slices.IndexFunc(s.Clusters, func(c rollout.ClusterState) bool { return c.Name == v.cluster.Name })
}

// runs judges whether the cluster's branch has the content that is waited for.
func (v *standing) runs(ctx context.Context, s *rollout.Situation) {
	st, c := v.states[v.e.Name], s.Clusters[v.at(s)]
	advance := fmt.Sprintf("`sluice promote %s`", v.e.Name)
	if len(v.e.After) == 0 {
		advance = "`sluice hydrate --push`"
	}
	switch {
	case v.sites[v.e.Name] != nil:
		v.is(rollout.Unknown, "%s is isolated, and what its clusters run is known on its site only", v.e.Name)
		return
	case s.Running.Foreign != "":
		v.is(rollout.Red, "%s", s.Running.Foreign)
		return
	case v.foreign(v.e.Name):
		v.is(rollout.Red, "%s: %s", st.Branch, st.Foreign)
		return
	case !st.Exists():
		v.is(rollout.Waiting, "%s does not exist yet: %s writes it", st.Branch, advance)
		return
	case s.Record.Halt != nil:
		v.is(rollout.Red, "%s is %s", v.e.Name, s.Record.Halt)
		return
	}
	for _, h := range s.Record.Holds {
		if v.request.Health && (len(h.Clusters) == 0 || slices.Contains(h.Clusters, v.cluster.Name)) {
			v.is(rollout.Waiting, "%s does not run everything: held back is %s; %s", v.cluster.Name, h, h.Ends(v.e.Name, "sluice"))
			return
		}
	}
	runs := st.Source().On(v.cluster.Name)
	commits := []string{runs.Commit}
	for _, commit := range runs.Apps {
		commits = append(commits, commit)
	}
	slices.Sort(commits)
	for _, commit := range slices.Compact(commits) {
		switch f := v.fleetOf(ctx, commit); {
		case f == nil:
			v.is(rollout.Unknown, "the fleet of %s, which %s has for %s, cannot be read", short(commit), st.Branch, v.cluster.Name)
			return
		case !v.request.Has(f):
			v.is(rollout.Waiting, "%s has %s for %s, from before this step: %s", st.Branch, short(commit), v.cluster.Name, advance)
			return
		}
	}
	switch {
	case c.Foreign != "":
		v.is(rollout.Red, "%s", c.Foreign)
	case v.cluster.Retired(), v.cluster.Frozen() && !v.request.Health:
	case c.Desired == "":
		v.is(rollout.Waiting, "%s has nothing for %s yet: %s", st.Branch, v.cluster.Name, advance)
	case v.cluster.Frozen():
		v.is(rollout.Waiting, "%s is frozen by its declaration in %s", c.Name, v.cluster.File)
	case c.Tree == c.Desired:
	case slices.ContainsFunc(s.Record.Freezes, func(f rollout.Freeze) bool { return f.Target == c.Name && f.Holds(v.request.Now) }):
		v.is(rollout.Waiting, "%s is frozen: `sluice unfreeze %[1]s` lets it move", c.Name)
	default:
		v.is(rollout.Waiting, "%s does not have yet what %s has for it: %s", v.out.Branch, st.Branch, advance)
	}
}

// rolled judges a cluster of an environment with rollouts.
func (v *standing) rolled(ctx context.Context, s rollout.Situation) error {
	d, err := rollout.Decide(s)
	if err != nil {
		return err
	}
	members := make([]rollout.Cluster, len(s.Clusters))
	for i, c := range s.Clusters {
		members[i] = c.Cluster
	}
	waves, err := rollout.Waves(v.e, members)
	if err != nil {
		return err
	}
	mine := waves[max(0, slices.IndexFunc(waves, func(w rollout.Wave) bool { return slices.Contains(w.Clusters(), v.cluster.Name) }))]
	i := slices.IndexFunc(d.Waves, func(w rollout.WaveProgress) bool { return w.Name == mine.Name })
	if i < 0 || d.Record.Progress == nil {
		v.is(rollout.Unknown, "no rollout of %s is recorded: `sluice promote %[1]s` records it", v.e.Name)
		return nil
	}
	w := d.Waves[i]
	switch {
	case w.State == rollout.WaveFailed:
		v.is(rollout.Red, "wave %s of %s failed", w.Name, v.e.Name)
	case w.State == rollout.WaveBack:
		v.is(rollout.Red, "wave %s of %s was rolled back", w.Name, v.e.Name)
	case w.State != rollout.WaveDone:
		v.is(rollout.Waiting, "wave %s of %s is %s%s", w.Name, v.e.Name, w.State, rollout.Because(w.Reason))
		v.out.Until = w.Until
	default:
		healthy := w.Since
		if t := slices.IndexFunc(d.Record.Progress.Waves, func(t rollout.WaveTime) bool { return t.Name == w.Name }); t >= 0 {
			healthy = later(d.Record.Progress.Waves[t].Healthy, healthy)
		}
		since := v.since(ctx, d.Record.Ran, healthy)
		for _, name := range v.after() { // a complete rollout records no red of its own
			if watch := v.records.known[name].Before[v.e.Name]; watch != nil {
				since = later(since, watch.LastRed)
			}
		}
		v.baked(since, mine.Bake, string(v.e.Promotion.Bake))
	}
	return nil
}

// since returns since when the cluster runs what is waited for and is healthy. A state that was healthy was so at the
// latest when the one after it began, so later ones do not start the bake again. One that was never healthy, and that a
// person's --now or a rollback ended, does.
func (v *standing) since(ctx context.Context, ran []rollout.PastState, healthy time.Time) time.Time {
	out := healthy
	for i := len(ran) - 1; i > 0 && !ran[i-1].Healthy.IsZero(); i-- {
		if f := v.fleetOf(ctx, ran[i-1].Source.On(v.cluster.Name).Commit); f == nil || !v.request.Has(f) {
			break
		}
		out = ran[i].At
	}
	return out
}

// follows judges a cluster of an environment that follows the trunk, by what the environments after it recorded.
func (v *standing) follows(ctx context.Context) {
	var bakes []string
	var since time.Time
	for _, name := range v.after() {
		e, _ := v.fleet.Environment(name)
		bakes = append(bakes, string(e.Promotion.Bake))
		watch := v.records.known[name].Before[v.e.Name]
		if watch == nil || len(watch.Ran) == 0 || watch.Ran[len(watch.Ran)-1].Healthy.IsZero() ||
			!watch.Ran[len(watch.Ran)-1].Source.Equal(v.states[v.e.Name].Source()) {
			v.is(rollout.Unknown, "%s has not recorded that %s is healthy: `sluice promote` records it", name, v.e.Name)
			return
		}
		var first time.Time
		for _, ran := range slices.Backward(watch.Ran) {
			if f := v.fleetOf(ctx, ran.Source.On(v.cluster.Name).Commit); f == nil || !v.request.Has(f) {
				break
			}
			if !ran.Healthy.IsZero() {
				first = ran.Healthy
			}
		}
		since = later(since, later(first, watch.LastRed))
	}
	v.baked(since, 0, bakes...)
}

// baked waits for the longest of some bakes.
func (v *standing) baked(since time.Time, bake time.Duration, others ...string) {
	for _, text := range others {
		if d, err := time.ParseDuration(cmp.Or(text, "0s")); err == nil { // Load has refused others
			bake = max(bake, d)
		}
	}
	if until := since.Add(bake); bake > 0 && v.request.Now.Before(until) {
		v.is(rollout.Waiting, "%s bakes until %s", v.cluster.Name, rollout.Stamp(until))
		v.out.Until = until
	}
}

// short shortens a commit for people.
func short(commit string) string {
	if h, err := gitstore.ParseHash(commit); err == nil {
		return h.Short()
	}
	return commit
}
