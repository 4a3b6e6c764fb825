package hydrate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/verify"
)

// hydrator.metadata, which GitOps Promoter reads, names the source commit. Only environment branches have it.
func TestHydratorMetadata(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	if out := r.Git("ls-tree", "--name-only", "env/dev"); strings.Contains(out, branch.MetadataFile) {
		t.Errorf("hydrator.metadata is written without spec.output.hydratorMetadata: %s", out)
	}
	text, err := os.ReadFile(filepath.Join(r.Dir, "sluice.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r.Write("sluice.yaml", string(text)+"  output: {hydratorMetadata: \"https://git.example.com/acme/fleet\"}\n")
	r.Commit("Tell other tools\n\nThey read it.\n\nAcked-by: B")
	r.Hydrate(nil)
	for _, environment := range []string{"dev", "prod"} {
		var got map[string]string
		if err := json.Unmarshal([]byte(r.Git("show", "env/"+environment+":"+branch.MetadataFile)), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"drySha": r.Git("rev-parse", "HEAD"), "repoURL": "https://git.example.com/acme/fleet",
			"author": "A <a@example.com>", "date": "2024-01-02T03:04:05+01:00",
			"subject": "Tell other tools", "body": "They read it.\n\nAcked-by: B",
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s is %q, want %q", environment, key, got[key], value)
			}
		}
	}
	if out := r.Git("ls-tree", "-r", "--name-only", "cluster/dev-1"); strings.Contains(out, branch.MetadataFile) {
		t.Error("a cluster's branch would move with every commit")
	}
	h := r.Hydrator(1)
	head, err := h.Store.Resolve(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	list, err := verify.Run(t.Context(), h, head, nil, time.Now())
	if err != nil || len(list) != 3 {
		t.Fatalf("the list is %v, the error is %v", list, err)
	}
	for _, v := range list {
		if v.Status != "ok" {
			t.Errorf("%s: the status is %s, the reason is %s", v.Environment, v.Status, v.Reason)
		}
	}
}
