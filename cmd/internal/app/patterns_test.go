package app_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
)

// bystander is a repository without a fleet that matches the pattern, with an open merge request.
func (s *story) bystander(path string) (head string) {
	s.t.Helper()
	bare, work := filepath.Join(s.dir, "git", path+".git"), filepath.Join(s.dir, "bystander")
	s.run("", "init", "-q", "--bare", "-b", "main", bare)
	s.run(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
	s.run("", "init", "-q", "-b", "main", work)
	s.run(work, "commit", "-q", "--allow-empty", "-m", "nothing of ours")
	s.run(work, "push", "-q", bare, "HEAD:main")
	s.run(work, "commit", "-q", "--allow-empty", "-m", "nor this")
	s.run(work, "push", "-q", bare, "HEAD:topic")
	if s.hub != nil {
		s.hub.AddRepository(path, bare)
		s.hub.Grant(path, "sluice-bot", "maintain")
		s.hub.Grant(path, "ada", "write")
		if _, err := s.hub.OpenPR(path, fakegithub.PR{Title: "Topic", Author: "ada", Head: "topic"}); err != nil {
			s.t.Fatal(err)
		}
	} else {
		s.lab.AddProject(path, bare)
		s.lab.Grant(path, "sluice-bot", fakegitlab.Maintainer)
		s.lab.Grant(path, "ada", fakegitlab.Developer)
		s.lab.Open(path, fakegitlab.MergeRequest{Title: "Topic", Author: "ada", SourceBranch: "topic"})
	}
	out, err := exec.CommandContext(s.t.Context(), "git", "-C", bare, "rev-parse", "topic", "main").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// The service finds the repositories that match a pattern without a webhook, and posts nothing in those without a
// fleet.
func TestPatterns(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.config = strings.ReplaceAll(s.config, "repositories: ["+repo+"]", `repositories: ["acme/*"]`)
		s.drop = func(string) bool { return true }
		heads := s.bystander("acme/app")
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		s.until("the other one was looked at", func() bool {
			return s.metric("sluice_task_seconds_count", `result="none"`) == 1 &&
				s.metric("sluice_task_seconds_count", `kind="review"`) >= 1
		})
		s.until("there was another sweep", func() bool {
			return s.metric("sluice_task_seconds_count",
				`kind="sweep"`) >= 3
		})
		if n := s.metric("sluice_task_seconds_count", `result="none"`); n != 1 {
			t.Errorf("what is no fleet was looked at %v times", n)
		}
		for head := range strings.Lines(heads) {
			head = strings.TrimSpace(head)
			if s.hub != nil && len(s.hub.Statuses("acme/app", head)) > 0 ||
				s.lab != nil && len(s.lab.Statuses("acme/app", head)) > 0 {
				t.Errorf("something was said of %s", head)
			}
		}
		if s.hub != nil && len(s.hub.Comments("acme/app", 1)) > 0 ||
			s.lab != nil && len(s.lab.Notes("acme/app", 1)) > 0 {
			t.Error("somebody who has no fleet got a comment")
		}
	})
}
