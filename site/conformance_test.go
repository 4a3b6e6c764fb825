package site_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/site"
)

// underWay promotes a change of all shops to prod, of which the first wave has moved.
func underWay(t *testing.T) (*demo, *site.Fleet) {
	t.Helper()
	d := newDemo(t)
	d.repo.Write("apps/shop/layers/global/values.yaml",
		strings.ReplaceAll(d.repo.Read("apps/shop/layers/global/values.yaml"), "mind the gap", "mind the step"))
	d.repo.Commit("Greet otherwise")
	d.read(t)
	d.hydrate("dev")
	now := d.tip.Committer.When
	for _, environment := range []string{"staging", "prod"} {
		commands := []promote.Command{{Event: rollout.Event{
			Kind: rollout.EventPromote, By: "bob", Reason: "the shop", ID: environment, At: now, Now: true,
		}, Environment: environment, CLI: true, Verb: "promote"}}
		moves := map[string]string{"staging": "cluster/staging-1", "prod": "cluster/prod-eu-1"}[environment]
		for before := d.repo.Git("rev-parse", moves); d.repo.Git("rev-parse", moves) == before; commands = nil {
			now = now.Add(time.Minute)
			d.h = d.repo.Hydrator(2)
			if _, err := promote.Look(t.Context(), d.h, promote.Request{
				Trunk: d.tip, Now: now, Commands: commands, CommandPrefix: "sluice",
			}); err != nil {
				t.Fatal(err)
			}
			if now.Sub(d.tip.Committer.When) > time.Hour {
				t.Fatalf("%s does not move", moves)
			}
		}
	}
	return d, d.read(t)
}

// TestRolloutIsNoDeviation: a cluster whose wave has not moved yet is compared as its environment branch has it.
func TestRolloutIsNoDeviation(t *testing.T) {
	t.Parallel()
	_, f := underWay(t)
	i := slices.IndexFunc(f.Clusters, func(c *site.Cluster) bool { return c.Name == "prod-us-1" })
	if c := f.Clusters[i]; c.Current() || !c.Planned {
		t.Fatalf("prod-us-1: got the trouble %q, want a wave that has not moved it", c.Trouble)
	}
	for _, g := range f.Conformance {
		if g.Name() != "class=core, environment=prod" {
			continue
		}
		if !slices.Equal(g.Waiting, []string{"prod-us-1"}) {
			t.Errorf("clusters that wait: got %q, want prod-us-1", g.Waiting)
		}
		for _, a := range g.Apps {
			for _, v := range a.Variants {
				if len(v.Layers) == 0 {
					t.Errorf("%s differs on %q because of %q, want layers alone", a.App, v.Clusters, v.Causes)
				}
			}
		}
	}
	got := text(pagesOf(t, f)["conformance.html"])
	for _, want := range []string{
		"Conformance: layers explain all differences", "1 cluster compared as the environment branch has it",
		"cluster=prod-eu-1, region=us-east-1 explain 1 difference on 1 cluster", "shop by layer by layer",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q: %s", want, got)
		}
	}
	if strings.Contains(got, "the norm is on") || strings.Contains(got, "mind the gap") {
		t.Errorf("the page names a norm of two clusters, or what the rollout changes: %s", got)
	}
}
