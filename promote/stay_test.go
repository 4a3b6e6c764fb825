package promote_test

import (
	"testing"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// Somebody wants prod to stop or to go back and is refused: what was due does not come because they asked. It comes
// with the next call.
func TestRefusedStopMovesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]promote.Command{
		"rollback": ordered(rollout.EventRollback, "r",
			func(c *promote.Command) { c.Revision = "0123456789012345678901234567890123456789" }),
		"freeze": ordered(rollout.EventFreeze, "f", func(c *promote.Command) { c.CLI = false }),
		"halt":   ordered(rollout.EventHalt, "h", func(c *promote.Command) { c.CLI = false }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "mode: auto")
			s.release("new")
			before := s.Git("rev-parse", "env/prod")
			run := func(commands ...promote.Command) promote.Status {
				t.Helper()
				list, err := promote.Run(t.Context(), s.Hydrator(2),
					promote.Request{Trunk: s.tip(), Commands: commands, Now: s.now, Adapters: s.adapters()})
				if err != nil {
					t.Fatal(err)
				}
				return list[len(list)-1]
			}
			got := run(c)
			if len(got.Refused) != 1 || len(got.Done) != 0 || got.Decision.Proposal == nil {
				t.Errorf("refused %q, done %q, proposal %v", got.Refused, got.Done, got.Decision.Proposal)
			}
			if s.Git("rev-parse", "env/prod") != before {
				t.Error("prod moved")
			}
			run()
			if s.Git("rev-parse", "env/prod") == before {
				t.Error("prod does not move afterwards")
			}
		})
	}
}

// A rollback that was interrupted goes on in the call in which another one is refused, and nothing is promoted
// afterwards.
func TestRefusedRollbackContinuesTheOneBefore(t *testing.T) {
	t.Parallel()
	s := newStage(t, "mode: auto")
	old := s.Git("rev-parse", "cluster/prod-eu-1:shop")
	s.release("new")
	s.look(nil)
	if s.Git("rev-parse", "cluster/prod-eu-1:shop") == old {
		t.Fatal("prod did not get the release")
	}
	// stored, and then interrupted
	s.look(func(r *promote.Request) { r.OnlyStop = true }, ordered(rollout.EventRollback, "r", nil))
	part := ordered(rollout.EventRollback, "p", func(c *promote.Command) { c.Apps = []string{"shop"} })
	list, err := promote.Run(t.Context(), s.Hydrator(2), promote.Request{
		Trunk:    s.tip(),
		Commands: []promote.Command{part}, Now: s.now, Adapters: s.adapters(),
	})
	if err != nil {
		t.Fatal(err)
	}
	got := list[len(list)-1]
	wants(t, "the second rollback", got.Refused, "it continues by itself")
	if s.Git("rev-parse", "cluster/prod-eu-1:shop") != old || got.Decision.Record.Rollback != nil {
		t.Errorf("the first rollback did not go on: %q", got.Done)
	}
}
