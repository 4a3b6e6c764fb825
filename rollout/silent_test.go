package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// An app that posted no status for a while after its cluster moved is named, with the command that makes it post
// again.
func TestSilentApps(t *testing.T) {
	t.Parallel()
	moved := time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)
	decide := func(pattern string, after time.Duration, change func(*rollout.ClusterState)) []rollout.Silence {
		t.Helper()
		c := rollout.ClusterState{
			Cluster: rollout.Cluster{Name: "eu-1"}, Tree: "t", Desired: "t", Apps: []string{"shop", "web"},
			Statuses: []rollout.Status{{Name: strings.ReplaceAll(pattern, "${app}/*", "web/eu-1"), State: "success"}},
		}
		if change != nil {
			change(&c)
		}
		record := rollout.NewRecord("prod")
		record.Progress = &rollout.Progress{
			Source: rollout.Source{Commit: "c1"}, Tree: "t", Started: moved,
			LastMove: moved, Changed: []string{"eu-1"}, Current: 1,
		}
		d, err := rollout.Decide(rollout.Situation{
			Environment: fleet.Environment{
				Name: "prod", After: []string{"dev"},
				Promotion: fleet.Promotion{Health: fleet.Health{CommitStatuses: []string{pattern}}},
			},
			Running:  rollout.Running{Source: rollout.Source{Commit: "c1"}, Tree: "t", Commit: "tip"},
			Clusters: []rollout.ClusterState{c}, Record: record, Now: moved.Add(after), Trunk: rollout.Trunk{"c1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return d.Silent
	}
	for pattern, command := range map[string]string{
		"argocd/${app}/*":        "kubectl --context eu-1 -n argocd annotate application shop notified.notifications.argoproj.io-",
		"kustomization/${app}/*": "flux --context eu-1 reconcile kustomization shop",
		"ci/${app}/*":            "let the controller of shop on eu-1 post",
	} {
		got := decide(pattern, 20*time.Minute, nil)
		if len(got) != 1 || got[0].Cluster != "eu-1" || !slices.Equal(got[0].Apps, []string{"shop"}) ||
			!strings.HasPrefix(got[0].Command(), command) {
			t.Errorf("%s: the result of decide is %+v", pattern, got)
		}
	}
	const pattern = "kustomization/${app}/*"
	if got := decide(pattern, 5*time.Minute, nil); len(got) != 0 {
		t.Errorf("right after the move: %v", got)
	}
	if got := decide(pattern, 20*time.Minute,
		func(c *rollout.ClusterState) { c.StatusesUnknown = "no forge" }); len(got) != 0 {
		t.Errorf("without a forge: %v", got)
	}
	if got := decide(pattern, 20*time.Minute, func(c *rollout.ClusterState) { c.Desired = "other" }); len(got) != 0 {
		t.Errorf("a cluster that has not moved: %v", got)
	}
	if got := decide("sync", 20*time.Minute, func(c *rollout.ClusterState) { c.Statuses = nil }); len(got) != 1 ||
		len(got[0].Apps) != 0 || got[0].Status != "sync" {
		t.Errorf("a pattern without apps: %+v", got)
	}
	// A pending status counts as posted.
	if got := decide(pattern, 20*time.Minute, func(c *rollout.ClusterState) {
		c.Statuses = append(c.Statuses, rollout.Status{Name: "kustomization/shop/eu-1", State: "pending"})
	}); len(got) != 0 {
		t.Errorf("a pending status: %v", got)
	}
}
