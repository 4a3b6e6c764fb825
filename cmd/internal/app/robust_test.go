package app_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bed/bedtest"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
)

// Unsigned webhooks cannot create series in the metrics.
func TestUnsignedWebhooksMakeNoSeries(t *testing.T) {
	s := newStory(t, "github")
	s.start()
	for i := range 50 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.hooks.URL+"/hooks/f",
			strings.NewReader("{}"))
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
	if n := s.metric(all, "nobody"); n > 0 {
		t.Errorf("%v webhooks are counted by their own words", n)
	}
	if n := s.metric(all, `event="unverified"`); n != 50 {
		t.Errorf("%v webhooks of nobody", n)
	}
}

// mirror returns an identity of the clone, to detect that the repository was cloned again.
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

// A merge request whose target branch does not exist gets a report, without a new clone. When the branch exists
// again, it is reviewed.
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
	s.until("it is told", func() bool { return s.status(s.head(pr.Number), "sluice into release") == "failure" })
	s.tasks("trunk", 2)
	if n := s.metric("sluice_task_seconds_count", `result="error"`); n > 0 {
		t.Errorf("%v tasks failed", n)
	}
	if now := s.mirror(); now != made {
		t.Errorf("the mirror was made again: %s, then %s", made, now)
	}
	s.run(work, "push", "-q", "origin", "origin/main:refs/heads/release")
	s.until("it is well again", func() bool { return s.status(s.head(pr.Number), "sluice into release") == "success" })
}

// A merge request that has no commit in common with its target gets one report.
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
		s.tasks("trunk", 1)
		if now := s.mirror(); now != made {
			t.Errorf("the mirror was made again: %s, then %s", made, now)
		}
	})
}

// With a signKey, the commits that the service hydrates and promotes are signed, and the record too.
func TestSignedCommits(t *testing.T) {
	s := newStory(t, "gitlab")
	key := filepath.Join(s.dir, "key")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
		key).CombinedOutput(); err != nil {
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
	s.setFleet("main", gated)
	s.start()
	s.branch("cad", "CAD")
	n := s.open("cad", "ada")
	s.says(n, "CAD")
	preview := fmt.Sprintf("sluice/preview/%d", n)
	s.until("the preview is there", func() bool { return s.ref(preview) != "" })
	// A worker creates the preview's commit, so the service must not sign it.
	if out, err := exec.CommandContext(t.Context(), "git", "-C", s.bare(repo), "cat-file",
		"commit", preview).Output(); err != nil || strings.Contains(string(out), "gpgsig") {
		t.Errorf("the preview is signed: %v\n%s", err, out)
	}
	for _, branch := range []string{"env/dev", "cluster/dev-1", "env/staging", "cluster/staging-1", "sluice/state"} {
		s.until(branch+" is there", func() bool { return s.ref(branch) != "" })
		s.run(s.bare(repo), "-c", "gpg.ssh.allowedSignersFile="+signers, "verify-commit",
			"refs/heads/"+branch)
	}
	s.end()
	if err := os.WriteFile(key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := app.NewService(t.Context(), s.options); err == nil || !strings.Contains(err.Error(), "signKey") {
		t.Errorf("a key that is none: %v", err)
	}
}

// other creates another, empty repository on the forge.
func (s *story) other(path string) (bare string) {
	s.t.Helper()
	bare = s.bare(path)
	if s.tea != nil {
		s.tea.repository(path)
		return bare
	}
	s.run("", "init", "-q", "--bare", "-b", "main", bare)
	s.run(bare, "config", "http.receivepack", "true")
	s.run(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
	if s.hub != nil {
		s.hub.AddRepository(path, bare)
		s.hub.Grant(path, "sluice-bot", "maintain")
	} else {
		s.lab.AddProject(path, bare)
		s.lab.Grant(path, "sluice-bot", fakegitlab.Maintainer)
	}
	return bare
}

// heads returns the branches of a repository.
func (s *story) heads(bare string) string {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), "git", "-C", bare, "for-each-ref",
		"--format=%(refname:short)").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

// to returns the fleet with its branches in another repository.
func (s *story) to(path string) string {
	return strings.Replace(gated, "  trunk: main\n", "  trunk: main\n  output: {repository: "+s.git.URL+"/"+path+
		".git}\n", 1)
}

// Branches go to another repository only if the configuration names it, and only the trunk selects the repository.
func TestOutputRepository(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		rendered, victim := s.other("acme/rendered"), s.other("acme/victim")
		s.setFleet("main", s.to("acme/rendered"))
		s.start()
		s.until("the refusal is told", func() bool {
			return strings.HasPrefix(s.status(s.ref("main"), "sluice/hydrate"),
				"fail")
		})
		s.branch("cad", "CAD")
		n := s.open("cad", "ada")
		s.until("it is told on the merge request", func() bool {
			return strings.HasPrefix(s.status(s.head(n), "sluice"),
				"fail")
		})
		if got := s.heads(rendered); got != "" {
			t.Errorf("branches were written to a repository that nobody named: %s", got)
		}
		s.config = strings.Replace(s.config, "repositories: ["+repo+"]", "repositories: ["+repo+
			"], outputs: [acme/rendered, acme/victim]", 1)
		if err := s.service.Reload(); err != nil {
			t.Fatal(err)
		}
		s.until("dev is there", func() bool { return strings.Contains(s.heads(rendered), "env/dev") })
		s.until("the rendered commit has a status where it is", func() bool {
			out, err := exec.CommandContext(t.Context(), "git", "-C", rendered, "rev-parse", "env/dev").Output()
			sha := strings.TrimSpace(string(out))
			if s.tea != nil {
				state := s.tea.state("acme/rendered", sha, "sluice/dev")
				return state == "success"
			}
			if s.hub != nil {
				return err == nil && slices.ContainsFunc(s.hub.Statuses("acme/rendered", sha),
					func(x fakegithub.Status) bool { return x.Context == "sluice/dev" && x.State == "success" })
			}
			return err == nil && s.lab.Statuses("acme/rendered", sha)["sluice/dev"] == "success"
		})
		s.until("what was red is green", func() bool { return s.status(s.ref("main"), "sluice/hydrate") == "success" })
		s.says(n, "CAD")
		s.until("the preview is there too", func() bool {
			return strings.Contains(s.heads(rendered),
				fmt.Sprintf("sluice/preview/%d", n))
		})
		s.linked(n, "acme/rendered", rendered)

		work := filepath.Join(s.dir, "work")
		s.run(work, "checkout", "-q", "-B", "playground", "origin/main")
		s.setFleet("playground", s.to("acme/victim"))
		s.run(work, "checkout", "-q", "-B", "gbp")
		s.set("GBP")
		s.commit("gbp")
		s.push("gbp")
		m := s.onto("gbp", "playground")
		s.says(m, "GBP")
		s.until("that preview is where the trunk says", func() bool {
			return strings.Contains(s.heads(rendered),
				fmt.Sprintf("sluice/preview/%d", m))
		})
		if got := s.heads(victim); got != "" {
			t.Errorf("a branch that anybody may push to chose where a preview goes: %s", got)
		}
		if got := s.heads(s.bare(repo)); strings.Contains(got, "env/") ||
			strings.Contains(got, "preview") {
			t.Errorf("the source has %s", got)
		}
	})
}

// compared matches links that compare two commits, on both forges.
var compared = regexp.MustCompile(`/([\w/]+?)(?:/-)?/compare/([0-9a-f]+)\.\.\.([0-9a-f]+)`)

// linked checks that the comment links to a comparison in a repository, and that the repository has both commits.
func (s *story) linked(number int, path, bare string) {
	s.t.Helper()
	s.says(number, "/compare/")
	link := compared.FindStringSubmatch(s.comments(number)[0])
	if link == nil || !strings.HasSuffix(link[1], path) {
		s.t.Fatalf("the comment links to %q, not to %s", link, path)
	}
	for _, commit := range link[2:] {
		if out, err := exec.CommandContext(s.t.Context(), "git", "-C", bare, "cat-file", "-t",
			commit).CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "commit" {
			s.t.Errorf("%s does not have the linked commit %s: %s, %v", path, commit, out, err)
		}
	}
}

// onto opens a merge request into a branch other than the trunk.
func (s *story) onto(branch, base string) int {
	s.t.Helper()
	if s.hub != nil {
		pr, err := s.hub.OpenPR(repo, fakegithub.PR{Title: "Change " + branch, Author: "ada", Head: branch, Base: base})
		if err != nil {
			s.t.Fatal(err)
		}
		return pr.Number
	}
	if s.tea != nil {
		return s.tea.open(repo, bedtest.GiteaRequest{Author: "ada", Source: branch, Target: base})
	}
	return s.lab.Open(repo, fakegitlab.MergeRequest{
		Title: "Change " + branch, Author: "ada", SourceBranch: branch,
		TargetBranch: base,
	})
}
