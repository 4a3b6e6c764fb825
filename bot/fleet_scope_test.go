package bot

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/report"
)

// A commit of a fleet's trunk starts a review in another repository again only if it can change the result.
func TestTrunkCommitsAndCompanions(t *testing.T) {
	t.Parallel()
	target := func(cluster, app string, effect fleet.Effect) fleet.AffectedTarget {
		return fleet.AffectedTarget{Cluster: cluster, App: app, Effect: effect}
	}
	own := []fleet.AffectedTarget{target("c1", "shop", fleet.EffectChanged)}
	whole := report.Review{Changes: &diff.ChangeSet{}, Scope: own}
	for name, c := range map[string]struct {
		trunk    []string
		affected []fleet.AffectedTarget
		review   report.Review
		fails    error // of opening the fleet
		concerns bool
	}{
		"values of another app": {
			[]string{"apps/web/layers/region/eu/values.yaml"},
			[]fleet.AffectedTarget{target("c1", "web", fleet.EffectChanged)},
			whole, nil, false,
		},
		"values on another cluster": {
			[]string{"apps/shop/values-c2.yml"},
			[]fleet.AffectedTarget{target("c2", "shop", fleet.EffectChanged)},
			whole, nil, false,
		},
		"a text":            {[]string{"README.md"}, nil, whole, nil, false},
		"values of the app": {[]string{"apps/shop/values.yaml"}, own, whole, nil, true},
		"an app that may read it now": {
			[]string{"apps/web/app.yaml"},
			[]fleet.AffectedTarget{target("c1", "web", fleet.EffectChanged)},
			whole, nil, true,
		},
		"a new app on another cluster": {
			[]string{"apps/new/app.yaml"},
			[]fleet.AffectedTarget{target("c2", "new", fleet.EffectAdded)},
			whole, nil, true,
		},
		"a kustomization": {
			[]string{"apps/web/base/kustomization.yaml"},
			[]fleet.AffectedTarget{target("c1", "web", fleet.EffectChanged)},
			whole, nil, true,
		},
		"a class":  {[]string{"clusters/classes.yaml"}, nil, whole, nil, true},
		"a policy": {[]string{"policy/values.yaml"}, nil, whole, nil, true},
		"the lock": {[]string{"sluice.lock"}, nil, whole, nil, true},
		"a review with errors": {
			[]string{"README.md"},
			nil,
			report.Review{Changes: &diff.ChangeSet{}, Scope: own, Errors: []string{"broken"}},
			nil, true,
		},
		"a review without a comparison": {[]string{"README.md"}, nil, report.Review{Scope: own}, nil, true},
		"a review that is too large": {
			[]string{"README.md"},
			nil,
			report.Review{Changes: &diff.ChangeSet{}, Scope: make([]fleet.AffectedTarget, maxScopeSize+1)},
			nil, true,
		},
		"a fleet that cannot be opened": {[]string{"README.md"}, nil, whole, errors.New("unreachable"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			space, opened := &movingFleets{trunk: c.trunk, affected: c.affected}, 0
			b := New(Config{
				Clock: func() time.Time { return time.Unix(0, 0) }, Log: slog.New(slog.DiscardHandler),
				Open: func(context.Context, hint.Place) (*Workspace, error) {
					opened++
					return &Workspace{Fleets: space, Commits: space, Close: func() {}}, c.fails
				},
			})
			job := func() *task {
				return &task{Bot: b, place: "f:acme/components", log: slog.New(slog.DiscardHandler)}
			}
			mr, tip := &forge.MergeRequest{Number: 7, Head: "head", TargetBranch: "main"}, gitstore.Hash{9}
			learn := func(tree byte) []companions.Use {
				b.uses.Set("f:acme/fleet", map[hint.Place]companions.Use{"f:acme/components": {
					Fleet: "f:acme/fleet",
					Name:  "components", Trunk: gitstore.Hash{tree},
				}})
				return b.uses.Of("f:acme/components")
			}
			current := func(mr *forge.MergeRequest, tip gitstore.Hash) bool {
				return (&reviewTask{
					task: job(), mr: mr,
					target: gitstore.Commit{Hash: tip},
				}).currentForFleets(t.Context())
			}
			uses := learn(1)
			if current(mr, tip) {
				t.Fatal("a merge request without a review counts as reviewed")
			}
			(&reviewTask{task: job(), mr: mr}).rememberFleetScope(uses[0], &c.review)
			job().update(7, func(s *headState) { s.fleets.input = inputFor(mr, tip, uses, "") })
			if err := job().status(mr, verdictOwn).record(t.Context(), forge.Success, basisOf(mr, "")); err != nil {
				t.Fatal(err)
			}
			if !current(mr, tip) || opened > 0 {
				t.Fatalf("nothing changed, and it is reviewed again; %d fleets were opened", opened)
			}
			scopes := b.fleetScopes.Keys()
			kept, _ := b.fleetScopes.Get(scopes[0])
			b.fleetScopes.Purge()
			if !current(mr, tip) {
				t.Error("nothing changed, and it is reviewed again because its scope was evicted")
			}
			b.fleetScopes.Add(scopes[0], kept)
			learn(2)
			if got := current(mr, tip); got == c.concerns {
				t.Errorf("it is reviewed again: %t", !got)
			}
			if current(mr, gitstore.Hash{8}) {
				t.Error("a new tip of the target branch does not start a review")
			}
			if moved := *mr; !c.concerns {
				moved.Head = "another"
				if current(&moved, tip) {
					t.Error("a new head does not start a review")
				}
			}
		})
	}
}
