package app_test

import (
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sluice-gitops/sluice/hydrate/ocigit"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// The service hydrates, promotes and reviews a fleet whose branches are in a registry.
func TestBranchesInRegistry(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	s := newStory(t, "github")
	s.config = strings.Replace(s.config, "repositories: ["+repo+"]", "repositories: ["+repo+"], outputs: [\"oci://"+host+"/gitops/*\"], settings: {branchProtection: off}", 1)
	file := filepath.Join(s.dir, "work", "sluice.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "\nspec:\n", "\nspec:\n  output: {repository: \"oci://"+host+"/gitops\"}\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.commit("branches in a registry")
	s.push("main")
	at, err := fetch.New(fetch.Options{}).Registry("oci://" + host + "/gitops/harbour")
	if err != nil {
		t.Fatal(err)
	}
	branches := func() map[string]string {
		_, data, err := at.Manifest(t.Context(), ocigit.StateTag)
		if err != nil {
			return nil
		}
		var m ocispec.Manifest
		var c struct{ Branches map[string]string }
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		config, err := at.Blob(t.Context(), m.Config, 1<<20)
		if err != nil || json.Unmarshal(config, &c) != nil {
			t.Fatal(err)
		}
		return c.Branches
	}
	s.start()
	s.until("dev is hydrated", func() bool { return branches()["cluster/dev-1"] != "" })
	s.until("staging is promoted", func() bool { return branches()["cluster/staging-1"] != "" })

	// A merge request is compared with what the registry has.
	work := filepath.Join(s.dir, "work")
	s.run(work, "checkout", "-q", "-B", "other-values")
	s.run(work, "mv", "apps/shop/layers/environment/dev/values.yaml", "apps/shop/layers/environment/dev/old.yaml")
	s.commit("other values")
	s.push("other-values")
	s.shown((&companion{story: s, path: repo}).describe("other-values", "ada", "other values"), "success", []string{"shop", "dev-1"}, nil)
	if s.ref("cluster/dev-1") != "" {
		t.Error("the source repository has a cluster branch")
	}
}
