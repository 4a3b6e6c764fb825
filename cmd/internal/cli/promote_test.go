package cli

import (
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// promote --wait continues while a gate only waits, and exits with status 5 at a red gate or a halt.
func TestWaitStates(t *testing.T) {
	gate := func(s promote.State) []promote.Gate { return []promote.Gate{{Name: "x", State: s}} }
	next := &promote.Proposal{}
	for name, test := range map[string]struct {
		decision promote.Decision
		want     progressState
	}{
		"nothing to do":            {promote.Decision{}, complete},
		"a gate waits":             {promote.Decision{Proposal: next, Gates: gate(promote.Waiting), WaitsFor: "x"}, waiting},
		"a gate is unknown":        {promote.Decision{Proposal: next, Gates: gate(promote.Unknown), WaitsFor: "x"}, waiting},
		"a gate is red":            {promote.Decision{Proposal: next, Gates: gate(promote.Red), WaitsFor: "x"}, blocked},
		"a gate of a wave is red":  {promote.Decision{Record: promote.Record{Progress: &promote.Progress{}}, WaveGates: gate(promote.Red), WaitsFor: "x"}, blocked},
		"a wave bakes":             {promote.Decision{Record: promote.Record{Progress: &promote.Progress{}}, WaveGates: gate(promote.Waiting), WaitsFor: "x"}, waiting},
		"halted":                   {promote.Decision{Record: promote.Record{Halt: &promote.Halt{By: "mia"}}}, blocked},
		"a red gate of nothing":    {promote.Decision{Gates: gate(promote.Red)}, complete},
		"a rollback is to be done": {promote.Decision{Record: promote.Record{Rollback: &promote.Rollback{}}, WaitsFor: "x"}, waiting},
	} {
		list := []promotion.Status{{Environment: "prod", Decision: test.decision}, {Environment: "other", Decision: promote.Decision{Record: promote.Record{Halt: &promote.Halt{}}}}}
		if got := state(list, "prod"); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
		if got := state(list, ""); got != blocked {
			t.Errorf("%s, of all environments: %d", name, got)
		}
	}
}
