package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The service notifies Flux and Argo CD of every branch that it moved.
func TestReceivers(t *testing.T) {
	var mu sync.Mutex
	var heard []string
	ear := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, rest, _ := strings.Cut(string(body), `"ref":"refs/heads/`)
		ref, _, _ := strings.Cut(rest, `"`)
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/flux/") {
			ref = ""
		}
		heard = append(heard, r.URL.Path+" "+ref)
	}))
	t.Cleanup(ear.Close)
	s := newStory(t, "github")
	s.config += "    receivers:\n    - {kind: flux, url: \"" + ear.URL +
		"/flux/${cluster.name}\", secret: {env: SECRET}, clusters: [\"dev-?\"]}\n" +
		"    - {kind: argocd, url: \"" + ear.URL + "/argocd\", secret: {env: SECRET}, repositories: [\"acme/*\"]}\n" +
		"    - {kind: argocd, url: \"" + ear.URL + "/others\", secret: {env: SECRET}, repositories: [\"other/*\"]}\n"
	s.config = strings.Replace(s.config, "  - {name: f, kind: github, ", "  - name: f\n    kind: github\n    ", 1)
	s.config = strings.NewReplacer(", git: ", "\n    git: ",
		", token: {env: TOKEN}, secrets: [{env: SECRET}], repositories: ["+repo+"]}",
		"\n    token: {env: TOKEN}\n    secrets: [{env: SECRET}]\n    repositories: ["+repo+"]").Replace(s.config)
	s.start()
	want := []string{"/argocd cluster/dev-1", "/argocd cluster/dev-edge-1", "/argocd env/dev", "/flux/dev-1 "}
	s.until("all are told", func() bool {
		mu.Lock()
		defer mu.Unlock()
		got := slices.Clone(heard)
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}
