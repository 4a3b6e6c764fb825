package app_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
)

// TestUnsignedWebhooksMakeNoSeries: nobody can fill the metrics from outside.
func TestUnsignedWebhooksMakeNoSeries(t *testing.T) {
	s := newStory(t, "github")
	s.start()
	for i := range 50 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.hooks.URL+"/hooks/f", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-GitHub-Event", fmt.Sprint("nobody-", i))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	const all = "sluice_webhooks_total"
	if n := metric(t, s.hooks.URL, all, "nobody"); n > 0 {
		t.Errorf("%v webhooks are counted by their own words", n)
	}
	if n := metric(t, s.hooks.URL, all, `event="unverified"`); n != 50 {
		t.Errorf("%v webhooks of nobody", n)
	}
}

// mirror tells one clone of the repository from the next.
func (s *story) mirror() string {
	s.t.Helper()
	all, err := filepath.Glob(filepath.Join(s.dir, "data/mirrors/f/*"))
	if err != nil || len(all) != 1 {
		s.t.Fatalf("mirrors %q, %v", all, err)
	}
	out, err := exec.CommandContext(s.t.Context(), "stat", "-c", "%i %W", all[0]).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestDeletedTarget: a merge request onto a branch that is gone is told so, and nothing is cloned again for it. When the branch is
// back, all is well.
func TestDeletedTarget(t *testing.T) {
	s := newStory(t, "github")
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	s.branch("cad", "CAD")
	work := filepath.Join(s.dir, "work")
	s.run(work, "push", "-q", "origin", "origin/main:refs/heads/release")
	pr, err := s.hub.OpenPR(repo, fakegithub.PR{Title: "x", Author: "ada", Head: "cad", Base: "release"})
	if err != nil {
		t.Fatal(err)
	}
	s.says(pr.Number, "CAD")
	made := s.mirror()
	s.run(work, "push", "-q", "origin", ":refs/heads/release")
	s.until("it is told", func() bool { return s.status(s.head(pr.Number), "sluice") == "failure" })
	s.looks(2)
	if n := metric(t, s.hooks.URL, "sluice_task_seconds_count", `result="error"`); n > 0 {
		t.Errorf("%v tasks failed", n)
	}
	if now := s.mirror(); now != made {
		t.Errorf("the mirror was made again: %s, then %s", made, now)
	}
	s.run(work, "push", "-q", "origin", "origin/main:refs/heads/release")
	s.until("it is well again", func() bool { return s.status(s.head(pr.Number), "sluice") == "success" })
}

// TestUnrelatedHistory: a merge request that shares no commit with its target is told so, once.
func TestUnrelatedHistory(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		made := s.mirror()
		work := filepath.Join(s.dir, "work")
		s.run(work, "checkout", "-q", "--orphan", "alone")
		if err := os.WriteFile(filepath.Join(work, "NEWS"), []byte("alone\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.commit("alone")
		s.push("alone")
		n := s.open("alone", "ada")
		s.until("it is told", func() bool { return strings.HasPrefix(s.status(s.head(n), "sluice"), "fail") })
		s.looks(1)
		if now := s.mirror(); now != made {
			t.Errorf("the mirror was made again: %s, then %s", made, now)
		}
	})
}

// TestSignedCommits: with a signKey, what the service hydrates and promotes can be verified, its record too.
func TestSignedCommits(t *testing.T) {
	s := newStory(t, "gitlab")
	key := filepath.Join(s.dir, "key")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v %s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	signers := filepath.Join(s.dir, "signers")
	if err := os.WriteFile(signers, append([]byte("* "), public...), 0o600); err != nil {
		t.Fatal(err)
	}
	s.config += "signKey: " + key + "\n"
	s.gates(gated)
	s.start()
	s.branch("cad", "CAD")
	n := s.open("cad", "ada")
	s.says(n, "CAD")
	preview := fmt.Sprintf("sluice/preview/%d", n)
	for _, branch := range []string{"env/dev", "cluster/dev-1", "env/staging", "cluster/staging-1", "sluice/state", preview} {
		s.until(branch+" is there", func() bool { return s.ref(branch) != "" })
		s.run(filepath.Join(s.dir, "git", repo+".git"), "-c", "gpg.ssh.allowedSignersFile="+signers, "verify-commit", "refs/heads/"+branch)
	}
	s.end()
	if err := os.WriteFile(key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := app.NewService(t.Context(), s.options); err == nil || !strings.Contains(err.Error(), "signKey") {
		t.Errorf("a key that is none: %v", err)
	}
}
