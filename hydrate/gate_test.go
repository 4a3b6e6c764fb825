package hydrate_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// recorder is a Gate that refuses what it is told to, and remembers what it judged.
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

// The cost of the gate follows the change: it sees the targets whose trees differ, of the environments to be written.
func TestGateJudgesChangedTargetsAlone(t *testing.T) {
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
	if e := result.Environments[0]; e.Status != hydrate.StatusRefused || len(e.Violations) != 1 || !strings.Contains(e.Reason, "--allow-policy x --reason") {
		t.Errorf("%+v", e)
	}
	if e := result.Environments[1]; e.Status != hydrate.StatusUpdated {
		t.Errorf("another environment: %s %s", e.Status, e.Reason)
	}
	if _, err := gated(r, g, func(q *hydrate.Request) { q.AllowPolicy = []string{"x"} }); err == nil {
		t.Error("an exception without a reason passed")
	}
	result, err = gated(r, g, func(q *hydrate.Request) { q.AllowPolicy, q.Reason = []string{"y", "x"}, "it is a test" })
	if err != nil || result.Environments[0].Status != hydrate.StatusUpdated || len(result.Environments[0].Exceptions) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	if got := r.Git("log", "-1", "--format=%(trailers:key=Sluice-Policy-Exception,valueonly)", "cluster/dev-1"); got != "x: it is a test" {
		t.Errorf("trailer %q", got)
	}
}
