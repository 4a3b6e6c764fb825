package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
)

type sandbox struct {
	t      *testing.T
	binary string
	dir    string
}

func (s *sandbox) run(dir, name string, args ...string) string {
	s.t.Helper()
	out, err := s.command(dir, name, args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (s *sandbox) command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A",
		"GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_AUTHOR_DATE=2024-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2024-01-02T03:04:05Z")
	return cmd
}

// newSandbox builds the real binary and commits the demo fleet.
func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	s := &sandbox{t: t, dir: t.TempDir(), binary: build(t)}
	s.source("fleet")
	return s
}

// followTrunk commits a fleet whose environments all follow the trunk, so that one hydration writes all branches.
func (s *sandbox) followTrunk(dir string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "sluice.yaml"), []byte(`apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: harbour}
spec:
  trunk: main
  layers: [class, environment, region, cluster]
  environments: [{name: dev}, {name: staging}, {name: prod}]
`), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.run(dir, "git", "commit", "-qam", "follow the trunk")
}

func (s *sandbox) source(name string) {
	s.t.Helper()
	dir := filepath.Join(s.dir, name)
	if err := os.CopyFS(dir, os.DirFS("../../testdata/fleet")); err != nil {
		s.t.Fatal(err)
	}
	s.run(dir, "git", "init", "-q", "-b", "main")
	s.run(dir, "git", "add", "-A")
	s.run(dir, "git", "commit", "-qm", "start")
}

// refs returns the branches of a repository, except main.
func (s *sandbox) refs(dir string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(s.run(dir, "git", "for-each-ref", "--format=%(refname:short) %(objectname)",
		"refs/heads")) {
		name, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "main" && name != "" {
			out[name] = hash
		}
	}
	return out
}

// Kills a pushing hydration at random times. Each branch is then at its old or new commit, and the next run reaches
// the same state as an undisturbed one.
func TestKilledRunsLeaveOldOrNewBranches(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	s := newSandbox(t)
	src := filepath.Join(s.dir, "fleet")
	hydrate := []string{"hydrate", "--push", "--refs-per-push", "3", "-q"}
	s.followTrunk(src)
	template := filepath.Join(s.dir, "before.git")
	s.run(s.dir, "git", "init", "-q", "--bare", template)
	s.run(src, "git", "remote", "add", "origin", template)
	s.run(src, "git", "push", "-q", "origin", "HEAD:main")
	s.run(src, s.binary, hydrate...)
	before := s.refs(template)
	values := filepath.Join(src, "layers", "global", "values.yaml")
	if err := os.WriteFile(values, []byte("domain: other.example.com\ncluster: ${cluster.name}\nlogLevel: trace\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	chart := filepath.Join(src, "charts", "web", "values.yaml")
	data, err := os.ReadFile(chart)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(chart, bytes.Replace(data, []byte("replicas: 1"), []byte("replicas: 5"), 1),
		0o600); err != nil {
		t.Fatal(err)
	}
	s.run(src, "git", "commit", "-qam", "everywhere")
	s.run(src, "git", "push", "-q", "origin", "HEAD:main")
	undisturbed := s.remote(src, template, "undisturbed")
	start := time.Now()
	s.run(src, s.binary, hydrate...)
	took := time.Since(start)
	after := s.refs(undisturbed)

	kills, cut := killCount(t), 0
	for i := range kills {
		remote := s.remote(src, template, fmt.Sprint("killed-", i))
		cmd := s.command(src, s.binary, hydrate...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.Int64N(int64(took))))
		_ = cmd.Process.Kill()
		if cmd.Wait() != nil {
			cut++
		}
		for name, hash := range s.refs(remote) {
			if hash != before[name] && hash != after[name] {
				t.Errorf("kill %d: %s is at %s, neither old nor new", i, name, hash)
			}
		}
		s.sound(remote)
		s.converge(src, remote, hydrate, after)
	}
	t.Logf("%d of %d runs were cut off", cut, kills)
	if cut == 0 {
		t.Error("no run was cut off")
	}
}

// remote makes a copy of a repository the origin of the source.
func (s *sandbox) remote(src, from, name string) string {
	s.t.Helper()
	dir := filepath.Join(s.dir, name+".git")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		s.t.Fatal(err)
	}
	s.run(src, "git", "remote", "set-url", "origin", dir)
	return dir
}

// sound asserts that a repository is undamaged. The receive-pack of a killed run may live a moment longer, and move
// objects and branches during git fsck.
func (s *sandbox) sound(dir string) {
	s.t.Helper()
	var out []byte
	for deadline := time.Now().Add(stage.Patience); time.Now().Before(deadline); {
		var err error
		if out, err = s.command(dir, "git", "fsck", "--strict").CombinedOutput(); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Errorf("%s is not whole:\n%s", dir, out)
}

// converge repeats the run until a receive-pack of the killed run has ended.
func (s *sandbox) converge(src, remote string, hydrate []string, want map[string]string) {
	s.t.Helper()
	var last []byte
	for deadline := time.Now().Add(stage.Patience); time.Now().Before(deadline); {
		out, err := s.command(src, s.binary, hydrate...).CombinedOutput()
		last = out
		if err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	got := s.refs(remote)
	for name, hash := range want {
		if got[name] != hash {
			s.t.Errorf("%s: %s is at %s, not at %s\n%s", remote, name, got[name], hash, last)
		}
	}
}

// Hydrates one commit in different circumstances, with the same result.
func TestOutputDependsOnlyOnTheCommit(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	s := newSandbox(t)
	var first map[string]string
	for i, c := range []struct{ zone, jobs string }{{"UTC", "1"}, {"Asia/Kathmandu", "4"}, {"America/St_Johns", "2"}} {
		dir := filepath.Join(s.dir, fmt.Sprint("clone-", i))
		s.run(s.dir, "git", "clone", "-q", "fleet", dir)
		temp := filepath.Join(s.dir, fmt.Sprint("tmp-", i))
		if err := os.Mkdir(temp, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := s.command(dir, s.binary, "hydrate", "--env", "dev,staging,prod", "--jobs", c.jobs)
		cmd.Env = append(cmd.Env, "TZ="+c.zone, "TMPDIR="+temp, "LC_ALL=C")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("the error is %v\nthe output is\n%s", err, out)
		}
		refs := s.refs(dir)
		if first == nil {
			first = refs
		}
		if fmt.Sprint(refs) != fmt.Sprint(first) || len(refs) != 10 {
			t.Errorf("%v\nand\n%v", refs, first)
		}
	}
}
