package gitlab_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest"
)

// Compares the webhooks of the fake with the payloads that GitLab's own client library publishes: the fake must send
// every member, with the same JSON type.
func TestFakeEvents(t *testing.T) {
	w := newWorld(t)
	sent := map[string]map[string]any{}
	w.server.SetOnEvent(func(event string, payload []byte) {
		var v map[string]any
		if err := json.Unmarshal(payload, &v); err != nil {
			t.Error(err)
		}
		sent[event] = v
	})
	repo := w.Repository(t, "acme/fleet")
	w.User(t, "ada")
	mr := w.Open(t, repo, forgetest.Scene{Title: "x", Author: "ada", SourceBranch: "b", Labels: []string{"prod"}})
	w.Comment(t, repo, mr.Number, "ada", "/sluice help")
	w.Merge(t, repo, mr.Number)

	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json",
		"gitlab.com/gitlab-org/api/client-go@v1.46.0")
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	var module struct{ Dir, Sum string }
	if jsonErr := json.Unmarshal(out, &module); err != nil || jsonErr != nil ||
		module.Sum != "h1:YxBWFZIFYKcGESCb9fpkwzouo+apyB9pr/XTWzNoL24=" {
		t.Fatalf("download client-go: %v, %v, hash %s", err, jsonErr, module.Sum)
	}
	for event, file := range map[string]string{
		"Merge Request Hook": "merge_request.json", "Note Hook": "note_merge_request.json", "Push Hook": "push.json",
	} {
		data, err := os.ReadFile(filepath.Join(module.Dir, "testdata", "webhooks", file))
		if err != nil {
			t.Fatal(err)
		}
		var published map[string]any
		if err := json.Unmarshal(data, &published); err != nil {
			t.Fatal(err)
		}
		for _, missing := range compareShape(event, published, sent[event]) {
			t.Error(missing)
		}
	}
}

// compareShape lists the members of a published value that another value lacks, or that have another type in it.
func compareShape(at string, published, have any) []string {
	// null is possible where the documentation shows a value, and the other way round
	if published == nil || have == nil {
		return nil
	}
	if fmt.Sprintf("%T", published) != fmt.Sprintf("%T", have) {
		return []string{fmt.Sprintf("%s is %T, published is %T", at, have, published)}
	}
	var out []string
	switch p := published.(type) {
	case map[string]any:
		if filepath.Ext(at) == ".changes" { // what changed differs from event to event
			return nil
		}
		for name, v := range p {
			h, ok := have.(map[string]any)[name]
			if !ok {
				out = append(out, at+"."+name+" is missing")
				continue
			}
			out = append(out, compareShape(at+"."+name, v, h)...)
		}
	case []any:
		if h, ok := have.([]any); ok && len(p) > 0 && len(h) > 0 {
			return compareShape(at+"[0]", p[0], h[0])
		}
	}
	return out
}
