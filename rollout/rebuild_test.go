package rollout_test

import (
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/rollout"
)

// TestRebuild: a rebuilt record holds what rollbacks took back, halts the environment, and can be read again.
func TestRebuild(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	state := func(commit, tree string, hours int) rollout.PastState {
		return rollout.PastState{
			Source: rollout.Source{Commit: commit}, Tree: tree, At: at.Add(time.Duration(hours) * time.Hour),
		}
	}
	shopBack := state("bbbbbbbb", "t3", 2)
	shopBack.Source.Clusters = map[string]rollout.ClusterSource{
		"eu-1": {Commit: "bbbbbbbb", Apps: map[string]string{"shop": "aaaaaaaa"}},
	}
	old := rollout.NewRecord("prod")
	old.Sequence = 3
	old.Freezes = []rollout.Freeze{{Target: "us-1", From: at, Reason: "the fair", By: "noa"}}
	old.Request = &rollout.Request{Source: rollout.Source{Commit: "cccccccc"}, By: "noa", At: at}
	r := rollout.Rebuild(old, []rollout.RestoredState{
		{PastState: state("aaaaaaaa", "t1", 0)},
		{PastState: state("bbbbbbbb", "t2", 1)},
		{PastState: shopBack, Back: &rollout.Rollback{
			Clusters: []string{"eu-1"}, Apps: []string{"shop"}, Reason: "down", By: "mia",
		}},
	}, []string{"eu-1", "us-1"}, 8, "noa", "lost", at.Add(5*time.Hour))
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := rollout.DecodeRecord("prod", data)
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Holds) != 1 {
		t.Fatalf("the holds are %v, want the one on shop", back.Holds)
	}
	h := back.Holds[0]
	if h.Source.Commit != "bbbbbbbb" || h.Tree != "t2" || h.By != "mia" || h.Cause != rollout.CauseRolledBack ||
		len(h.Apps) != 1 || h.Apps[0] != "shop" || len(h.Clusters) != 1 || h.Since != at.Add(2*time.Hour) {
		t.Errorf("the hold is %+v", h)
	}
	if len(back.Ran) != 2 || back.Ran[1].Tree != "t2" {
		t.Errorf("earlier states are %v, want those before the present one", back.Ran)
	}
	if back.Halt == nil || back.Halt.By != "noa" || back.Sequence != 8 || back.Progress != nil || back.Request != nil {
		t.Errorf("the record is %+v, want it halted by noa, in version 8, with nothing under way", back)
	}
	if len(back.Freezes) != 1 || back.Freezes[0].Target != "us-1" {
		t.Errorf("freezes are %v, want the one that the old record still has", back.Freezes)
	}
	if n := len(back.Commands); n != 1 || back.Commands[0].Verb != rollout.EventRepair {
		t.Errorf("commands are %v, want the repair", back.Commands)
	}
}

// A rebuilt record also holds what a partial rollback stopped on the clusters that the rollout had not reached.
func TestRebuildHoldsWhatWasStopped(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	c1, c2 := rollout.ClusterSource{Commit: "c1"}, rollout.ClusterSource{Commit: "c2"}
	r := rollout.Rebuild(rollout.NewRecord("prod"), []rollout.RestoredState{
		{PastState: rollout.PastState{Source: rollout.Source{Commit: "c1"}, Tree: "t1", At: at}},
		{PastState: rollout.PastState{Source: rollout.Source{Commit: "c2"}, Tree: "t2", At: at.Add(time.Hour)}},
		{
			PastState: rollout.PastState{
				Source: rollout.Source{Commit: "c2", Clusters: map[string]rollout.ClusterSource{"eu-1": c1, "us-2": c1, "us-1": c2}},
				Tree:   "t3", At: at.Add(2 * time.Hour),
			},
			Back: &rollout.Rollback{Clusters: []string{"eu-1"}, Reason: "down", By: "mia"},
		},
	}, []string{"eu-1", "us-1", "us-2"}, 8, "noa", "lost", at.Add(5*time.Hour))
	if len(r.Holds) != 2 || r.Holds[1].Cause != rollout.CauseStopped || len(r.Holds[1].Clusters) != 1 ||
		r.Holds[1].Clusters[0] != "us-2" || r.Holds[1].Tree != "t2" {
		t.Errorf("the holds are %v, want that of eu-1 and what was stopped on us-2", r.Holds)
	}
}

// TestBranchesOfEarlierRecords: the list of branches that earlier versions wrote becomes tips without commits.
func TestBranchesOfEarlierRecords(t *testing.T) {
	t.Parallel()
	r, err := rollout.DecodeRecord("prod", []byte("apiVersion: sluice.dev/v1alpha1\nkind: PromotionRecord\nenvironment: prod\nbranches: [eu-1, us-1]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if tip, ok := r.Tips["eu-1"]; !ok || tip != "" || len(r.Tips) != 2 || r.Branches != nil {
		t.Errorf("tips %v and branches %v, want both clusters with an unknown commit", r.Tips, r.Branches)
	}
}
