package hydrate_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/renderer"
)

// recorder is a Gate that reports violations of the rule refuse, and records the changes that it judged.
type recorder struct {
	judged []string
	refuse string // rule
}

func (g *recorder) Judge(_ context.Context, c hydrate.Change) ([]hydrate.Violation, error) {
	for _, t := range c.Targets {
		g.judged = append(g.judged, c.Environment+" "+t.Target.String())
	}
	if g.refuse == "" {
		return nil, nil
	}
	return []hydrate.Violation{{Rule: g.refuse, App: "shop", Clusters: []string{"dev-1"}}}, nil
}

func gated(r *hydratetest.Repo, g *recorder, change func(*hydrate.Request)) (*hydrate.Result, error) {
	r.T.Helper()
	h := r.Hydrator(2)
	config := h.Config
	config.Gate = g
	request := hydrate.Request{Commit: r.Resolve("HEAD"), Write: true, Environments: []string{"dev", "staging"}}
	if change != nil {
		change(&request)
	}
	return hydrate.New(config).Hydrate(r.T.Context(), request)
}

// The gate gets only the targets whose trees differ, and only of environments that are written.
func TestGateJudgesOnlyChangedTargets(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	g := &recorder{}
	if _, err := gated(r, g, nil); err != nil || len(g.judged) != 14 {
		t.Fatalf("%d judged, %v", len(g.judged), err)
	}
	r.Write("apps/shop/layers/environment/dev/values.yaml", "replicas: 7\n")
	r.Write("apps/shop/layers/environment/prod/values.yaml", "replicas: 7\n")
	r.Commit("seven")
	g.judged, g.refuse = nil, "x"
	result, err := gated(r, g, nil)
	if err != nil || !slices.Equal(g.judged, []string{"dev dev-1/shop"}) {
		t.Fatalf("judged %q, %v", g.judged, err)
	}
	if e := result.Environments[0]; e.Status != hydrate.StatusRefused || len(e.Violations) != 1 ||
		!strings.Contains(e.Reason, "--allow-policy x --reason") {
		t.Errorf("the entry is %+v", e)
	}
	if e := result.Environments[1]; e.Status != hydrate.StatusUpdated {
		t.Errorf("another environment: %s %s", e.Status, e.Reason)
	}
	if _, err := gated(r, g, func(q *hydrate.Request) { q.AllowPolicy = []string{"x"} }); err == nil {
		t.Error("an exception without a reason passed")
	}
	result, err = gated(r, g, func(q *hydrate.Request) { q.AllowPolicy, q.Reason = []string{"y", "x"}, "it is a test" })
	if err != nil || result.Environments[0].Status != hydrate.StatusUpdated ||
		len(result.Environments[0].Exceptions) != 1 {
		t.Fatalf("the result is %+v, the error is %v", result, err)
	}
	if got := r.Git("log", "-1", "--format=%(trailers:key=Sluice-Policy-Exception,valueonly)",
		"cluster/dev-1"); got != "x: it is a test" {
		t.Errorf("trailer %q", got)
	}
}

// cancelling is a renderer that returns context.Canceled although the run's context is not cancelled.
type cancelling struct{}

func (cancelling) Render(context.Context, *renderer.Bundle) (*renderer.Rendering, error) {
	return nil, context.Canceled
}

// A target without a rendering is a failure, whatever its error is. The run neither crashes nor writes a part of the
// environment.
func TestACancelledRenderingIsAFailure(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	config := r.Hydrator(2).Config
	config.Renderer = cancelling{}
	result, err := hydrate.New(config).Hydrate(t.Context(), hydrate.Request{
		Commit: r.Resolve("HEAD"), Write: true,
		Environments: []string{"dev"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if e := result.Environments[0]; e.Status != hydrate.StatusFailed || len(e.Failures) != e.Targets {
		t.Errorf("%s, %d of %d targets failed", e.Status, len(e.Failures), e.Targets)
	}
}

// enforcement is a Gate that records whether the fleet enforces policy.
type enforcement struct{ enforced []bool }

func (g *enforcement) Judge(_ context.Context, c hydrate.Change) ([]hydrate.Violation, error) {
	g.enforced = append(g.enforced, c.Fleet.Enforces(c.Environment, false))
	return nil, nil
}

// An unmerged commit cannot switch off the enforcement of the trunk's policy.
func TestTheTrunkSaysWhetherPolicyIsEnforced(t *testing.T) {
	t.Parallel()
	r := hydratetest.NewRemote(t)
	fleet := r.Read("sluice.yaml")
	r.Write("sluice.yaml", strings.Replace(fleet, "\nspec:\n", "\nspec:\n  policy: {enforce: true}\n", 1))
	r.Commit("enforce")
	r.Git("push", "-q", "origin", "HEAD:main")
	r.Feature()
	r.Write("sluice.yaml", strings.Replace(fleet, "\nspec:\n", "\nspec:\n  policy: {enforce: false}\n", 1))
	r.Commit("do not")
	g := &enforcement{}
	got := r.Push("feature", func(c *hydrate.Config, q *hydrate.Request) {
		c.Gate = g
		hydratetest.AllowUnmerged(c,
			q)
	})
	hydratetest.WantStatus(t, got, hydrate.StatusUpdated, "")
	if !slices.Equal(g.enforced, []bool{true}) {
		t.Errorf("enforced: %v", g.enforced)
	}
}
