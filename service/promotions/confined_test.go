package promotions

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/session"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/rollout"
)

// A promotion of what a workspace may no longer contain is red although the environment contains it already, and also
// if nobody evaluates the policy.
func TestPromotionsAreConfined(t *testing.T) {
	t.Parallel()
	const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
	h := hydratetest.NewHost(t)
	tenant := func(kinds, value string) map[string]string {
		return map[string]string{
			"workspaces/team-a.yaml": base +
				"Workspace\nmetadata: {name: team-a}\nspec: {clusters: {}, namespaces: [team-a]" + kinds + "}\n",
			"workspaces/team-a/apps/web/app.yaml": base +
				"App\nmetadata: {name: web}\nspec: {namespace: team-a, placement: {}, source: {manifests: {path: m}}}\n",
			"workspaces/team-a/m/class.yaml": "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: x}\nvalue: " + value + "\n",
		}
	}
	files := tenant(", kinds: {clusterScoped: [PriorityClass.scheduling.k8s.io]}", "1")
	files["sluice.yaml"] = base +
		"Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}, {name: prod, after: [dev]}]}\n"
	files["clusters/prod.yaml"] = base + "Cluster\nmetadata: {name: prod-1}\nspec: {environment: prod}\n"
	h.Commit("fleet", files)

	r := session.Runtime{
		Cache: t.TempDir(), Version: "test", Offline: true, Fingerprint: []byte("k"),
		Clock: func() time.Time { return time.Unix(1_800_000_000, 0) },
	}
	s, err := session.Open(t.Context(), r, session.Options{
		Repo: filepath.Join(h.Root, "fleet"), Jobs: 1,
		Renderer: renderer.NewEngine(renderer.DefaultLimits()),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	allowed, err := s.Commit(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	written, err := s.Hydrate(t.Context(), hydrate.Request{
		Commit: allowed, Write: true,
		Environments: []string{"prod"},
	})
	if err != nil || !written.OK() {
		t.Fatalf("%+v: the error is %v", written, err)
	}
	h.Commit("fleet", tenant("", "2"))
	narrowed, err := s.Commit(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	for _, noPolicy := range []bool{false, true} {
		if state, why := WithoutForge(s, narrowed, noPolicy).Policy.Judge(t.Context(),
			promote.Part{Environment: "prod", Source: narrowed}); state != rollout.Red || why == "" {
			t.Errorf("without a policy %t: %s %s", noPolicy, state, why)
		}
		if state, why := WithoutForge(s, allowed, noPolicy).Policy.Judge(t.Context(),
			promote.Part{Environment: "prod", Source: allowed}); state != rollout.Green {
			t.Errorf("what is allowed, without a policy %t: %s %s", noPolicy, state, why)
		}
	}
}
