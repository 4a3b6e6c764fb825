package bot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// deploying is a forge that records deployments.
type deploying struct {
	Forge
	set []string
	err error
}

func (f *deploying) SetDeployment(_ context.Context, _ forge.Repository, d forge.Deployment) error {
	f.set = append(f.set, fmt.Sprintf("%s %.4s %s %q %q %t", d.Environment, d.Commit, d.State, d.Description, d.URL,
		d.Production))
	return f.err
}

// Deployments follow the states of environments, each once, and again after an outage, but not where the forge refuses.
func TestDeployed(t *testing.T) {
	t.Parallel()
	f := &deploying{}
	b := New(Config{
		Clock: time.Now, Log: slog.New(slog.DiscardHandler),
		EnvironmentPage: func(_ hint.Place, environment string) string { return "https://pages/" + environment },
	})
	j := &task{
		Bot: b, forge: statusForge{f, "hub:acme/fleet", b.statuses}, place: "hub:acme/fleet", log: b.Log,
		space: &Workspace{Branches: sameRepository{}},
	}
	spec := &fleet.Fleet{Spec: fleet.FleetSpec{Environments: []fleet.Environment{{Name: "dev"}, {Name: "prod", After: []string{"dev"}}}}}
	hydrated := &hydrate.Result{Environments: []hydrate.EnvironmentResult{{Name: "dev", Status: hydrate.StatusUpdated}}}
	deployed := func(result *hydrate.Result, promotions []promote.Status, want ...string) {
		t.Helper()
		f.set = nil
		err := (reporter{task: j, tip: gitstore.Commit{Hash: gitstore.Hash{0xaa, 0xaa}}}).deployed(t.Context(), spec, result, promotions)
		if !slices.Equal(f.set, want) || (err != nil) != errors.Is(f.err, forge.ErrUnavailable) {
			t.Errorf("deployments: got %q, %v, want %q", f.set, err, want)
		}
	}
	deployed(hydrated, nil) // off by default
	j.settings.Deployments = true
	f.err = forge.ErrUnavailable
	dev := `dev aaaa success "runs it" "https://pages/dev" false`
	deployed(hydrated, nil, dev)
	f.err = nil
	deployed(hydrated, nil, dev)
	hydrated.Environments[0].Status = hydrate.StatusUnchanged
	deployed(hydrated, nil)

	prod := promote.Status{Environment: "prod", Source: rollout.Source{Commit: "bbbb1"}}
	prod.Decision.Waves = []rollout.WaveProgress{{Name: "canary", State: rollout.WaveBaking, Reason: "baking"}}
	f.err = forge.ErrForbidden
	deployed(hydrated, []promote.Status{prod}, `prod bbbb running "wave canary, 1 of 1" "https://pages/prod" true`)
	deployed(hydrated, []promote.Status{prod}) // another attempt would have the same result
	f.err = nil
	prod.Decision.Waves[0].Reason = "still baking"
	deployed(hydrated, []promote.Status{prod})
	prod.Decision.Record.Halt = &rollout.Halt{By: "mia", Reason: "an incident"}
	deployed(hydrated, []promote.Status{prod}, `prod bbbb failure "prod: halted by mia: an incident" "https://pages/prod" true`)
	prod.Decision.Record.Halt, prod.Decision.Waves = nil, nil
	deployed(hydrated, []promote.Status{prod}, `prod bbbb success "runs it" "https://pages/prod" true`)
	prod.Source.Commit = "cccc1"
	deployed(hydrated, []promote.Status{prod}, `prod cccc success "runs it" "https://pages/prod" true`)
	deployed(hydrated, []promote.Status{prod})
	prod.Source.Commit = "bbbb1" // a rollback
	deployed(hydrated, []promote.Status{prod}, `prod bbbb success "runs it" "https://pages/prod" true`)
	deployed(hydrated, []promote.Status{prod})
}
