package hydratetest

import (
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Host serves the repositories of a folder with git http-backend and records their paths.
type Host struct {
	*httptest.Server
	T    *testing.T
	Root string // folder with the repositories

	mu    sync.Mutex
	asked []string
}

// NewHost starts a Git server without repositories.
func NewHost(t *testing.T) *Host {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{T: t, Root: t.TempDir()}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env: []string{
			"GIT_PROJECT_ROOT=" + h.Root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_CONFIG_SYSTEM=/dev/null",
		},
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

// WasAsked reports whether a repository got a request.
func (h *Host) WasAsked(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Contains(strings.Join(h.asked, "\n"), "/"+name+"/")
}

// Requests returns the paths of all requests so far.
func (h *Host) Requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked)
}

// Git runs git in a repository and returns its output.
func (h *Host) Git(name string, args ...string) string {
	h.T.Helper()
	cmd := exec.CommandContext(h.T.Context(), "git", append([]string{
		"-C", filepath.Join(h.Root, name), "-c",
		"user.name=A", "-c", "user.email=a@example.com",
	}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.T.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Commit writes files to a repository and returns the commit.
func (h *Host) Commit(name string, files map[string]string) string {
	h.T.Helper()
	dir := filepath.Join(h.Root, name)
	if _, err := os.Stat(dir); err != nil {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			h.T.Fatal(err)
		}
		h.Git(name, "init", "-q", "-b", "main")
		h.Git(name, "config", "uploadpack.allowAnySHA1InWant", "true")
		h.Git(name, "config", "uploadpack.allowFilter", "true")
	}
	for file, text := range files {
		file = filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			h.T.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			h.T.Fatal(err)
		}
	}
	h.Git(name, "add", "-A")
	h.Git(name, "commit", "-qm", "change")
	return h.Git(name, "rev-parse", "HEAD")
}

// Lock returns a sluice.lock that pins repositories of the host.
func (h *Host) Lock(pins map[string]string) string {
	var text strings.Builder
	text.WriteString("apiVersion: sluice.dev/v1alpha1\nkind: Lock\ncharts: []\nrepositories:\n")
	for name, commit := range pins {
		fmt.Fprintf(&text, "  - {name: %s, url: %q, wanted: refs/heads/main, resolved: refs/heads/main, commit: %q}\n",
			name, h.URL+"/"+name+"/.git", commit)
	}
	return text.String()
}

// Repository declares a repository of the host for a fleet.
func (h *Host) Repository(name string) string {
	return fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Repository\nmetadata: {name: %s}\nspec: {url: %q, branch: main}\n", name, h.URL+"/"+name+"/.git")
}

// ConfigMap returns a file with a ConfigMap.
func ConfigMap(value string) map[string]string {
	return map[string]string{"web/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: " +
		value + "}\n"}
}

// AppIn declares an app whose manifests are in another repository.
func AppIn(repository string) string {
	return "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {manifests: {path: web, repository: " + repository + "}}}\n"
}
