package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
)

// labelsOf returns the labels of a merge request, sorted.
func (s *story) labelsOf(number int) string {
	s.t.Helper()
	var labels []string
	if s.hub != nil {
		pr, err := s.hub.PR(repo, number)
		if err != nil {
			s.t.Fatal(err)
		}
		labels = pr.Labels
	} else {
		labels = fakegitlab.Labels(s.lab, repo, number)
	}
	slices.Sort(labels)
	return strings.Join(labels, " ")
}

// reviewersOf returns who is asked for a review of a merge request, sorted.
func (s *story) reviewersOf(number int) string {
	var out []string
	if s.hub != nil {
		out = fakegithub.Reviewers(s.hub, repo, number)
	} else {
		out = fakegitlab.Reviewers(s.lab, repo, number)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// dismissReviewers removes all reviewers, as people do.
func (s *story) dismissReviewers(number int) {
	s.t.Helper()
	if s.hub == nil {
		fakegitlab.DismissReviewers(s.lab, repo, number)
	} else if err := fakegithub.DismissReviewers(s.hub, repo, number); err != nil {
		s.t.Fatal(err)
	}
}

// Merge requests get the labels and the reviewers of the trunk's rules, once, and lose the labels that are no longer
// true. Their own labels stay, and their own rules do not count.
func TestTriage(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		work := filepath.Join(s.dir, "work")
		write := func(name, text string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		rules := "  review:\n    labels: {environments: true, risk: true}\n    codeowners: true\n" +
			"    reviewers: [{environments: [prod], users: [mia, nobody-at-all]}, {environments: [dev], users: [ada]}]\n"
		write("sluice.yaml", gated+rules)
		write("CODEOWNERS", "/layers/environment/prod/ @sue\n/apps/gateway/ @nobody-at-all\n")
		s.commit("rules")
		s.push("main")
		for _, login := range []string{"sue", "eve"} {
			if s.hub != nil {
				s.hub.AddUser(login)
				s.hub.Grant(repo, login, "read")
			} else {
				s.lab.AddUser(login, "", false)
				s.lab.Grant(repo, login, fakegitlab.Reporter)
			}
		}
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })

		s.branch("cad", "CAD")
		write("sluice.yaml", gated+"  review: {reviewers: [{users: [eve]}]}\n")
		s.commit("rules of my own")
		s.push("cad")
		n := s.open("cad", "ada")
		if s.hub != nil {
			if err := s.hub.LabelPR(repo, n, "bug", "sluice/dev"); err != nil {
				t.Fatal(err)
			}
		} else {
			s.lab.Label(repo, n, "bug", "sluice/dev")
		}
		s.until("the labels say what changes", func() bool {
			return s.labelsOf(n) == "bug risk/low sluice/prod" ||
				s.labelsOf(n) == "bug risk/medium sluice/prod"
		})
		s.until("the reviewers of prod are asked", func() bool { return s.reviewersOf(n) == "mia sue" })
		s.says(n, "+  currency: CAD", "nobody-at-all")

		s.dismissReviewers(n)
		s.set("MXN")
		s.commit("pesos")
		s.push("cad")
		s.pushed(n)
		s.says(n, "+  currency: MXN")
		s.end()
		s.start() // what was asked is in the comment
		s.set("EUR")
		s.commit("euros")
		s.push("cad")
		s.pushed(n)
		s.says(n, "+  currency: EUR")
		if got := s.reviewersOf(n); got != "" {
			t.Errorf("reviewers who removed themselves: got %q, want none", got)
		}

		s.run(work, "checkout", "-q", "-B", "cad", "origin/main")
		write("README.md", "nothing that a target reads\n")
		s.commit("only words")
		s.run(work, "push", "-q", "-f", "origin", "HEAD:cad")
		s.pushed(n)
		s.until("a change without effect has no label of Sluice", func() bool { return s.labelsOf(n) == "bug" })
	})
}
