package workspace

import (
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/report"
)

// gitHost serves the repositories of a folder with git http-backend and records their paths.
type gitHost struct {
	*httptest.Server
	t    *testing.T
	root string

	mu    sync.Mutex
	asked []string
}

func newGitHost(t *testing.T) *gitHost {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	h := &gitHost{t: t, root: t.TempDir()}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + h.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"},
	}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.asked = append(h.asked, r.URL.Path)
		h.mu.Unlock()
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// wasAsked reports whether a repository got a request.
func (h *gitHost) wasAsked(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Contains(strings.Join(h.asked, "\n"), "/"+name+"/")
}

func (h *gitHost) git(name string, args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), "git", append([]string{"-C", filepath.Join(h.root, name), "-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files to a repository and returns the commit.
func (h *gitHost) commit(name string, files map[string]string) string {
	h.t.Helper()
	dir := filepath.Join(h.root, name)
	if _, err := os.Stat(dir); err != nil {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			h.t.Fatal(err)
		}
		h.git(name, "init", "-q", "-b", "main")
		h.git(name, "config", "uploadpack.allowAnySHA1InWant", "true")
		h.git(name, "config", "uploadpack.allowFilter", "true")
	}
	for file, text := range files {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			h.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	h.git(name, "add", "-A")
	h.git(name, "commit", "-qm", "change")
	return h.git(name, "rev-parse", "HEAD")
}

func (h *gitHost) lock(pins map[string]string) string {
	text := "apiVersion: sluice.dev/v1alpha1\nkind: Lock\ncharts: []\nrepositories:\n"
	for name, commit := range pins {
		text += fmt.Sprintf("  - {name: %s, url: %q, wanted: refs/heads/main, resolved: refs/heads/main, commit: %q}\n", name, h.URL+"/"+name+"/.git", commit)
	}
	return text
}

func (h *gitHost) repository(name string) string {
	return fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Repository\nmetadata: {name: %s}\nspec: {url: %q, branch: main}\n", name, h.URL+"/"+name+"/.git")
}

func configMap(value string) map[string]string {
	return map[string]string{"web/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: " + value + "}\n"}
}

func appIn(repository string) string {
	return "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {manifests: {path: web, repository: " + repository + "}}}\n"
}

// The worker sees content of the repositories that the trunk declares, at the commits that the change pins, and of no
// other repository.
func TestReviewOfOtherRepositories(t *testing.T) {
	t.Parallel()
	h := newGitHost(t)
	one := h.commit("components", configMap("one"))
	two := h.commit("components", configMap("two"))
	secret := h.commit("private", configMap("hunter2"))
	h.commit("fleet", map[string]string{
		"sluice.yaml":                  "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}]}\n",
		"repositories/components.yaml": h.repository("components"),
		"clusters/dev.yaml":            "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev, kubeVersion: 1.33.2}\n",
		"apps/web/app.yaml":            appIn("components"),
		"sluice.lock":                  h.lock(map[string]string{"components": one}),
	})
	h.git("fleet", "checkout", "-qb", "pin")
	h.commit("fleet", map[string]string{"sluice.lock": h.lock(map[string]string{"components": two})})
	h.git("fleet", "checkout", "-qb", "steal", "main")
	h.commit("fleet", map[string]string{
		"repositories/private.yaml": h.repository("private"),
		"apps/web/app.yaml":         appIn("private"),
		"sluice.lock":               h.lock(map[string]string{"components": one, "private": secret}),
	})

	r := Runtime{Cache: t.TempDir(), Version: "test", Offline: true, Fingerprint: []byte("k"), Clock: func() time.Time { return time.Unix(1_800_000_000, 0) }}
	s, err := Open(t.Context(), r, Options{Repo: h.URL + "/fleet/.git", Jobs: 2, Renderer: renderer.NewEngine(renderer.DefaultLimits())}, nil)
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
		o := ReviewOptions{Compare: compare.Request{Base: trunk, Head: commit(head), Key: []byte("k")}, Policy: trunk.Tree}
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
	s = trusted.withoutCredentials()
	if got := review("pin"); strings.Contains(got, "a: one") || strings.Contains(got, "a: two") || !strings.Contains(got, "other repositories are not read") {
		t.Errorf("the review of an untrusted change:\n%s", got)
	}
	s = trusted

	moved := review("pin")
	if !strings.Contains(moved, "-  a: one") || !strings.Contains(moved, "+  a: two") {
		t.Errorf("the review of a moved pin:\n%s", moved)
	}
	stolen := review("steal")
	if strings.Contains(stolen, "hunter2") || h.wasAsked("private") {
		t.Errorf("the change made the service read a repository that the trunk does not declare (asked: %v):\n%s", h.asked, stolen)
	}
	if !strings.Contains(stolen, "private") || !strings.Contains(stolen, "cannot be fetched") {
		t.Errorf("the review does not name the repository that is missing:\n%s", stolen)
	}
}

// A fleet that an untrusted person wrote is rendered together with a change of another repository. It sees the compared commits of that
// repository, and nothing else, whatever it declares and locks under the repository's name.
func TestUntrustedFleetWithAChangeOfAnotherRepository(t *testing.T) {
	t.Parallel()
	h := newGitHost(t)
	one := h.commit("components", configMap("one"))
	h.git("components", "checkout", "-qb", "other")
	other := h.commit("components", configMap("of-another-branch"))
	h.git("components", "checkout", "-q", "main")
	two := h.commit("components", configMap("two"))
	vault := h.commit("vault", configMap("hunter2"))
	h.commit("fleet", map[string]string{
		"sluice.yaml":                  "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}]}\n",
		"repositories/components.yaml": h.repository("components"),
		"repositories/vault.yaml":      h.repository("vault"), // the trunk reads it, so the clone has its content
		"clusters/dev.yaml":            "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev, kubeVersion: 1.33.2}\n",
		"apps/web/app.yaml":            appIn("components"),
		"sluice.lock":                  h.lock(map[string]string{"components": one, "vault": vault}),
	})
	components, vaultURL := h.URL+"/components/.git", h.URL+"/vault/.git"
	entry := func(name, url, commit string) string {
		return fmt.Sprintf("  - {name: %s, url: %q, wanted: refs/heads/main, resolved: refs/heads/main, commit: %q}\n", name, url, commit)
	}
	const lock = "apiVersion: sluice.dev/v1alpha1\nkind: Lock\ncharts: []\nrepositories:\n"
	for branch, files := range map[string]map[string]string{
		"honest":    {"sluice.lock": lock + entry("components", components, one), "apps/web/app.yaml": strings.Replace(appIn("components"), "namespace: web", "namespace: honest", 1)},
		"unrelated": {"sluice.lock": lock + entry("components", components, one) + entry("copy", components, other), "repositories/copy.yaml": strings.Replace(h.repository("components"), "name: components", "name: copy", 1), "apps/web/app.yaml": appIn("copy")},
		"renamed":   {"sluice.lock": lock + entry("components", vaultURL, vault), "repositories/components.yaml": strings.Replace(h.repository("vault"), "name: vault", "name: components", 1)},
		"lock":      {"sluice.lock": lock + entry("components", vaultURL, vault)},
	} {
		h.git("fleet", "checkout", "-qb", branch, "main")
		h.commit("fleet", files)
	}

	r := Runtime{Cache: t.TempDir(), Version: "test", Offline: true, Fingerprint: []byte("k"), Clock: func() time.Time { return time.Unix(1_800_000_000, 0) }}
	trusted, err := Open(t.Context(), r, Options{Repo: h.URL + "/fleet/.git", Jobs: 2, Renderer: renderer.NewEngine(renderer.DefaultLimits())}, nil)
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
	pins := Pins{Base: []source.Pinned{{Name: "components", URL: components, Commit: hash(one)}}, Head: []source.Pinned{{Name: "components", URL: components, Commit: hash(two)}}}
	s := reading(trusted.withoutCredentials(), pins, none)
	for branch, has := range map[string]string{"honest": "a: two", "unrelated": "other repositories are not read", "renamed": "other repositories are not read", "lock": "a: two"} {
		got, err := inProcess(t, s, ReviewOptions{Compare: compare.Request{Base: trunk, Head: commit(branch), Key: []byte("k")}, Policy: trunk.Tree, Pins: pins})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := report.Markdown(got, 60_000)
		if strings.Contains(text, "hunter2") || strings.Contains(text, "of-another-branch") || !strings.Contains(text, has) {
			t.Errorf("%s, without %q or with content of others:\n%s", branch, has, text)
		}
	}
}

func TestCredentialsOfOtherRepositories(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://git.example.com/acme/components":       "https://git.example.com/acme",
		"https://git.example.com/ACME/group/components": "https://git.example.com/acme",
		"https://git.example.com:8443/acme/components":  "https://git.example.com:8443/acme",
		"https://git.example.com/other/components":      "https://git.example.com/other",
		"https://git.example.com/components":            "", // no owner
		"https://git.example.com//acme/x":               "",
		"https://git.example.com/../acme/x":             "",
		"https://git.example.com/acme/components.git/":  "https://git.example.com/acme",
		// A server that resolves these paths reads the repository of another owner.
		"https://git.example.com/acme/../other/x":         "",
		"https://git.example.com/acme/./../other/x":       "",
		"https://git.example.com/acme/..":                 "",
		"https://git.example.com/acme/%2e%2e/other/x":     "",
		"https://git.example.com/acme%2f..%2fother/x":     "",
		"https://git.example.com/acme/%252e%252e/other":   "",
		"https://git.example.com/acme/..%5cother/x":       "",
		"https://git.example.com/acme//other/x":           "",
		"git@git.example.com:acme/components":             "",
		"https://git.example.com.evil.example.org/acme/x": "https://git.example.com.evil.example.org/acme",
	} {
		if got := ownerOf(address); got != want {
			t.Errorf("%s: %q", address, got)
		}
	}
}

// Other repositories of the fleet are read with the source's credential, even while rendered branches are pushed with
// another one.
func TestPushingKeepsTheCredentialForReading(t *testing.T) {
	t.Parallel()
	r := Runtime{Cache: t.TempDir(), Version: "test", Clock: time.Now, Git: gitstore.Auth{Token: "read"}}
	s, err := Open(t.Context(), r, Options{Repo: "https://git.example.com/acme/fleet", Jobs: 1, Renderer: renderer.NewEngine(renderer.DefaultLimits())}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	pushing := s.withGit(gitstore.Auth{Token: "push"})
	for _, session := range []*Session{s, pushing} {
		if got := session.credentialsFor(r)("https://git.example.com/acme/components").Token; got != "read" {
			t.Errorf("token %q", got)
		}
		if got := session.credentialsFor(r)("https://git.example.com/other/components").Token; got != "" {
			t.Errorf("token %q for another owner", got)
		}
	}
}
