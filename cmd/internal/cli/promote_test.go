package cli

import (
	"testing"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// promote --wait continues while a gate only waits, and exits with status 5 at a red gate or a halt.
func TestWaitStates(t *testing.T) {
	gate := func(s rollout.State) []rollout.Gate { return []rollout.Gate{{Name: "x", State: s}} }
	next := &rollout.Proposal{}
	for name, test := range map[string]struct {
		decision rollout.Decision
		want     progressState
	}{
		"nothing to do": {rollout.Decision{}, complete},
		"a gate waits": {
			rollout.Decision{Proposal: next, Gates: gate(rollout.Waiting), WaitsFor: "x"},
			waiting,
		},
		"a gate is unknown": {
			rollout.Decision{Proposal: next, Gates: gate(rollout.Unknown), WaitsFor: "x"},
			waiting,
		},
		"a gate is red": {
			rollout.Decision{Proposal: next, Gates: gate(rollout.Red), WaitsFor: "x"},
			blocked,
		},
		"a gate of a wave is red": {rollout.Decision{
			Record:    rollout.Record{Progress: &rollout.Progress{}},
			WaveGates: gate(rollout.Red), WaitsFor: "x",
		}, blocked},
		"a wave bakes": {rollout.Decision{
			Record:    rollout.Record{Progress: &rollout.Progress{}},
			WaveGates: gate(rollout.Waiting), WaitsFor: "x",
		}, waiting},
		"halted":                {rollout.Decision{Record: rollout.Record{Halt: &rollout.Halt{By: "mia"}}}, blocked},
		"a red gate of nothing": {rollout.Decision{Gates: gate(rollout.Red)}, complete},
		"a rollback is to be done": {rollout.Decision{
			Record:   rollout.Record{Rollback: &rollout.Rollback{}},
			WaitsFor: "x",
		}, waiting},
	} {
		list := []promote.Status{
			{Environment: "prod", Decision: test.decision},
			{Environment: "other", Decision: rollout.Decision{Record: rollout.Record{Halt: &rollout.Halt{}}}},
		}
		if got := state(list, "prod"); got != test.want {
			t.Errorf("%s: the result of state is %d, want %d", name, got, test.want)
		}
		if got := state(list, ""); got != blocked {
			t.Errorf("%s, of all environments: %d", name, got)
		}
	}
}
