package app_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
)

// The service is stopped during its work, all its data is deleted, and after a restart it completes the work.
func TestRestarts(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.start()
		s.branch("cad", "CAD")
		n := s.open("cad", "ada")
		s.end()
		if err := os.RemoveAll(filepath.Join(s.dir, "data")); err != nil {
			t.Fatal(err)
		}
		s.start()
		s.says(n, "+  currency: CAD")
		s.end()
		s.start()
		s.merge(n)
		s.says(n, "runs it")
	})
}

// The service clones a damaged mirror again.
func TestDamagedMirror(t *testing.T) {
	s := newStory(t, "gitlab")
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	s.end()
	err := filepath.WalkDir(filepath.Join(s.dir, "data/mirrors"), func(name string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".pack") {
			return os.Chmod(name, 0o600)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	packs, _ := filepath.Glob(filepath.Join(s.dir, "data/mirrors/*/*/*/objects/pack/*.pack"))
	more, _ := filepath.Glob(filepath.Join(s.dir, "data/mirrors/*/*/*/*/objects/pack/*.pack"))
	for _, p := range append(packs, more...) {
		if err := os.WriteFile(p, []byte("garbage"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	s.branch("cad", "CAD")
	n := s.open("cad", "ada")
	s.says(n, "+  currency: CAD")
}

// Rate limits, failures and lost answers of the forge only delay the service.
func TestForgeFailures(t *testing.T) {
	s := newStory(t, "github")
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	for _, f := range []fakegithub.Fault{
		{Kind: fakegithub.BadGateway, Times: 3},
		{Kind: fakegithub.TooMany, Times: 2, RetryAfter: time.Second},
		{Kind: fakegithub.Lost, Method: "POST", Path: "/comments"},
	} {
		s.hub.Fail(f)
	}
	s.branch("cad", "CAD")
	n := s.open("cad", "ada")
	s.says(n, "+  currency: CAD")
}

// A person's commit on an environment branch stays, and the status reports it.
func TestSomebodyPushesToABranch(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		human := filepath.Join(s.dir, "human")
		s.run("", "clone", "-q", "-b", "env/dev", s.bare(repo), human)
		if err := os.WriteFile(filepath.Join(human, "note.txt"), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.run(human, "add", "-A")
		s.run(human, "commit", "-qm", "mine")
		s.run(human, "push", "-q")
		theirs := s.ref("env/dev")
		s.branch("cad", "CAD")
		n := s.open("cad", "ada")
		s.says(n, "CAD")
		s.merge(n)
		main := s.ref("main")
		s.until("the refusal is told", func() bool {
			return s.status(main, "sluice/dev") == "failure" || s.status(main, "sluice/dev") == "failed"
		})
		if s.ref("env/dev") != theirs {
			t.Error("a human's commit was buried")
		}
	})
}

// TestProbes: health, readiness, metrics.
func TestProbes(t *testing.T) {
	s := newStory(t, "github")
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	get := func(address string) (int, string) {
		resp, err := http.Get(address) //nolint:noctx // a short request
		if err != nil {
			return 0, err.Error()
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		_ = resp.Body.Close() // it was read
		return resp.StatusCode, string(body)
	}
	for address, part := range map[string]string{
		s.hooks.URL + "/healthz": "ok", s.hooks.URL + "/readyz": "ready",
		s.probes.URL + "/metrics":   "sluice_task_seconds_count",
		s.probes.URL + "/isolation": "restrictions in force",
	} {
		s.until(address+" says "+part, func() bool {
			status, body := get(address)
			return status == http.StatusOK && strings.Contains(body, part)
		})
	}
	for _, path := range []string{"/metrics", "/isolation", "/debug/pprof/"} {
		if status, _ := get(s.hooks.URL + path); status != http.StatusNotFound {
			t.Errorf("%s answers %d on the address of webhooks", path, status)
		}
	}
	if _, body := get(s.hooks.URL + "/readyz"); strings.Contains(body, "restrictions") {
		t.Errorf("/readyz tells what confines the workers: %s", body)
	}
}

// accepted sends a webhook until the service could store it: on a busy machine, that can take longer than the 0.9 s
// that a forge waits.
func (s *story) accepted(base, id, event string, body []byte) (int, error) {
	deadline := time.Now().Add(stage.Patience)
	for {
		code, err := s.post(base, id, event, body)
		if err != nil || code != http.StatusServiceUnavailable || time.Now().After(deadline) {
			return code, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// show logs what people see on the forge, and the branches.
func (s *story) show() {
	s.t.Helper()
	for number := 1; number < 100 && s.head(number) != ""; number++ {
		s.t.Logf("the comments of Sluice on %d:\n%s", number, strings.Join(s.comments(number), "\n====\n"))
	}
	out, err := exec.CommandContext(context.Background(), "git", "-C", s.bare(repo),
		"for-each-ref", "--format=%(refname) %(objectname:short) %(subject)").CombinedOutput()
	s.t.Logf("the branches (%v):\n%s", err, out)
	if out, err := exec.CommandContext(context.Background(), "git", "-C", s.bare(repo),
		"grep", "-h", "", "sluice/state").CombinedOutput(); err == nil {
		s.t.Logf("the records:\n%s", out)
	}
}
