package review

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/report"
)

// pinnedAt is a GitRepository with a Kustomization that applies a directory of it.
func pinnedAt(name, url, ref, dir string) string {
	return fmt.Sprintf(`apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: %[1]s, namespace: flux-system}
spec: {interval: 1m, url: %[2]q, ref: {%[3]s}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: %[1]s, namespace: flux-system}
spec: {interval: 10m, prune: true, path: %[4]s, targetNamespace: web, sourceRef: {kind: GitRepository, name: %[1]s}}
`, name, url, ref, dir)
}

// A review fetches the commits of other repositories that objects name by their ids, from hosts of the trunk, and with
// credentials only for repositories of the trunk in a trusted change. What the clone has from there is no exception.
func TestReviewOfPinnedCommits(t *testing.T) {
	t.Parallel()
	h, vault, stranger := hydratetest.NewHost(t), hydratetest.NewHost(t), hydratetest.NewHost(t)
	one := h.Commit("lib", hydratetest.ConfigMap("one"))
	h.Git("lib", "checkout", "-qb", "side")
	side := h.Commit("lib", hydratetest.ConfigMap("of-no-trunk"))
	h.Git("lib", "checkout", "-q", "main")
	two := h.Commit("lib", hydratetest.ConfigMap("two"))
	private := vault.Commit("private", map[string]string{
		"web/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: vault}\ndata: {a: shown}\n",
		"all/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: vault}\ndata: {a: hunter2}\n",
	})
	other := vault.Commit("other", hydratetest.ConfigMap("not-of-the-trunk"))
	foreign := stranger.Commit("lib", hydratetest.ConfigMap("foreign"))
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "s3cret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		vault.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(locked.Close)
	lib := func(ref string) string { return pinnedAt("lib", h.URL+"/lib/.git", ref, "./web") }
	const cluster = "clusters/prod/"
	h.Commit("fleet", map[string]string{
		"sluice.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: acme}\nspec:\n  environments: [{name: prod}]\n" +
			"  import: [{flux: {clusters: {prod: {path: clusters/prod, environment: prod, kubeVersion: 1.33.2}}}}]\n",
		cluster + "lib.yaml":     lib("commit: " + quoted(one)),
		cluster + "private.yaml": pinnedAt("private", locked.URL+"/private/.git", "commit: "+quoted(private), "./web"),
	})
	for branch, files := range map[string]map[string]string{
		"bump":   {cluster + "lib.yaml": lib("commit: " + quoted(two))},
		"side":   {cluster + "lib.yaml": lib("commit: " + quoted(side))},
		"branch": {cluster + "lib.yaml": lib("branch: main")},
		"none":   {cluster + "lib.yaml": lib("commit: " + quoted(strings.Repeat("1", 40)))},
		"peek": {
			cluster + "private.yaml": pinnedAt("private", locked.URL+"/private/.git", "commit: "+quoted(private),
				"./all"),
		},
		// with the content of a private repository under the address of one that anybody may read
		"disguise": {cluster + "lib.yaml": lib("commit: " + quoted(private))},
		"host":     {cluster + "lib.yaml": pinnedAt("lib", stranger.URL+"/lib/.git", "commit: "+quoted(foreign), "./web")},
		"reach":    {cluster + "lib.yaml": pinnedAt("lib", locked.URL+"/other/.git", "commit: "+quoted(other), "./web")},
	} {
		h.Git("fleet", "checkout", "-qb", branch, "main")
		h.Commit("fleet", files)
	}
	h.Git("fleet", "checkout", "-q", "main")

	r := session.Runtime{
		Cache: t.TempDir(), Version: "test", Offline: true, Fingerprint: []byte("k"),
		Clock: func() time.Time { return time.Unix(1_800_000_000, 0) },
		Hosts: func(host string) (gitstore.Auth, bool) {
			return gitstore.Auth{User: "sluice", Password: "s3cret", PlainHTTP: []string{host}},
				"http://"+host == locked.URL
		},
	}
	trusted, err := session.Open(t.Context(), r, session.Options{
		Repo: h.URL + "/fleet/.git", Jobs: 2, Renderer: renderer.NewEngine(renderer.DefaultLimits()),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(trusted.Close)
	commit := func(rev string) gitstore.Commit {
		c, err := trusted.Commit(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	trunk := commit("main")
	for _, c := range []struct {
		branch   string
		trusted  bool
		has, not string
	}{
		{"bump", true, "+  a: two", "withheld"},
		{"side", true, "+  a: of-no-trunk", "withheld"},
		{"branch", true, "the branch main can move", "a: two"},
		{"none", true, "cannot be fetched", "removed"},
		{"peek", true, "+  a: hunter2", "withheld"},
		{"host", true, "the trunk takes nothing from " + stranger.URL, "a: foreign"},
		{"reach", true, "cannot be fetched", "a: not-of-the-trunk"},
		{"bump", false, "+  a: two", "hunter2"},
		{"peek", false, "cannot be fetched", "hunter2"},
		{"disguise", false, "cannot be fetched", "shown"},
		{"host", false, "the trunk takes nothing from " + stranger.URL, "a: foreign"},
	} {
		s := trusted
		if !c.trusted {
			s = trusted.WithoutCredentials()
		}
		got, err := inProcess(t, s, Request{Request: compare.Request{
			Base: trunk, Head: commit(c.branch),
			Key: []byte("k"),
		}, Policy: trunk.Tree})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := report.Markdown(got, 60_000)
		if !strings.Contains(text, c.has) || strings.Contains(text, c.not) {
			t.Errorf("%s, trusted %v: the report lacks %q or has %q:\n%s", c.branch, c.trusted, c.has, c.not, text)
		}
	}
	if stranger.WasAsked("lib") || vault.WasAsked("other") {
		t.Errorf("a host or a repository that the trunk does not name was asked: %v, %v", stranger.Requests(),
			vault.Requests())
	}
}

func quoted(text string) string { return `"` + text + `"` }
