package review

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/report"
)

// The worker of `sluice ci --no-policy` holds a change to the bounds of workspaces.
func TestBoundsOnly(t *testing.T) {
	t.Parallel()
	const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
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
	files["sluice.yaml"] = base + "Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}]}\n"
	files["clusters/dev.yaml"] = base + "Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev}\n"
	h := hydratetest.NewHost(t)
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
	allowed := tip(t, s)
	h.Commit("fleet", tenant("", "2"))
	narrowed := tip(t, s)
	got, err := inProcess(t, s, Request{
		Request: compare.Request{Base: allowed, Head: narrowed, Key: []byte("k")},
		Policy:  narrowed.Tree, BoundsOnly: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Verdict != report.VerdictFail || len(got.Findings.Introduced) != 1 ||
		got.Findings.Introduced[0].Rule != "workspace-kind" {
		t.Errorf("verdict %s with the findings %+v, want %s with one of workspace-kind", got.Verdict,
			got.Findings.Introduced, report.VerdictFail)
	}
}
