package bot

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// sameRepository is a fleet whose rendered branches are in the repository of the source.
type sameRepository struct{ Branches }

func (sameRepository) Output(context.Context) (forge.Repository, bool, error) {
	return forge.Repository{}, true, nil
}

// From 15 minutes after a move, the status and the log name the apps that posted no status. The log does so once for
// each change, with the command that makes them post again.
func TestSilentAppsAreReported(t *testing.T) {
	t.Parallel()
	moved := time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)
	now := moved
	clock := func() time.Time { return now }
	var log bytes.Buffer
	f := &sharedHead{}
	b := New(Config{Clock: clock, Log: slog.New(slog.NewTextHandler(&log, nil))})
	j := &task{
		Bot: b, forge: statusForge{f, "hub:acme/fleet", b.statuses}, place: "hub:acme/fleet",
		settings: Settings{Context: "sluice"},
		log:      b.Log, space: &Workspace{Branches: sameRepository{}},
	}
	posted := map[string]bool{}
	report := func(later time.Duration) (description string, logged []string) {
		t.Helper()
		now = moved.Add(later)
		log.Reset()
		if err := (reporter{task: j}).promoted(t.Context(), []promote.Status{rolling(t, now, moved,
			posted)}); err != nil {
			t.Fatal(err)
		}
		if text := strings.TrimSpace(log.String()); text != "" {
			logged = strings.Split(text, "\n")
		}
		last := f.written[len(f.written)-1]
		if last.Context != "sluice/prod" || last.State != forge.Pending {
			t.Errorf("after %s: the status is %+v", later, last)
		}
		return last.Description, logged
	}
	for _, c := range []struct {
		later       time.Duration
		post        string
		description string
		clusters    []string // of the log's lines
	}{
		{10 * time.Minute, "", "prod wave all, 1 of 1: baking (health: ", nil},
		{15 * time.Minute, "", "prod waits: shop, web on eu-1 posted no status argocd/shop/* since " +
			rollout.Stamp(moved), []string{"eu-1", "eu-2"}},
		{20 * time.Minute, "", "prod waits: shop, web on eu-1 ", nil},
		{
			25 * time.Minute, "eu-1/shop", "prod waits: web on eu-1 posted no status argocd/web/* since ",
			[]string{"eu-1"},
		},
		{30 * time.Minute, "eu-1/web", "prod waits: shop, web on eu-2 ", nil},
		{35 * time.Minute, "eu-2/web", "prod waits: shop on eu-2 ", []string{"eu-2"}},
	} {
		posted[c.post] = true
		description, logged := report(c.later)
		if !strings.HasPrefix(description, c.description) {
			t.Errorf("after %s: the description is %q, expected %q", c.later, description, c.description)
		}
		if len(logged) != len(c.clusters) {
			t.Errorf("after %s: %d lines are logged, expected %d: %s", c.later, len(logged), len(c.clusters), logged)
			continue
		}
		for i, cluster := range c.clusters {
			for _, part := range []string{"level=WARN", "environment=prod", "cluster=" + cluster, "kubectl --context " +
				cluster + " -n argocd annotate application "} {
				if !strings.Contains(logged[i], part) {
					t.Errorf("after %s: %q lacks %q", c.later, logged[i], part)
				}
			}
		}
	}
}

// rolling returns prod during a rollout that moved two clusters with two apps each. posted lists the CLUSTER/APP that
// posted a status.
func rolling(t *testing.T, now, moved time.Time, posted map[string]bool) promote.Status {
	t.Helper()
	source := rollout.Source{Commit: "c1"}
	record := rollout.NewRecord("prod")
	record.Progress = &rollout.Progress{
		Source: source, Tree: "t", Started: moved, LastMove: moved,
		Changed: []string{"eu-1", "eu-2"}, Current: 2,
	}
	var clusters []rollout.ClusterState
	for _, name := range record.Progress.Changed {
		c := rollout.ClusterState{
			Cluster: rollout.Cluster{Name: name}, Tree: "t", Desired: "t",
			Apps: []string{"shop", "web"},
		}
		for _, app := range c.Apps {
			if posted[name+"/"+app] {
				c.Statuses = append(c.Statuses, rollout.Status{Name: "argocd/" + app + "/" + name, State: "success"})
			}
		}
		clusters = append(clusters, c)
	}
	d, err := rollout.Decide(rollout.Situation{
		Environment: fleet.Environment{Name: "prod", After: []string{"dev"}, Promotion: fleet.Promotion{
			Health: fleet.Health{CommitStatuses: []string{"argocd/${app}/*"}},
		}},
		Running:  rollout.Running{Source: source, Tree: "t", Commit: "tip"},
		Clusters: clusters, Record: record, Now: now, Trunk: rollout.Trunk{"c1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return promote.Status{Environment: "prod", Source: source, Tip: "tip", Decision: d}
}
