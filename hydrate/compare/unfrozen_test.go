package compare_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// A merge request that unfreezes a cluster also brings what was merged while the cluster was frozen. The comparison
// shows it.
func TestUnfreezingShowsWhatTheClusterMissed(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	const file = "clusters/prod-eu-1.yaml"
	active := r.Read(file)
	r.Write(file, strings.Replace(active, "  environment: prod\n", "  environment: prod\n  state: frozen\n", 1))
	r.Commit("freeze")
	r.Hydrate(nil)
	r.Write("apps/shop/layers/environment/prod/values.yaml", "replicas: 9\n")
	r.Git("rm", "-q", "apps/monitor/app.yaml")
	r.Commit("merged while it is frozen")
	more := func(q *hydrate.Request) { q.MaxDeletions = 100 }
	r.Hydrate(more)
	r.Write(file, active)
	r.Commit("unfreeze")
	c := run(r, compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")})
	got := strings.Join(lines(c.Changes), "\n")
	if !strings.Contains(got, "shop on prod/prod-eu-1: ") || !strings.Contains(got, "changed Deployment shop/shop") ||
		!strings.Contains(got, "monitor on prod/prod-eu-1: removed ") || strings.Contains(got, "prod-us-1") ||
		strings.Contains(got, "gateway") {
		t.Errorf("\nthe result of lines is %s", got)
	}
	if c.Frozen != 0 {
		t.Errorf("%d targets count as frozen", c.Frozen)
	}
	r.Hydrate(more) // the hydration makes exactly these changes
	if files := r.Git("diff", "--stat", "--name-only", "cluster/prod-eu-1~1",
		"cluster/prod-eu-1"); strings.Contains(files, "gateway") ||
		!strings.Contains(files, "shop/deployment-shop.yaml") {
		t.Errorf("landed: %s", files)
	}
}
