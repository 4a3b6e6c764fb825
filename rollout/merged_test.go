package rollout_test

import (
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// A cluster was rolled back to an older commit with equal manifests: a second merge request of the commit that the
// others run would change only Sluice's records. It is asked for where the manifests differ.
func TestMergedCommitIsNotAskedForAgain(t *testing.T) {
	for _, same := range []bool{true, false} {
		runs := rollout.Source{Commit: "c2", Clusters: map[string]rollout.ClusterSource{"b": {Commit: "c1"}}}
		s := rollout.Situation{
			Environment: fleet.Environment{
				Name: "prod", After: []string{"staging"}, Promotion: fleet.Promotion{Mode: "request"},
			},
			Now: at(), Record: rollout.NewRecord("prod"), Trunk: rollout.Trunk{"c1", "c2"},
			Clusters: []rollout.ClusterState{
				{Cluster: rollout.Cluster{Name: "a"}, Tree: "ta", Desired: "ta"},
				{Cluster: rollout.Cluster{Name: "b"}, Tree: "tb", Desired: "tb"},
			},
			Running: rollout.Running{Source: runs, Tree: "t1", Commit: "x1"},
			Before:  []rollout.Upstream{{Name: "staging", Source: rollout.Source{Commit: "c2"}, Complete: true}},
			Candidate: &rollout.Candidate{
				Source: rollout.Source{Commit: "c2"}, Tree: "t2", Base: "x1", Policy: rollout.Green, Same: same,
			},
		}
		d, err := rollout.Decide(s)
		if err != nil {
			t.Fatalf("same=%v: %v", same, err)
		}
		asks := slices.ContainsFunc(d.Actions, func(a rollout.Action) bool { return a.Kind == rollout.OpenRequest })
		if asks == same {
			t.Errorf("same=%v: opens a merge request: got %v, want %v; actions %+v, gates %v", same, asks, !same, d.Actions,
				d.Gates)
		}
	}
}
