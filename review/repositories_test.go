package review

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/session"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/report"
)

// The worker sees content of the repositories that the trunk declares, at the commits that the change pins, and of no
// other repository.
func TestReviewOfOtherRepositories(t *testing.T) {
	t.Parallel()
	h := hydratetest.NewHost(t)
	one := h.Commit("components", hydratetest.ConfigMap("one"))
	two := h.Commit("components", hydratetest.ConfigMap("two"))
	secret := h.Commit("private", hydratetest.ConfigMap("hunter2"))
	h.Commit("fleet", map[string]string{
		"sluice.yaml":                  "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}]}\n",
		"repositories/components.yaml": h.Repository("components"),
		"clusters/dev.yaml":            "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev, kubeVersion: 1.33.2}\n",
		"apps/web/app.yaml":            hydratetest.AppIn("components"),
		"apps/api/app.yaml":            strings.Replace(hydratetest.AppIn("components"), "name: web", "name: api", 1),
		"sluice.lock":                  h.Lock(map[string]string{"components": one}),
	})
	h.Git("fleet", "checkout", "-qb", "pin")
	h.Commit("fleet", map[string]string{"sluice.lock": h.Lock(map[string]string{"components": two})})
	h.Git("fleet", "checkout", "-qb", "steal", "main")
	h.Commit("fleet", map[string]string{
		"repositories/private.yaml": h.Repository("private"),
		"apps/web/app.yaml":         hydratetest.AppIn("private"),
		"sluice.lock":               h.Lock(map[string]string{"components": one, "private": secret}),
	})

	r := session.Runtime{
		Cache: t.TempDir(), Version: "test", Offline: true, Fingerprint: []byte("k"),
		Clock: func() time.Time { return time.Unix(1_800_000_000, 0) },
	}
	s, err := session.Open(t.Context(), r, session.Options{
		Repo: h.URL + "/fleet/.git", Jobs: 2,
		Renderer: renderer.NewEngine(renderer.DefaultLimits()),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	commit := func(rev string) gitstore.Commit {
		c, err := s.Commit(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	trunk := commit("main")
	review := func(head string) string {
		o := Request{Request: compare.Request{Base: trunk, Head: commit(head), Key: []byte("k")}, Policy: trunk.Tree}
		got, err := inProcess(t, s, o)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := report.Markdown(got, 60_000)
		return text
	}

	// An untrusted change sees no content of other repositories, although the clone has it.
	trusted := s
	review("pin")
	s = trusted.WithoutCredentials()
	if got := review("pin"); strings.Contains(got, "a: one") || strings.Contains(got, "a: two") ||
		!strings.Contains(got, "other repositories are not read") {
		t.Errorf("the review of an untrusted change:\n%s", got)
	}
	s = trusted

	moved := review("pin")
	if !strings.Contains(moved, "-  a: one") || strings.Count(moved, "+  a: two") != 1 ||
		!strings.Contains(moved, "<b>2 apps</b>") || !strings.Contains(moved, "from <code>the pin of components</code>") {
		t.Errorf("the review of a moved pin:\n%s", moved)
	}
	stolen := review("steal")
	if strings.Contains(stolen, "hunter2") || h.WasAsked("private") {
		t.Errorf("the change made the service read a repository that the trunk does not declare (asked: %v):\n%s",
			h.Requests(), stolen)
	}
	if !strings.Contains(stolen, "private") || !strings.Contains(stolen, "cannot be fetched") {
		t.Errorf("the review does not name the repository that is missing:\n%s", stolen)
	}
}

// A fleet that an untrusted person wrote is rendered together with a change of another repository. It sees the compared
// commits of that repository, and nothing else, whatever it declares and locks under the repository's name.
func TestUntrustedFleetWithAChangeOfAnotherRepository(t *testing.T) {
	t.Parallel()
	h := hydratetest.NewHost(t)
	one := h.Commit("components", hydratetest.ConfigMap("one"))
	h.Git("components", "checkout", "-qb", "other")
	other := h.Commit("components", hydratetest.ConfigMap("of-another-branch"))
	h.Git("components", "checkout", "-q", "main")
	two := h.Commit("components", hydratetest.ConfigMap("two"))
	vault := h.Commit("vault", hydratetest.ConfigMap("hunter2"))
	h.Commit("fleet", map[string]string{
		"sluice.yaml":                  "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}]}\n",
		"repositories/components.yaml": h.Repository("components"),
		"repositories/vault.yaml":      h.Repository("vault"), // the trunk reads it, so the clone has its content
		"clusters/dev.yaml":            "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev, kubeVersion: 1.33.2}\n",
		"apps/web/app.yaml":            hydratetest.AppIn("components"),
		"sluice.lock":                  h.Lock(map[string]string{"components": one, "vault": vault}),
	})
	components, vaultURL := h.URL+"/components/.git", h.URL+"/vault/.git"
	entry := func(name, url, commit string) string {
		return fmt.Sprintf("  - {name: %s, url: %q, wanted: refs/heads/main, resolved: refs/heads/main, commit: %q}\n",
			name, url, commit)
	}
	const lock = "apiVersion: sluice.dev/v1alpha1\nkind: Lock\ncharts: []\nrepositories:\n"
	for branch, files := range map[string]map[string]string{
		"honest": {
			"sluice.lock": lock + entry("components", components, one),
			"apps/web/app.yaml": strings.Replace(hydratetest.AppIn("components"), "namespace: web", "namespace: honest",
				1),
		},
		"unrelated": {
			"sluice.lock":            lock + entry("components", components, one) + entry("copy", components, other),
			"repositories/copy.yaml": strings.Replace(h.Repository("components"), "name: components", "name: copy", 1),
			"apps/web/app.yaml":      hydratetest.AppIn("copy"),
		},
		"renamed": {
			"sluice.lock": lock + entry("components", vaultURL, vault),
			"repositories/components.yaml": strings.Replace(h.Repository("vault"), "name: vault", "name: components",
				1),
		},
		"lock": {"sluice.lock": lock + entry("components", vaultURL, vault)},
	} {
		h.Git("fleet", "checkout", "-qb", branch, "main")
		h.Commit("fleet", files)
	}

	r := session.Runtime{
		Cache: t.TempDir(), Version: "test", Offline: true, Fingerprint: []byte("k"),
		Clock: func() time.Time { return time.Unix(1_800_000_000, 0) },
	}
	trusted, err := session.Open(t.Context(), r, session.Options{
		Repo: h.URL + "/fleet/.git", Jobs: 2,
		Renderer: renderer.NewEngine(renderer.DefaultLimits()),
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
	none := func(string) gitstore.Auth { return gitstore.Auth{} }
	hash := func(text string) gitstore.Hash {
		out, err := gitstore.ParseHash(text)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for url, commits := range map[string][]string{components: {one, two, other}, vaultURL: {vault}} {
		for _, c := range commits { // the clone has them all
			if err := trusted.Store.FetchPinned(t.Context(), url, none(url), hash(c)); err != nil {
				t.Fatal(err)
			}
		}
	}
	pins := []Pin{{Name: "components", URL: components, Base: hash(one), Head: hash(two)}}
	s := trusted.WithoutCredentials().WithPinned([]source.Pinned{
		{Name: "components", URL: components, Commit: hash(one)},
		{Name: "components", URL: components, Commit: hash(two)},
	}, none)
	for branch, has := range map[string]string{
		"honest": "a: two", "unrelated": "other repositories are not read",
		"renamed": "other repositories are not read", "lock": "a: two",
	} {
		got, err := inProcess(t, s, Request{Request: compare.Request{
			Base: trunk, Head: commit(branch),
			Key: []byte("k"),
		}, Policy: trunk.Tree, Pins: pins})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := report.Markdown(got, 60_000)
		if strings.Contains(text, "hunter2") || strings.Contains(text, "of-another-branch") ||
			!strings.Contains(text, has) {
			t.Errorf("%s, without %q or with content of others:\n%s", branch, has, text)
		}
	}
}
