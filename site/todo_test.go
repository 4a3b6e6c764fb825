package site

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// The overview begins with what somebody must do: one command for each environment that waits for a person.
func TestToDo(t *testing.T) {
	t.Parallel()
	dev := func() *Environment {
		return &Environment{Name: "dev", Tip: "1", Clusters: []*Cluster{{Name: "d"}}}
	}
	prod := func(change func(*Environment)) *Environment {
		e := &Environment{
			Name: "prod", Tip: "2", After: []string{"dev"}, Mode: "auto", Clusters: []*Cluster{{Name: "p"}},
			Status: &promote.Status{},
		}
		change(e)
		return e
	}
	waiting := func(e *Environment) {
		e.Status.Decision.Proposal = &rollout.Proposal{}
		e.Status.Decision.Gates = []rollout.Gate{{Name: rollout.GateApprovals, State: rollout.Waiting}}
	}
	for name, c := range map[string]struct {
		dev, prod *Environment
		want      string // "" for nothing to do
	}{
		"all is well":          {dev(), prod(func(*Environment) {}), ""},
		"never hydrated":       {&Environment{Name: "dev", Clusters: dev().Clusters}, prod(func(e *Environment) { e.Tip = "" }), "dev was never hydrated: write its branches: sluice hydrate --push --env dev"},
		"empty":                {dev(), prod(func(e *Environment) { e.Tip = "" }), "prod is empty: bring its first state: sluice promote prod"},
		"an approval":          {dev(), prod(waiting), "prod waits for an approval: sluice approve prod"},
		"a halt":               {dev(), prod(func(e *Environment) { waiting(e); e.Status.Decision.Record.Halt = &rollout.Halt{} }), "prod is halted: go on: sluice resume prod"},
		"a foreign commit":     {dev(), prod(func(e *Environment) { e.Foreign = "x" }), "prod has a commit that is not Sluice's: what each command would do: sluice repair prod"},
		"by hand":              {dev(), prod(func(e *Environment) { e.Mode, e.Upstream = "manual", []Gap{{"dev", 3}} }), "prod is 3 commits behind dev, and moves when somebody asks: sluice promote prod"},
		"behind, by itself":    {dev(), prod(func(e *Environment) { e.Upstream = []Gap{{"dev", 3}} }), ""},
		"by hand, and current": {dev(), prod(func(e *Environment) { e.Mode, e.Upstream = "manual", []Gap{{"dev", 0}} }), ""},
		"no clusters":          {dev(), prod(func(e *Environment) { e.Tip, e.Clusters = "", nil }), ""},
	} {
		var got []string
		for _, a := range toDo(&Fleet{Environments: []*Environment{c.dev, c.prod}}) {
			got = append(got, a.What+": "+a.Terminal)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: got %q, want %q", name, text, c.want)
		}
	}
}

// An environment that was never hydrated offers no rollback, and no command that is refused.
func TestCommandsOfAnEmptyEnvironment(t *testing.T) {
	t.Parallel()
	for _, a := range commands(&Environment{Name: "prod", Status: &promote.Status{}}) {
		if a.Terminal != "sluice promote prod" {
			t.Errorf("an empty environment offers %q", a.Terminal)
		}
	}
	held := &promote.Status{}
	held.Decision.Record.Holds = []rollout.Hold{{Apps: []string{"web"}}}
	for _, a := range commands(&Environment{Name: "prod", Tip: "1", Status: held}) {
		if a.Terminal == "sluice resume prod" {
			t.Error("an environment with holds offers `sluice resume prod`, which is refused: a hold ends by its name")
		}
	}
}
