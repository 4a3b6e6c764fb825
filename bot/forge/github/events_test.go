package github_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest"
)

// Compares the webhooks of the fake with GitHub's published examples: the fake must send every member, with the same
// JSON type. Members of repositories and users differ between examples; the members in the REST description are
// checked with every answer.
func TestFakeEvents(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed")
	}
	w := newWorld(t, true)
	sent := map[string]map[string]any{}
	w.server.SetOnEvent(func(event string, payload []byte) {
		var v map[string]any
		if err := json.Unmarshal(payload, &v); err != nil {
			t.Error(err)
		}
		if sent[event] == nil {
			sent[event] = v
		}
	})
	repo := w.Repository(t, "acme/fleet")
	w.User(t, "ada")
	mr := w.Open(t, repo, forgetest.Scene{
		Title: "x", Body: "y", Author: "ada", SourceBranch: "b",
		Labels: []string{"prod"},
	})
	w.Comment(t, repo, mr.Number, "ada", "/sluice help")
	w.Merge(t, repo, mr.Number)

	data, err := npmFile("@octokit/webhooks-examples@7.6.1", "package/api.github.com/index.json")
	if err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Name     string           `json:"name"`
		Examples []map[string]any `json:"examples"`
	}
	if err := json.Unmarshal(data, &events); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, e := range events {
		have := sent[e.Name]
		if have == nil {
			continue
		}
		// A member that all examples of this action have is one that GitHub always sends.
		missing, examples := map[string]int{}, 0
		for _, example := range e.Examples {
			if example["action"] != have["action"] {
				continue
			}
			examples++
			for _, m := range compareShape(e.Name, example, have) {
				missing[m]++
			}
		}
		for m, n := range missing {
			if n == examples {
				t.Error(m)
			}
		}
		if examples > 0 {
			compared++
		}
	}
	if compared != 3 {
		t.Errorf("%d of 3 events were compared", compared)
	}
}

// compareShape lists the members of an example that the fake lacks, or that have another type in the fake.
func compareShape(at string, example, have any) []string {
	if example == nil || have == nil {
		return nil
	}
	if fmt.Sprintf("%T", example) != fmt.Sprintf("%T", have) {
		return []string{fmt.Sprintf("%s is %T, the example has %T", at, have, example)}
	}
	p, ok := example.(map[string]any)
	if !ok || strings.HasSuffix(at, ".repository") || strings.HasSuffix(at, ".repo") {
		return nil
	}
	var out []string
	for name, v := range p {
		h, ok := have.(map[string]any)[name]
		if !ok {
			out = append(out, at+"."+name+" is missing")
			continue
		}
		out = append(out, compareShape(at+"."+name, v, h)...)
	}
	return out
}
