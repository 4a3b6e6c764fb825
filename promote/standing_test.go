package promote_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// stands asks for the standing of a cluster that shall run a fleet with a label.
func (s *stage) stands(cluster, label string, change func(*promote.StandingRequest)) *promote.Standing {
	s.T.Helper()
	r := promote.StandingRequest{
		Request: promote.Request{Trunk: s.tip(), Now: s.now, Adapters: s.adapters(), DryRun: true}, Cluster: cluster, Health: true,
		Has: func(f *fleet.Fleet) bool {
			c, ok := f.Cluster(cluster)
			return ok && (label == "" || c.Labels["step"] == label)
		},
	}
	if change != nil {
		change(&r)
	}
	st, err := promote.Stands(s.T.Context(), s.Hydrator(2), r)
	if err != nil {
		s.T.Fatal(err)
	}
	return st
}

func (s *stage) is(what string, st *promote.Standing, state rollout.State, why string) {
	s.T.Helper()
	if st.State != state || !strings.Contains(st.Reason, why) {
		s.T.Errorf("%s: %s: %s, want %s: %s", what, st.State, st.Reason, state, why)
	}
}

// step gives the cluster a label, and brings that to prod.
func (s *stage) step(label string) {
	s.T.Helper()
	const file = "clusters/prod-eu-1.yaml"
	text, _, _ := strings.Cut(s.Read(file), "  labels:")
	s.Write(file, text+"  labels: {region: eu-west-1, ring: canary, step: "+label+"}\nspec: {environment: prod, class: core, vars: {shortName: pe1, lbRange: 10.30.0.0/24}}\n")
	s.Commit("step " + label)
	s.hydrateThe("dev")
}

// bring promotes what dev runs to prod, when it has baked in dev.
func (s *stage) bring(id string) {
	s.T.Helper()
	s.look(nil)
	s.now = s.now.Add(2 * time.Hour)
	s.look(nil, ordered(rollout.EventPromote, id, nil))
}

// What is not known, not there yet, red or not baked is not green.
func TestStands(t *testing.T) {
	t.Parallel()
	s := newStage(t, `mode: manual, bake: 1h, health: {commitStatuses: ["sync"]}, waves: [{name: all, bake: 10m}]`)
	s.out.statuses = "success"
	s.look(nil)
	s.step("one")
	s.is("not promoted", s.stands("prod-eu-1", "one", nil), rollout.Waiting, "from before this step: `sluice promote prod`")
	s.bring("p")
	s.is("in its wave", s.stands("prod-eu-1", "one", nil), rollout.Waiting, "prod-eu-1 bakes until")
	s.now = s.now.Add(20 * time.Minute)
	s.look(nil)
	s.is("after the bake of the wave", s.stands("prod-eu-1", "one", nil), rollout.Waiting, "prod-eu-1 bakes until")
	noForge := func(r *promote.StandingRequest) { r.Adapters.Statuses = nil }
	s.now = s.now.Add(time.Hour)
	both := s.stands("prod-eu-1", "one", nil)
	if s.is("after both", both, rollout.Green, ""); both.Blind {
		t.Error("statuses tell no health")
	}
	s.is("after both, by the record", s.stands("prod-eu-1", "one", noForge), rollout.Green, "")
	for state, want := range map[string]rollout.State{"failure": rollout.Red, "pending": rollout.Waiting} {
		s.out.statuses = state
		s.is("now "+state, s.stands("prod-eu-1", "one", nil), want, "sync is "+state)
	}
	s.out.statuses = ""
	s.is("without a status", s.stands("prod-eu-1", "one", nil), rollout.Unknown, "no status sync yet")
	s.out.statuses = "success"

	// the next promotion bakes in its wave; those after it do not start the bake of the step again
	s.release("something else")
	s.bring("q")
	s.is("in the wave of another promotion", s.stands("prod-eu-1", "one", nil), rollout.Waiting, "wave all of prod is baking")
	s.now = s.now.Add(11 * time.Minute)
	s.look(nil)
	s.release("something else again")
	s.bring("q2")
	s.now = s.now.Add(11 * time.Minute)
	s.look(nil)
	s.is("after two other promotions", s.stands("prod-eu-1", "one", nil), rollout.Green, "")

	// the next step does
	s.step("two")
	s.bring("r")
	s.now = s.now.Add(11 * time.Minute)
	s.look(nil)
	s.is("the next step", s.stands("prod-eu-1", "two", nil), rollout.Waiting, "bakes until")

	// where a share of the clusters is enough, the record does not tell about one
	text := s.Read("sluice.yaml")
	s.Write("sluice.yaml", strings.Replace(text, `["sync"]}`, `["sync"], healthy: 50%}`, 1))
	s.Commit("half of them")
	s.is("a share, by the record", s.stands("prod-eu-1", "two", noForge), rollout.Unknown, "prod counts as healthy with 50% of its clusters")
	s.is("a share", s.stands("prod-eu-1", "two", nil), rollout.Waiting, "bakes until")
	s.Write("sluice.yaml", text)
	s.Commit("all of them")

	// a rollout that no record knows as healthy
	s.step("three")
	s.look(nil)
	s.now = s.now.Add(2 * time.Hour)
	s.look(nil)
	s.out.statuses = ""
	s.look(nil, ordered(rollout.EventPromote, "s", nil))
	s.is("statuses unknown", s.stands("prod-eu-1", "three", noForge), rollout.Waiting, "")
	s.out.statuses = "success"
	s.look(nil, ordered(rollout.EventHalt, "h", nil))
	s.is("halted", s.stands("prod-eu-1", "", nil), rollout.Red, "halted by mia")
}

// An environment that follows the trunk is healthy as the environments after it recorded.
func TestStandsOfAFollower(t *testing.T) {
	t.Parallel()
	s := newStage(t, `mode: manual, bake: 1h, health: {commitStatuses: ["sync"]}`)
	s.out.statuses = "success"
	s.Write("docs.txt", "another commit")
	s.Commit("docs")
	s.is("not hydrated", s.stands("dev-1", "", func(r *promote.StandingRequest) {
		r.Has = func(f *fleet.Fleet) bool { _, err := f.ReadFile("docs.txt"); return err == nil }
	}), rollout.Waiting, "`sluice hydrate --push`")
	s.hydrateThe("dev")
	s.is("not recorded", s.stands("dev-1", "", nil), rollout.Unknown, "prod has not recorded that dev is healthy")
	s.look(nil)
	s.is("not baked", s.stands("dev-1", "", nil), rollout.Waiting, "dev-1 bakes until")
	s.now = s.now.Add(2 * time.Hour)
	s.is("baked", s.stands("dev-1", "", nil), rollout.Green, "")
	s.out.statuses = "failure"
	s.look(nil)
	s.is("red", s.stands("dev-1", "", nil), rollout.Red, "sync is failure")
	s.is("red, by the record", s.stands("dev-1", "", func(r *promote.StandingRequest) { r.Adapters.Statuses = nil }), rollout.Red, "dev is red, as prod records")
}

// Each environment after a follower has to say that it is healthy: one that judges by other statuses may find it red.
func TestStandsOfAFollowerOfSeveral(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, bake: 1h")
	s.look(nil)
	s.now = s.now.Add(2 * time.Hour)
	st := s.stands("dev-1", "", nil)
	s.is("one environment after it", st, rollout.Green, "")
	if !st.Blind {
		t.Error("no status is declared, and something tells the health")
	}
	text := s.Read("sluice.yaml")
	s.Write("sluice.yaml", strings.TrimRight(text, "\n")+"\n    - {name: edge, after: [dev], promotion: {mode: manual, bake: 1h, health: {commitStatuses: [sync]}}}\n")
	s.Commit("another one after dev")
	s.is("another one after it", s.stands("dev-1", "", func(r *promote.StandingRequest) { r.Adapters.Statuses = nil }), rollout.Unknown,
		"edge has not recorded that dev is healthy")
}

// A state that was never healthy is no part of the bake: it begins when the hotfix after it is healthy.
func TestStandsAfterAHotfix(t *testing.T) {
	t.Parallel()
	s := newStage(t, `mode: manual, bake: 1h, health: {commitStatuses: ["sync"]}`)
	s.out.statuses = "success"
	s.look(nil)
	s.step("one")
	s.release("one")
	s.look(nil)
	s.now = s.now.Add(2 * time.Hour)
	s.look(nil)
	s.out.statuses = "failure"
	s.look(nil, ordered(rollout.EventPromote, "p", func(c *promote.Command) { c.Now = true }))
	s.is("red", s.stands("prod-eu-1", "one", nil), rollout.Red, "sync is failure")
	s.release("hotfix")
	s.look(nil, ordered(rollout.EventPromote, "h", func(c *promote.Command) { c.Now = true }))
	s.is("still red", s.stands("prod-eu-1", "one", nil), rollout.Red, "sync is failure")
	s.now = s.now.Add(2 * time.Hour)
	s.out.statuses = "success"
	s.look(nil, ordered(rollout.EventResume, "r", nil))
	s.look(nil)
	s.is("just healthy", s.stands("prod-eu-1", "one", nil), rollout.Waiting, "bakes until")
	s.now = s.now.Add(61 * time.Minute)
	s.look(nil)
	s.is("baked", s.stands("prod-eu-1", "one", nil), rollout.Green, "")
}

// What an environment after it recorded as red begins the bake again.
func TestStandsAfterRed(t *testing.T) {
	t.Parallel()
	s := newStage(t, `mode: manual, bake: 1h, health: {commitStatuses: ["sync"]}`)
	s.Write("sluice.yaml", strings.TrimRight(s.Read("sluice.yaml"), "\n")+"\n    - {name: edge, after: [prod], promotion: {mode: manual, health: {commitStatuses: [sync]}}}\n")
	s.Commit("edge")
	s.hydrateThe("dev")
	s.out.statuses = "success"
	s.look(nil)
	s.step("one")
	s.release("one")
	s.bring("p")
	s.now = s.now.Add(2 * time.Hour)
	s.look(nil)
	s.is("baked", s.stands("prod-eu-1", "one", nil), rollout.Green, "")
	s.out.statuses = "failure"
	s.look(nil)
	s.is("red", s.stands("prod-eu-1", "one", nil), rollout.Red, "sync is failure")
	s.out.statuses = "success"
	s.look(nil)
	s.is("just healthy again", s.stands("prod-eu-1", "one", nil), rollout.Waiting, "bakes until")
	s.now = s.now.Add(61 * time.Minute)
	s.is("baked again", s.stands("prod-eu-1", "one", nil), rollout.Green, "")
}
