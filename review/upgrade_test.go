package review

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/report"
)

// A change of a class's kubeVersion is reviewed with the verdicts of its clusters, in a worker too. The add-ons of the
// base count: a change cannot allow itself.
func TestReviewOfAnUpgrade(t *testing.T) {
	t.Parallel()
	const fleet = "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: acme}\nspec:\n  environments: [{name: prod}]\n  upgrades: {addons: [{name: agent, images: [acme/agent], kubernetes: \"<=1.33\"}]}\n"
	const clusters = "apiVersion: sluice.dev/v1alpha1\nkind: ClusterClass\nmetadata: {name: edge}\nspec: {kubeVersion: 1.33.2}\n---\n" +
		"apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: a, labels: {agent: \"yes\"}}\nspec: {environment: prod, class: edge}\n---\n" +
		"apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: b}\nspec: {environment: prod, class: edge}\n"
	r := hydratetest.New(t)
	r.Write("sluice.yaml", fleet)
	r.Write("clusters/all.yaml", clusters)
	r.Write("apps/agent/app.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: agent}\nspec: {namespace: agent, placement: {matchLabels: {agent: \"yes\"}}, source: {manifests: {path: apps/agent/m}}}\n")
	r.Write("apps/agent/m/a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: agent}\nspec: {containers: [{name: a, image: r.example.com/acme/agent:v1}]}\n")
	r.Commit("start")
	r.Write("clusters/all.yaml", strings.Replace(clusters, "1.33.2", "1.34.0", 1))
	r.Write("sluice.yaml", strings.Replace(fleet, "<=1.33", "<=1.34", 1))
	r.Commit("upgrade")
	runtime := session.Runtime{
		Cache: t.TempDir(), Version: "test", Offline: true, Fingerprint: []byte("k"),
		Clock: func() time.Time { return time.Unix(1_800_000_000, 0) },
	}
	s, err := session.Open(t.Context(), runtime, session.Options{
		Repo: r.Dir, Jobs: 2, Renderer: renderer.NewEngine(renderer.DefaultLimits()),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	base, head := r.Resolve("HEAD~1"), r.Resolve("HEAD")
	o := Request{Request: compare.Request{Base: base, Head: head, Key: []byte("k")}, Policy: base.Tree, Offline: true}
	isolated, err := inProcess(t, s, o)
	if err != nil {
		t.Fatal(err)
	}
	o.Key = derivedKey(o.Key, "hub:acme/fleet")
	local, err := Local{s}.Review(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	u := local.Review.Upgrade
	if u == nil || len(u.Clusters) != 2 || u.Clusters[0].Name != "a" || u.Clusters[0].Verdict != report.UpgradeBlocked ||
		u.Clusters[1].Verdict != report.UpgradeReady {
		t.Fatalf("verdicts: %+v", u)
	}
	if reasons := u.Clusters[0].BlockedBy; len(reasons) != 1 || reasons[0] != "agent 1.0.0 is for Kubernetes <=1.33" {
		t.Errorf("reasons: %q", reasons)
	}
	if !reflect.DeepEqual(isolated.Upgrade, u) {
		t.Errorf("the worker says %+v, this process %+v", isolated.Upgrade, u)
	}
}
