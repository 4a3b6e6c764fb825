package promote_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// An expression can ask for approvals although sluice.yaml names no approvers. Somebody who did not write the change can
// give one as soon as it is offered, and its author cannot.
func TestApprovalsOfAnExpression(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto, gates: [{name: two, expr: 'approvals.count >= 1'}]")
	commit := s.release("one")
	s.look(nil)
	approve := func(by string) []string {
		s.now = s.now.Add(time.Minute)
		_, refused := s.look(nil, ordered(rollout.EventApprove, by, func(c *promote.Command) { c.By, c.Said = by, s.now }))
		return refused
	}
	if refused := strings.Join(approve("a@example.com"), "\n"); !strings.Contains(refused, "is an author") || strings.Contains(s.runs(), commit) {
		t.Errorf("the author's approval: %q, prod runs %s", refused, s.runs())
	}
	if refused := approve("noor"); len(refused) > 0 || !strings.Contains(s.runs(), commit) {
		t.Errorf("an approval: %q, prod runs %s, want %s", refused, s.runs(), commit)
	}
}
