package webhook_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGitHubExamples sends every example of npm @octokit/webhooks-examples. Each must be accepted or ignored,
// and none swept unless the event asks for it.
func TestGitHubExamples(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("needs npm, which is not here")
	}
	data := npmFile(t, "@octokit/webhooks-examples@7.6.1", "package/api.github.com/index.json")
	var events []struct {
		Name     string            `json:"name"`
		Examples []json.RawMessage `json:"examples"`
	}
	if err := json.Unmarshal(data, &events); err != nil {
		t.Fatal(err)
	}
	s, log := &sink{}, &bytes.Buffer{}
	h := handler(t, s, log)
	sent, hints := 0, map[string]int{}
	for _, e := range events {
		for i, body := range e.Examples {
			r := hub(e.Name, body)
			r.Header.Set("X-GitHub-Delivery", fmt.Sprint(e.Name, " ", i))
			before := len(s.hints)
			if code := send(h, r); code != http.StatusOK && code != http.StatusAccepted {
				t.Errorf("%s, example %d: %d", e.Name, i, code)
			}
			hints[e.Name] += len(s.hints) - before
			sent++
		}
	}
	for _, e := range []string{"push", "pull_request", "check_run", "check_suite", "merge_group", "installation"} {
		if hints[e] == 0 {
			t.Errorf("no example of %s gives a hint", e)
		}
	}
	if strings.Contains(log.String(), "cannot decode") {
		t.Errorf("an example was not decoded: %s", log)
	}
	if sent < 200 {
		t.Errorf("only %d examples", sent)
	}
}

func npmFile(t *testing.T, spec, file string) []byte {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "sluice-test", strings.NewReplacer("@", "-", "/", "-").Replace(spec))
	kept := filepath.Join(dir, filepath.Base(file))
	if data, err := os.ReadFile(kept); err == nil {
		return data
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "npm", "pack", "--silent", "--pack-destination", dir,
		spec).CombinedOutput(); err != nil {
		t.Fatalf("npm pack %s: %v\n%s", spec, err, out)
	}
	archives, _ := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if len(archives) == 0 {
		t.Fatal("no archive")
	}
	packed, err := os.Open(archives[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	zip, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("%s is not in %s: %v", file, spec, err)
		}
		if h.Name != file {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(kept, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return data
	}
}

// gitlabPayload is a file of a client library's test data: the payload of one event.
type gitlabPayload struct {
	module, file, event string
	body                []byte
}

// gitlabPayloads reads all webhook payloads that GitLab's client libraries publish: the one that Sluice uses,
// and its successor, which GitLab maintains.
func gitlabPayloads(t *testing.T) []gitlabPayload {
	t.Helper()
	events := map[string]string{
		"merge_request": "Merge Request Hook", "note": "Note Hook", "push": "Push Hook",
		"tag_push": "Tag Push Hook", "pipeline": "Pipeline Hook", "user_add_to_group": "Member Hook",
	}
	var out []gitlabPayload
	for module, dir := range map[string]string{
		"go-gitlab": goModule(t, "github.com/xanzy/go-gitlab@v0.115.0",
			"h1:6DmtItNcVe+At/liXSgfE/DZNZrGfalQmBRmOcJjOn8="),
		"client-go": goModule(t, "gitlab.com/gitlab-org/api/client-go@v1.46.0",
			"h1:YxBWFZIFYKcGESCb9fpkwzouo+apyB9pr/XTWzNoL24="),
	} {
		files, err := filepath.Glob(filepath.Join(dir, "testdata", "*hooks", "*.json"))
		if err != nil || len(files) < 40 {
			t.Fatalf("%s has %d payloads: %v", module, len(files), err)
		}
		for _, file := range files {
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var kind struct {
				ObjectKind string `json:"object_kind"`
				EventName  string `json:"event_name"`
			}
			if err := json.Unmarshal(body, &kind); err != nil {
				t.Fatalf("%s: the error is %v", file, err)
			}
			event := cmp.Or(events[cmp.Or(kind.ObjectKind, kind.EventName)], "Other Hook")
			if filepath.Base(filepath.Dir(file)) == "systemhooks" {
				event = "System Hook"
			}
			out = append(out, gitlabPayload{
				module, filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file),
				event, body,
			})
		}
	}
	return out
}

// goModule downloads a module into the module cache and checks its hash.
func goModule(t *testing.T, module, sum string) (dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	var info struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(out, &info); err != nil || jsonErr != nil || info.Sum != sum {
		t.Fatalf("go mod download %s: %v %v %s, hash %s", module, err, jsonErr, info.Error, info.Sum)
	}
	return info.Dir
}

// TestGitLabExamples sends every payload that GitLab's client libraries publish, to the hook of a project and
// as a system hook. Each must be accepted or ignored; those that Sluice uses must give a hint for the right
// project and number.
func TestGitLabExamples(t *testing.T) {
	want := map[string]string{
		"webhooks/merge_request.json":         "lab review gitlabhq/gitlab-test #1 c0  false",
		"webhooks/service_merge_request.json": "lab review test/woodpecker #2 c0  false",
		// its keys end in a space
		"webhooks/group_merge_request.json": "lab sweep exm-namespace/example-project #0 c0  false",
		"webhooks/note_merge_request.json":  "lab comment gitlab-org/gitlab-test #1 c1244  false",
		"webhooks/push.json":                "lab trunk mike/diaspora #0 c0 master false",
		"webhooks/pipeline.json":            "lab trunk gitlab-org/gitlab-test #0 c0  false",
		"systemhooks/merge_request.json":    "lab review jsmith/example #1 c0  false",
		"webhooks/member.json":              "lab members  #0 c0  false",
		"systemhooks/push.json":             "lab trunk mike/diaspora #0 c0 master false",
		"webhooks/tag_push.json":            "lab tag jsmith/example #0 c0  false",
		"systemhooks/tag_push.json":         "lab tag jsmith/example #0 c0  false",
	}
	for _, change := range []string{"add_to", "remove_from", "update_for"} {
		for _, of := range []string{"group", "team"} {
			want["systemhooks/user_"+change+"_"+of+".json"] = "lab members  #0 c0  false"
		}
	}
	seen := map[string]int{}
	for _, p := range gitlabPayloads(t) {
		for _, event := range []string{p.event, "System Hook"} {
			s := &sink{}
			code := send(handler(t, s, io.Discard), lab(event, p.body))
			wantCode := http.StatusOK
			if want[p.file] != "" {
				wantCode = http.StatusAccepted
			}
			if got := strings.Join(s.got(), "|"); code != wantCode || got != want[p.file] {
				t.Errorf("%s %s as %s: %d %q, want %d %q", p.module, p.file, event, code, got, wantCode, want[p.file])
			}
		}
		seen[p.file]++
	}
	for file := range want {
		if seen[file] != 2 {
			t.Errorf("%s is in %d of 2 modules", file, seen[file])
		}
	}
}
