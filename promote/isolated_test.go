package promote_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// isolates makes prod an isolated environment. Its cluster branches of before stay.
func isolates(s *stage) {
	s.Write("sluice.yaml", strings.Replace(s.Read("sluice.yaml"), "after: [dev]\n", "after: [dev]\n      isolated: {}\n", 1))
	s.Commit("isolate prod")
	s.hydrateThe("dev")
}

func branches(s *stage) string {
	return s.Git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/cluster/prod*")
}

// An environment that becomes isolated keeps its old cluster branches as they are, whatever people promote, roll back
// or repair at home.
func TestIsolatedEnvironmentMovesNoClusterBranch(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	s.look(nil)
	isolates(s)
	before := branches(s)
	if before == "" {
		t.Fatal("prod has no cluster branch")
	}
	s.release("second")
	got, _ := s.look(nil)
	if !strings.Contains(s.runs(), s.Git("rev-parse", "main")) {
		t.Errorf("env/prod does not have the second commit: %+v", got.Decision.Gates)
	}
	s.look(nil, ordered(rollout.EventRollback, "1", nil))
	if strings.Contains(s.runs(), s.Git("rev-parse", "main")) {
		t.Error("env/prod was not rolled back")
	}
	s.Git("update-ref", "-d", "refs/heads/cluster/prod-eu-1") // nobody needs it here
	before = branches(s)
	got, _ = s.look(nil)
	if got.Site == nil || got.Site.State != rollout.Unknown || got.Foreign != "" {
		t.Errorf("prod is %+v", got)
	}
	found, _, err := promote.RepairBranches(t.Context(), s.Hydrator(1), promote.Request{Trunk: s.tip(), Now: s.now, Adapters: s.adapters()},
		promote.Repair{Environment: "prod"})
	if err != nil || len(found) > 0 {
		t.Errorf("set back are %v, %v", found, err)
	}
	if after := branches(s); after != before {
		t.Errorf("cluster branches moved:\n%s\n%s", before, after)
	}
}
