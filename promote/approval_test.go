package promote_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// expedited is a stage with a rollout whose canary bakes, and a request of mia to expedite it that needs a second
// person.
func expedited(t *testing.T) (*stage, time.Time) {
	t.Helper()
	s := newStage(t, "mode: manual, rights: [{verbs: [promote, approve, rollback], users: [mia, noor]}, {verbs: [now], users: [mia], secondPerson: true}], "+
		"waves: [{name: canary, clusters: {matchLabels: {cluster: prod-eu-1}}, bake: 10h}, {name: rest}]")
	commit := s.release("one")
	s.look(nil, ordered(rollout.EventPromote, "p", nil))
	if rest := s.Git("log", "-1", "--format=%B", "cluster/prod-us-1"); strings.Contains(rest, commit) {
		t.Fatalf("the second wave has moved: %s", rest)
	}
	before := s.now
	s.now = s.now.Add(time.Minute)
	s.look(nil, ordered(rollout.EventPromote, "now", func(c *promote.Command) { c.Now, c.Said = true, s.now }))
	return s, before
}

// complete reports whether a cluster of the last wave runs what prod's branch has.
func (s *stage) complete() bool {
	s.T.Helper()
	s.look(nil)
	return s.Git("for-each-ref", "refs/heads/cluster/prod-us-1") != "" &&
		s.Git("rev-parse", "cluster/prod-us-1^{tree}") == s.Git("rev-parse", "env/prod:prod-us-1")
}

// An approval of a request to expedite the rollout under way is checked like that of a promotion: it counts only for
// what its author could see, and not if they asked for it or wrote the change.
func TestApprovalOfAnExpeditedRollout(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	for name, test := range map[string]struct {
		by   string
		said func(before time.Time) time.Time
		want string // part of the refusal; none: it counts
	}{
		"of the requester": {"mia", nil, "mia asked for it"},
		"of an author":     {"a@example.com", nil, "is an author"},
		"written before the request": {
			"noor", func(before time.Time) time.Time { return before },
			"after this was said",
		},
		"of a second person": {"noor", nil, ""},
		"written by them in time": {
			"noor",
			func(before time.Time) time.Time { return before.Add(2 * time.Minute) }, "",
		},
		"written by them a day before": {
			"noor",
			func(before time.Time) time.Time { return before.Add(-24 * time.Hour) }, "after this was said",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, before := expedited(t)
			_, refused := s.look(nil, ordered(rollout.EventApprove, "a", func(c *promote.Command) {
				c.By = test.by
				if test.said != nil {
					c.Said = test.said(before)
				}
			}))
			moved := s.complete()
			switch {
			case test.want == "" && (len(refused) > 0 || !moved):
				t.Errorf("it does not count: %q, moved %t", refused, moved)
			case test.want != "" && (!strings.Contains(strings.Join(refused, "\n"), test.want) || moved):
				t.Errorf("refused %q, want %q; moved %t", refused, test.want, moved)
			}
		})
	}
}

// An approval is for the commit that the gate offers, also where the health of the environment before decides which
// that is.
func TestApprovalOfTheCommitThatIsReady(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto, health: {commitStatuses: [sync]}, approvers: {users: [mia], count: 1}")
	s.out.statuses = "success"
	s.look(nil)
	s.release("one")
	s.look(nil)
	commit := s.release("two")
	s.look(nil)
	s.look(nil, ordered(rollout.EventApprove, "a", nil))
	wants(t, "prod", []string{s.runs()}, commit)
}

// An approval of a promotion is not an agreement to overtake the gates of its waves, also where it brought the
// environment's first state.
func TestApprovalsEndWithTheMove(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, rights: [{verbs: [promote, approve], users: [mia, noor], secondPerson: true}, {verbs: [now], users: [mia], secondPerson: true}], "+
		"settle: 10h, waves: [{name: all, maxParallel: 1}]") // a first fill waits for no bake
	for _, name := range []string{"env/prod", "cluster/prod-eu-1", "cluster/prod-us-1", "cluster/prod-edge-1"} {
		s.Git("branch", "-D", name)
	}
	s.release("one")
	approve := ordered(rollout.EventApprove, "a", func(c *promote.Command) { c.By = "noor" })
	s.look(nil, ordered(rollout.EventPromote, "p", nil), approve)
	if s.Git("for-each-ref", "refs/heads/env/prod") == "" {
		t.Fatal("prod has no first state")
	}
	s.look(nil, ordered(rollout.EventPromote, "now", func(c *promote.Command) { c.Now = true }))
	if s.complete() {
		t.Error("an approval of the promotion expedites its waves")
	}
}

// An approval of a promotion that waits does not agree to a later request that overtakes its gates.
func TestApprovalIsNotOfALaterRequest(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: manual, bake: 10h, rights: [{verbs: [promote, approve], users: [mia, noor], secondPerson: true}, {verbs: [now], users: [mia], secondPerson: true}]")
	commit := s.release("one")
	s.look(nil, ordered(rollout.EventPromote, "p", nil), ordered(rollout.EventApprove, "a",
		func(c *promote.Command) { c.By = "noor" }))
	last, _ := s.look(nil, ordered(rollout.EventPromote, "now", func(c *promote.Command) { c.Now = true }))
	if strings.Contains(s.runs(), commit) {
		t.Fatal("an approval of a promotion that bakes lets it overtake the bake")
	}
	wants(t, "gate", []string{last.Decision.WaitsFor}, "approvals")
	s.look(nil, ordered(rollout.EventApprove, "a2", func(c *promote.Command) { c.By = "noor" }))
	wants(t, "prod", []string{s.runs()}, commit)
}
