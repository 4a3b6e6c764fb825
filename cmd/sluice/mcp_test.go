package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// agentFleet is a fleet with history, a clone of it with staged and unstaged changes, and what the program needs.
type agentFleet struct {
	t           *testing.T
	clone, hub  string
	environment []string
}

func newAgentFleet(t *testing.T) *agentFleet {
	t.Helper()
	dir := t.TempDir()
	f := &agentFleet{t: t, clone: filepath.Join(dir, "clone"), hub: filepath.Join(dir, "hub.git")}
	f.environment = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+dir,
		"GIT_AUTHOR_NAME=Mia", "GIT_AUTHOR_EMAIL=mia@example.com", "GIT_COMMITTER_NAME=Mia",
		"GIT_COMMITTER_EMAIL=mia@example.com", "SLUICE_CACHE_DIR="+filepath.Join(dir, "cache"), "SLUICE_OFFLINE=1",
		"SLUICE_FINGERPRINT_KEY=test")
	f.run("git", "init", "-q", "--bare", "-b", "main", f.hub)
	f.run("sluice", "init", f.clone)
	f.git("init", "-q", "-b", "main")
	f.git("add", "-A")
	f.git("commit", "-qm", "Start a fleet")
	f.git("remote", "add", "origin", f.hub)
	f.git("push", "-q", "origin", "main")
	f.sluice("hydrate", "--push")
	f.sluice("promote", "prod")
	f.change("replicas: 2\n")
	f.git("commit", "-qam", "More replicas")
	f.git("push", "-q", "origin", "main")
	f.sluice("hydrate", "--push")
	f.change("replicas: 3\n")
	f.git("add", "-A")
	f.change("replicas: 4\n")
	return f
}

// change writes a layer of the working tree.
func (f *agentFleet) change(text string) {
	f.t.Helper()
	name := filepath.Join(f.clone, "apps/hello/layers/global/values.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *agentFleet) git(args ...string) {
	f.t.Helper()
	f.run("git", append([]string{"-C", f.clone}, args...)...)
}

func (f *agentFleet) sluice(args ...string) string {
	f.t.Helper()
	return f.run("sluice", append(args, "--repo", f.clone)...)
}

// run returns the standard output of a program.
func (f *agentFleet) run(name string, args ...string) string {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), name, args...)
	cmd.Env = f.environment
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		f.t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, &failed)
	}
	return string(out)
}

// files maps each file of the clone and of its remote to its mode and content: the working tree, the index, all refs
// and all objects.
func (f *agentFleet) files() map[string]string {
	f.t.Helper()
	out := map[string]string{}
	for _, root := range []string{f.clone, f.hub} {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			sum := sha256.Sum256(data)
			out[name] = info.Mode().String() + " " + hex.EncodeToString(sum[:])
			return nil
		})
		if err != nil {
			f.t.Fatal(err)
		}
	}
	return out
}

// TestAgentReadsOnly talks to `sluice mcp` as a client does: over standard input and output of the program. Every tool
// answers what its verb writes with -o json, and no file of the clone or of its remote changes.
func TestAgentReadsOnly(t *testing.T) {
	t.Parallel()
	f := newAgentFleet(t)
	type object = map[string]any
	calls := []struct {
		tool      string
		arguments object
		verb      []string
	}{
		{"where", object{}, []string{"where"}},
		{"where", object{"environments": []string{"prod"}, "revision": "HEAD"}, []string{"where", "--env", "prod", "--commit", "HEAD"}},
		{"where", object{"kind": "deployment"}, []string{"where", "--kind", "deployment"}},
		{"explain", object{"app": "hello", "cluster": "prod-1"}, []string{"explain", "--app", "hello", "--cluster", "prod-1"}},
		{"explain", object{"app": "hello", "allClusters": true, "value": "replicas"}, []string{"explain", "--app", "hello", "--all-clusters", "--value", "replicas"}},
		{"diff", object{}, []string{"diff"}},
		{"diff", object{"base": "HEAD~1", "head": "HEAD", "apps": []string{"hello"}}, []string{"diff", "HEAD~1..HEAD", "--app", "hello"}},
		{"diff", object{"against": "env/prod"}, []string{"diff", "--against", "env/prod"}},
		{"diff", object{"clusters": []string{"dev-1"}, "against": "prod-1"}, []string{"diff", "--cluster", "dev-1", "--against", "prod-1"}},
		{"affected", object{"base": "HEAD~1", "head": "HEAD"}, []string{"affected", "HEAD~1..HEAD"}},
		{"status", object{}, []string{"status"}},
		{"status", object{"environment": "dev"}, []string{"status", "dev"}},
		{"history", object{"environment": "prod", "number": 5}, []string{"history", "prod", "-n", "5"}},
		{"check", object{"environments": []string{"prod"}}, []string{"check", "--env", "prod"}},
	}
	before := f.files()
	if len(before) < 20 {
		t.Fatalf("the clone and its remote have only %d files", len(before))
	}
	wants := make([]string, len(calls))
	for i, c := range calls {
		wants[i] = f.sluice(append(c.verb, "-o", "json")...)
	}

	server := exec.CommandContext(t.Context(), "sluice", "mcp", "--repo", f.clone)
	server.Env = f.environment
	var failed bytes.Buffer
	server.Stderr = &failed
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: server}, nil)
	if err != nil {
		t.Fatalf("initialize: %v\n%s", err, &failed)
	}
	if got := session.InitializeResult().ServerInfo.Name; got != "sluice" {
		t.Errorf("the server calls itself %q", got)
	}
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatalf("tools/list: %v\n%s", err, &failed)
	}
	unused := map[string]bool{}
	for _, tool := range tools.Tools {
		unused[tool.Name] = true
	}
	for i, c := range calls {
		delete(unused, c.tool)
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.arguments})
		if err != nil {
			t.Fatalf("tools/call %s: %v\n%s", c.tool, err, &failed)
		}
		text, ok := result.Content[0].(*mcp.TextContent)
		if result.IsError || !ok || text.Text != wants[i] {
			t.Errorf("%s %v: got (error %t)\n%s\nsluice %s -o json writes\n%s", c.tool, c.arguments, result.IsError,
				text.Text, strings.Join(c.verb, " "), wants[i])
		}
	}
	if len(unused) > 0 {
		t.Errorf("the test calls no %v", slices.Sorted(maps.Keys(unused)))
	}
	if err := session.Close(); err != nil {
		t.Errorf("the server ended with %v\n%s", err, &failed)
	}
	after := f.files()
	for name, want := range before {
		if after[name] != want {
			t.Errorf("%s changed from %s to %q", name, want, after[name])
		}
	}
	for name := range after {
		if before[name] == "" {
			t.Errorf("%s is new", name)
		}
	}
	if failed.Len() > 0 {
		t.Errorf("standard error has %q", &failed)
	}
}
