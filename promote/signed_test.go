package promote_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// sign lists a new key in spec.signers, and signs the branches with it.
func (s *stage) sign() gitstore.Signer {
	s.T.Helper()
	signer, line := hydratetest.NewKey(s.T)
	text := s.Git("show", "HEAD:sluice.yaml")
	s.Write("sluice.yaml", strings.Replace(text, "\nspec:\n", "\nspec:\n  signers: ["+`"`+line+`"`+"]\n", 1)+"\n")
	s.Commit("signers")
	s.Signer = signer
	s.hydrate(func(q *hydrate.Request) { q.Environments, q.Overwrite = []string{"dev", "prod"}, true })
	return signer
}

// forge replaces the tip of a branch with an unsigned copy of it.
func (s *stage) forge(name string) string {
	s.T.Helper()
	args := []string{"commit-tree", "-m", s.Git("log", "-1", "--format=%B", name), name + "^{tree}"}
	if s.Git("rev-list", "--count", name) != "1" {
		args = append(args, "-p", s.Git("rev-parse", name+"^"))
	}
	forged := s.Git(args...)
	s.Git("update-ref", "refs/heads/"+name, forged)
	return forged
}

// TestForgedBranchesPromoteNothing: a commit with Sluice's trailers that no listed signer made counts neither for the
// environment that it is on nor for those that follow it.
func TestForgedBranchesPromoteNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	for _, name := range []string{"env/dev", "env/prod", "cluster/prod-eu-1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "mode: auto")
			s.sign()
			first := s.release("one")
			s.look(nil)
			wants(t, "prod", []string{s.runs()}, first)
			second := s.release("two")
			forged := s.forge(name)
			if name == "env/prod" { // the tree that the record knows is Sluice's own, whoever committed it
				s.Git("update-ref", "refs/heads/env/prod", s.Git("commit-tree", "-p", "env/prod~1", "-m",
					s.Git("log", "-1", "--format=%B", "env/dev"), "env/dev^{tree}"))
				forged = s.Git("rev-parse", "env/prod")
			}
			last, _ := s.look(nil)
			wants(t, "told", []string{last.Decision.WaitsFor}, forged)
			if name != "env/prod" && strings.Contains(s.runs(), second) &&
				s.Git("rev-parse", "cluster/prod-eu-1^{tree}") == s.Git("rev-parse", "env/prod:prod-eu-1") {
				t.Error("the forged commit promoted")
			}
			if tip := s.Git("rev-parse", name); tip != forged {
				t.Errorf("%s moved to %s", name, tip)
			}
		})
	}
}

// TestRecordsMustBeSigned: where the fleet names signers, nothing is promoted by a record that none of them signed, and
// none is written that the next pass would refuse.
func TestRecordsMustBeSigned(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	signer := s.sign()
	other, _ := hydratetest.NewKey(t)
	commit := s.release("one")
	look := func(with gitstore.Signer) error {
		config := s.Hydrator(2).Config
		config.Signer = with
		h := hydrate.New(config)
		for range 4 {
			if _, err := promote.Look(t.Context(), h, promote.Request{
				Trunk: s.tip(), Now: s.now,
				Adapters: s.adapters(),
			}); err != nil {
				return err
			}
		}
		return nil
	}
	for name, with := range map[string]gitstore.Signer{"no key": nil, "another key": other} {
		if err := look(with); err == nil || !strings.Contains(err.Error(), "spec.signers") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if s.Git("for-each-ref", "refs/heads/"+rollout.StateBranch) != "" || strings.Contains(s.runs(), commit) {
		t.Fatal("something was written with a key that is not allowed")
	}
	if err := look(signer); err != nil {
		t.Fatal(err)
	}
	wants(t, "prod", []string{s.runs()}, commit)
	// Somebody else writes the record.
	forged := s.Git("commit-tree", "-p", rollout.StateBranch, "-m", "forged", rollout.StateBranch+"^{tree}")
	s.Git("update-ref", "refs/heads/"+rollout.StateBranch, forged)
	second := s.release("two")
	if err := look(signer); err == nil || !strings.Contains(err.Error(), "not signed as spec.signers demands") {
		t.Errorf("a forged record: %v", err)
	}
	if strings.Contains(s.runs(), second) {
		t.Error("a forged record promoted")
	}
}

// branches lists branches and their tips, in the order of the arguments of `git update-ref`.
func (s *stage) branches(pattern string) string {
	s.T.Helper()
	return s.Git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/"+pattern)
}

// TestUnsignedCommitOfTheOfferedTree: the tree that waits for approvals is in the record before anybody agrees to it.
// An unsigned commit of it moves no cluster. In mode request, it does once the forge has merged the request.
func TestUnsignedCommitOfTheOfferedTree(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	for _, mode := range []string{"auto", "request"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "mode: "+mode+
				", approvers: {users: [mia], count: 1}, waves: [{name: canary, clusters: {matchLabels: {cluster: prod-eu-1}}, bake: 10h}, {name: rest}]")
			s.sign()
			forge := &requests{}
			change := func(q *promote.Request) { q.Adapters.MergeRequests = forge }
			s.release("one")
			if last, _ := s.look(change); last.Candidate == "" {
				t.Fatalf("nothing is offered: %+v", last.Decision)
			}
			clusters, before := s.branches("cluster/prod*"), s.branches("*")+"\n"+s.branches("**/*")
			tree := "sluice/promote/prod^{tree}"
			if mode == "auto" { // an approval makes the tree, and is undone
				s.look(change, ordered(rollout.EventApprove, "a", nil))
				tree = s.Git("rev-parse", "env/prod^{tree}")
				for line := range strings.SplitSeq(before, "\n") {
					s.Git(append([]string{"update-ref"}, strings.Fields(line)...)...)
				}
			}
			message := strings.ReplaceAll(s.Git("log", "-1", "--format=%B", "env/dev"), "Sluice-Environment: dev",
				"Sluice-Environment: prod") + "\nSluice-Now: yes"
			forged := s.Git("commit-tree", "-p", "env/prod", "-m", message, tree)
			s.Git("update-ref", "refs/heads/env/prod", forged)
			last, _ := s.look(change)
			wants(t, "told", []string{last.Decision.WaitsFor}, forged)
			if after := s.branches("cluster/prod*"); after != clusters {
				t.Errorf("clusters moved to a tree that nobody approved:\n%s\n%s", clusters, after)
			}
			if mode == "auto" {
				return
			}
			forge.open = nil // the forge squashed the request
			s.look(change)
			if after := s.branches("cluster/prod*"); after == clusters {
				t.Error("the squash of the forge moves no cluster")
			}
			if canary := s.Git("rev-parse", "cluster/prod-eu-1^{tree}"); canary != s.Git("rev-parse",
				"env/prod:prod-eu-1") {
				t.Error("the canary does not have the squash")
			}
			if rest := s.branches("cluster/prod-us-1"); rest != "" && !strings.Contains(clusters, rest) {
				t.Error("a trailer of the squash skipped the bake")
			}
		})
	}
}

// TestSignedCommitsOfAnotherBranch: nothing moves by a signed commit that Sluice made for another environment or
// cluster.
func TestSignedCommitsOfAnotherBranch(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	for name, from := range map[string]string{"env/prod": "env/dev", "cluster/prod-eu-1": "cluster/prod-us-1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "mode: auto")
			s.sign()
			s.release("one")
			s.look(nil)
			s.Git("update-ref", "refs/heads/"+name, from)
			moved := s.Git("rev-parse", name)
			s.release("two")
			last, _ := s.look(nil)
			wants(t, "told", []string{last.Decision.WaitsFor}, "not for this branch")
			if tip := s.Git("rev-parse", name); tip != moved {
				t.Errorf("%s moved to %s", name, tip)
			}
		})
	}
}

// TestClustersMoveOnlyWithAnAllowedKey: a wave that changes no record is not pushed without a signature.
func TestClustersMoveOnlyWithAnAllowedKey(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	signer := s.sign()
	s.look(nil)
	s.release("one")
	look := func() error {
		_, err := promote.Look(t.Context(), s.Hydrator(2), promote.Request{
			Trunk: s.tip(), Now: s.now,
			Adapters: s.adapters(),
		})
		return err
	}
	before := s.branches("cluster/prod*")
	for range 8 { // until the pass that moves clusters
		if err := look(); err != nil {
			t.Fatal(err)
		}
		if s.branches("cluster/prod*") != before {
			break
		}
	}
	moved := s.Git("rev-parse", "cluster/prod-us-1^{tree}")
	// as if its push of clusters had failed, after that of the record
	for line := range strings.SplitSeq(before, "\n") {
		s.Git(append([]string{"update-ref"}, strings.Fields(line)...)...)
	}
	other, _ := hydratetest.NewKey(t)
	for name, with := range map[string]gitstore.Signer{"no key": nil, "another key": other} {
		s.Signer = with
		if err := look(); err == nil || !strings.Contains(err.Error(), "spec.signers") {
			t.Errorf("%s: the error is %v", name, err)
		}
		if after := s.branches("cluster/prod*"); after != before {
			t.Fatalf("%s: pushed\n%s", name, after)
		}
	}
	s.Signer = signer
	if s.look(nil); s.Git("rev-parse", "cluster/prod-us-1^{tree}") != moved {
		t.Error("an allowed key does not move it")
	}
}

// TestDeletedBranchOfUnknownHistory: without a record, or with one that was rebuilt, only a cluster branch shows that an
// environment branch existed.
// If no listed signer made its tip, the message names that commit, and nothing is created until --recreate. A signed
// tip shows the deletion, and without any branch of a cluster the environment begins anew.
func TestDeletedBranchOfUnknownHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(s *stage) (commit string)
		message string // "": the environment begins anew
	}{
		"signed clusters": {func(s *stage) string {
			s.rebuild()
			s.look(nil, ordered(rollout.EventResume, "r", nil))
			return ""
		}, "somebody deleted env/prod (cluster/"},
		"unsigned cluster": {func(s *stage) (commit string) {
			for line := range strings.SplitSeq(s.branches("cluster/prod*"), "\n") {
				forged := s.forge(strings.TrimPrefix(strings.Fields(line)[0], "refs/heads/"))
				if commit == "" {
					commit = forged
				}
			}
			return commit
		}, "does not tell whether somebody deleted it"},
		"no clusters": {func(s *stage) string {
			for line := range strings.SplitSeq(s.branches("cluster/prod*"), "\n") {
				s.Git("update-ref", "-d", strings.Fields(line)[0])
			}
			return ""
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "mode: auto")
			s.sign()
			s.release("one")
			s.look(nil)
			s.Git("branch", "-D", "env/prod")
			s.Git("branch", "-D", rollout.StateBranch)
			commit := c.change(s)
			last, _ := s.look(nil)
			if exists := s.branches("env/prod") != ""; exists != (c.message == "") {
				t.Fatalf("env/prod exists: %t; %s", exists, last.Decision.WaitsFor)
			}
			wants(t, "told", []string{last.Decision.WaitsFor}, c.message)
			wants(t, "told", []string{last.Decision.WaitsFor}, commit)
			s.look(func(r *promote.Request) { r.Recreate, r.Overwrite = true, true })
			if s.branches("env/prod") == "" {
				t.Error("--recreate does not create it")
			}
		})
	}
}
