package hydrate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// TestHydratorMetadata: the file that GitOps Promoter reads names the source commit, on environment branches alone.
func TestHydratorMetadata(t *testing.T) {
	t.Parallel()
	r := demo(t)
	r.hydrate(nil)
	if out := r.git("ls-tree", "--name-only", "env/dev"); strings.Contains(out, branch.MetadataFile) {
		t.Errorf("nobody asked for it: %s", out)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "sluice.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r.write("sluice.yaml", string(text)+"  output: {hydratorMetadata: \"https://git.example.com/acme/fleet\"}\n")
	r.commit("Tell other tools\n\nThey read it.\n\nAcked-by: B")
	r.hydrate(nil)
	for _, environment := range []string{"dev", "prod"} {
		var got map[string]string
		if err := json.Unmarshal([]byte(r.git("show", "env/"+environment+":"+branch.MetadataFile)), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"drySha": r.git("rev-parse", "HEAD"), "repoURL": "https://git.example.com/acme/fleet", "author": "A <a@example.com>", "date": "2024-01-02T03:04:05+01:00",
			"subject": "Tell other tools", "body": "They read it.\n\nAcked-by: B",
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s is %q, want %q", environment, key, got[key], value)
			}
		}
	}
	if out := r.git("ls-tree", "-r", "--name-only", "cluster/dev-1"); strings.Contains(out, branch.MetadataFile) {
		t.Error("a cluster's branch would move with every commit")
	}
	h := r.hydrator(1)
	head, err := h.store.Resolve(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	list, err := h.Verify(t.Context(), head, nil)
	if err != nil || len(list) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, v := range list {
		if v.Status != "ok" {
			t.Errorf("%s: %s %s", v.Environment, v.Status, v.Reason)
		}
	}
}
