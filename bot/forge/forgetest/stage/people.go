package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
)

// Open opens a merge request of a branch that was pushed, and gives its number.
func (s *Stage) Open(branch, author string) (int, error) {
	if s.hub != nil {
		pr, err := s.hub.OpenPR(Repository, fakegithub.PR{Title: "Change " + branch, Author: author, Head: branch})
		return pr.Number, err
	}
	return s.lab.Open(Repository, fakegitlab.MergeRequest{
		Title: "Change " + branch, Author: author,
		SourceBranch: branch,
	}), nil
}

// OpenFork opens a merge request of a branch of the working copy from a fork of its author, and gives its number. It
// pushes the branch to the fork.
func (s *Stage) OpenFork(branch, author string) (int, error) {
	fork := author + "/fleet"
	dir := filepath.Join(s.o.Dir, "git", fork+".git")
	if _, err := os.Stat(dir); err != nil {
		if err := s.Git("", "clone", "-q", "--bare", s.Bare(), dir); err != nil {
			return 0, err
		}
		if s.hub != nil {
			s.hub.AddFork(fork, dir)
		} else {
			s.lab.AddProject(fork, dir)
			s.lab.Grant(fork, author, fakegitlab.Maintainer)
		}
	}
	if err := s.Git(s.Work(), "push", "-q", "-f", dir, branch); err != nil {
		return 0, err
	}
	if s.hub != nil {
		pr, err := s.hub.OpenPR(Repository, fakegithub.PR{
			Title: "Change " + branch, Author: author, Head: branch,
			HeadRepo: fork,
		})
		return pr.Number, err
	}
	return s.lab.Open(Repository, fakegitlab.MergeRequest{
		Title: "Change " + branch, Author: author,
		SourceBranch: branch, SourceProject: fork,
	}), nil
}

// OpenInto opens a merge request into another branch than the trunk, and gives its number.
func (s *Stage) OpenInto(branch, target, author string) (int, error) {
	if s.hub != nil {
		pr, err := s.hub.OpenPR(Repository, fakegithub.PR{
			Title: "Change " + branch, Author: author, Head: branch,
			Base: target,
		})
		return pr.Number, err
	}
	return s.lab.Open(Repository, fakegitlab.MergeRequest{
		Title: "Change " + branch, Author: author,
		SourceBranch: branch, TargetBranch: target,
	}), nil
}

// Requests returns the numbers of all merge requests.
func (s *Stage) Requests() []int {
	if s.hub == nil {
		return s.lab.Numbers(Repository)
	}
	var out []int
	for _, pr := range s.hub.PRs(Repository) {
		out = append(out, pr.Number)
	}
	return out
}

// Grant gives a person the right maintain, write or read, or with none takes every right away.
func (s *Stage) Grant(login, right string) error {
	levels := map[string]int{
		"maintain": fakegitlab.Maintainer, "write": fakegitlab.Developer,
		"read": fakegitlab.Reporter, "none": 0,
	}
	level, ok := levels[right]
	if !ok {
		return fmt.Errorf("no right %q", right)
	}
	if s.hub == nil {
		s.lab.Grant(Repository, login, level)
		return nil
	}
	s.hub.Grant(Repository, login, strings.TrimSuffix(right, "none"))
	return nil
}

// Pushed has the forge notice a push to the branch of a merge request.
func (s *Stage) Pushed(number int) error {
	if s.hub != nil {
		_, err := s.hub.PushPR(Repository, number)
		return err
	}
	s.lab.Push(Repository, number)
	return nil
}

// Merge merges as mia, and gives the trunk's new commit.
func (s *Stage) Merge(number int) (string, error) {
	if s.hub != nil {
		return s.hub.MergePR(Repository, number, "mia")
	}
	return s.lab.Merge(Repository, number, "mia")
}

// CloseRequest closes a merge request without merging it.
func (s *Stage) CloseRequest(number int) error {
	if s.hub != nil {
		return s.hub.ClosePR(Repository, number)
	}
	s.lab.Close(Repository, number)
	return nil
}

// Comment comments, and gives the comment's id.
func (s *Stage) Comment(number int, login, text string) (int64, error) {
	if s.hub != nil {
		c, err := s.hub.CommentPR(Repository, number, login, text)
		return c.ID, err
	}
	return int64(s.lab.Comment(Repository, number, login, text)), nil
}
