package bot

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

// restingSpace is a repository in which nothing is left to do.
type restingSpace struct {
	cutOff
	refs       string
	result     hydrate.Result
	promotions []promote.Status
	failed     error
	output     string
	onForge    bool
	missed     []gitstore.Commit
	looks      int // whole tasks
}

func (s *restingSpace) Refs(context.Context) (string, error) { return s.refs, nil }

func (s *restingSpace) Missed(context.Context, gitstore.Commit, int) ([]gitstore.Commit, error) {
	return s.missed, nil
}

func (s *restingSpace) Hydrate(context.Context, hydrate.Request) (*hydrate.Result, error) {
	s.looks++
	return &s.result, nil
}

func (s *restingSpace) Promotions(context.Context, gitstore.Commit) ([]promote.Status, error) {
	return s.promotions, s.failed
}

func (s *restingSpace) Output(context.Context) (forge.Repository, bool, error) {
	return forge.Repository{Path: s.output}, s.onForge, nil
}

// refusingForge refuses statuses.
type refusingForge struct {
	*sharedHead
	refuses bool
}

func (f *refusingForge) SetStatus(ctx context.Context, repo forge.Repository, commit string, s forge.Status) error {
	if f.refuses {
		return forge.ErrForbidden
	}
	return f.sharedHead.SetStatus(ctx, repo, commit, s)
}

// A check of promotions after one that found nothing to do does nothing unless a branch has moved. It looks again after
// a check that changed something, failed, or found something that can change by itself, and wherever a sweep asks for
// it.
func TestSettledRepositoriesAreNotCheckedAgain(t *testing.T) {
	t.Parallel()
	resting := promote.Status{
		Environment: "prod", Source: rollout.Source{Commit: "0102"},
		Decision: rollout.Decision{Actions: []rollout.Action{{Kind: rollout.Nothing}}},
	}
	for name, c := range map[string]struct {
		before  func(*restingSpace, *refusingForge, *Settings) // the first task
		between func(*restingSpace, *Settings)                 // the two tasks
		force   bool
		again   bool
	}{
		"nothing moved": {},
		"case of the path": {before: func(s *restingSpace, _ *refusingForge, _ *Settings) {
			s.output = "Acme/Fleet"
		}},
		"a branch moved": {between: func(s *restingSpace, _ *Settings) { s.refs = "two" }, again: true},
		"a sweep":        {force: true, again: true},
		"other settings": {between: func(_ *restingSpace, o *Settings) { o.PerPush = 3 }, again: true},
		"output elsewhere": {before: func(s *restingSpace, _ *refusingForge, _ *Settings) {
			s.output = "acme/output"
		}, again: true},
		"output on no forge": {
			before: func(s *restingSpace, _ *refusingForge, _ *Settings) { s.onForge = false },
			again:  true,
		},
		"promotions failed": {before: func(s *restingSpace, _ *refusingForge, _ *Settings) {
			s.failed = errors.New("down")
		}, again: true},
		"a promotion waits": {before: func(s *restingSpace, _ *refusingForge, _ *Settings) {
			s.promotions[0].Decision.WaitsFor = "bake"
		}, again: true},
		"a promotion is done": {before: func(s *restingSpace, _ *refusingForge, _ *Settings) {
			s.promotions[0].Done = []string{"wave"}
		}, again: true},
		"statuses refused": {
			before: func(_ *restingSpace, f *refusingForge, _ *Settings) { f.refuses = true },
			again:  true,
		},
		"commits were missed": {before: func(s *restingSpace, _ *refusingForge, _ *Settings) {
			s.missed = []gitstore.Commit{{}}
		}, again: true},
		"an environment is updated": {before: func(s *restingSpace, _ *refusingForge, _ *Settings) {
			s.result.Environments[0].Status = hydrate.StatusUpdated
		}, again: true},
		"a target fails": {before: func(s *restingSpace, _ *refusingForge, _ *Settings) {
			s.result.Environments[1].Failures = []hydrate.Failure{{}}
		}, again: true},
		"a workspace is held": {before: func(s *restingSpace, _ *refusingForge, _ *Settings) {
			s.result.Environments[0].Held = []hydrate.HeldWorkspace{{}}
		}, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &restingSpace{refs: "one", output: "acme/fleet", onForge: true, promotions: []promote.Status{resting}}
			s.result.Environments = []hydrate.EnvironmentResult{{
				Name: "dev", Status: hydrate.StatusUnchanged,
				Old: "0304",
			}, {Name: "prod", Status: hydrate.StatusChecked}}
			f, settings := &refusingForge{sharedHead: &sharedHead{}}, Settings{Context: "sluice"}
			b := New(Config{
				Clock: time.Now, Log: slog.New(slog.DiscardHandler),
				Enqueue:  func(context.Context, hint.Hint) error { return nil },
				Forges:   func(string) (Forge, bool) { return f, true },
				Settings: func(hint.Place) Settings { return settings },
				Open: func(context.Context, hint.Place) (*Workspace, error) {
					return &Workspace{Commits: s, Fleets: s, Branches: s, Environments: s, Close: func() {}}, nil
				},
			})
			do := func(force bool) {
				t.Helper()
				if err := b.Do(t.Context(), hint.Hint{
					Place: "hub:acme/fleet", Kind: hint.Trunk,
					Force: force,
				}); err != nil {
					t.Fatal(err)
				}
			}
			if c.before != nil {
				c.before(s, f, &settings)
			}
			do(false)
			first := s.looks
			if c.between != nil {
				c.between(s, &settings)
			}
			do(c.force)
			if again := s.looks > first; first == 0 || again != c.again {
				t.Errorf("%d looks, then %d, want another one: %t", first, s.looks-first, c.again)
			}
		})
	}
}
