package app_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// The service pushes the artifacts of the branches that it moved, and again when a registry works that did not. It
// pushes to no registry that its configuration does not name.
func TestArtifacts(t *testing.T) {
	var down atomic.Bool
	var denied atomic.Int64
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			denied.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	s := newStory(t, "github")
	s.config = strings.Replace(s.config, "repositories: ["+repo+"]", "repositories: ["+repo+"], outputs: [\"oci://"+host+"/gitops/*\"]", 1)
	oci := func(path string) {
		file := filepath.Join(s.dir, "work", "sluice.yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		before, after, _ := strings.Cut(string(text), "\nspec:\n")
		if strings.HasPrefix(after, "  output:") {
			_, after, _ = strings.Cut(after, "\n")
		}
		if err := os.WriteFile(file, []byte(before+"\nspec:\n  output: {oci: {repository: \"oci://"+host+path+"\"}}\n"+after), 0o600); err != nil {
			t.Fatal(err)
		}
		s.commit("artifacts at " + path)
		s.push("main")
	}
	published := func(path, cluster string) bool {
		r, err := fetch.New(fetch.Options{}).Registry("oci://" + host + path + "/harbour/" + cluster)
		if err != nil {
			t.Fatal(err)
		}
		commit := s.ref("cluster/" + cluster)
		if down.Load() || commit == "" {
			return false
		}
		own, err := r.Resolve(t.Context(), commit)
		if err != nil {
			return false
		}
		latest, err := r.Resolve(t.Context(), "latest")
		return err == nil && latest.Digest == own.Digest
	}
	oci("/gitops")
	s.start()
	s.until("the artifacts of dev are there", func() bool {
		return published("/gitops", "dev-1") && published("/gitops", "dev-edge-1")
	})
	s.until("the first promotions publish, too", func() bool { return published("/gitops", "staging-1") })
	before := s.ref("cluster/dev-1")
	down.Store(true)
	work := filepath.Join(s.dir, "work")
	s.run(work, "mv", "apps/shop/layers/environment/dev/values.yaml", "apps/shop/layers/environment/dev/old.yaml")
	s.commit("other values")
	s.push("main")
	s.until("the branch moves without a registry", func() bool { return s.ref("cluster/dev-1") != before && denied.Load() > 0 })
	if published("/gitops", "dev-1") {
		t.Error("an artifact appears in a registry that is down")
	}
	s.until("the metrics count a run that the registry ended", func() bool { return s.metric("sluice_artifacts_total", `result="waiting"`) >= 1 })
	down.Store(false)
	s.until("the next check publishes", func() bool { return published("/gitops", "dev-1") })
	s.until("the metrics count artifacts", func() bool { return s.metric("sluice_artifacts_total", `result="pushed"`) >= 3 })
	oci("/elsewhere")
	s.run(work, "mv", "apps/shop/layers/environment/dev/old.yaml", "apps/shop/layers/environment/dev/values.yaml")
	s.commit("the values again")
	s.push("main")
	moved := s.ref("cluster/dev-1")
	s.until("the branch moves", func() bool { return s.ref("cluster/dev-1") != moved })
	s.idle()
	if published("/elsewhere", "dev-1") {
		t.Error("the service pushed to a registry that its configuration does not name")
	}
}
