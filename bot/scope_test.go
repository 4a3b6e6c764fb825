package bot

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/report"
)

// movingFleets is a repository whose trees 1 and 2 are the trunk before and after a commit, and 3 and 4 the base and
// the head of a merge request.
type movingFleets struct {
	Fleets
	Commits
	trunk, change []string // files
	affected      []fleet.AffectedTarget
	broken        error // of reading what the trunk affects
}

func (m *movingFleets) Changed(_ context.Context, from, _ gitstore.Hash) ([]string, error) {
	if from == (gitstore.Hash{3}) {
		return m.change, nil
	}
	return m.trunk, nil
}

func (m *movingFleets) Affected(context.Context, gitstore.Hash, gitstore.Hash) ([]fleet.AffectedTarget, error) {
	return m.affected, m.broken
}

func (m *movingFleets) Fleet(context.Context, gitstore.Hash) (*fleet.Fleet, fleet.Problems, error) {
	f := &fleet.Fleet{
		Clusters:   []*fleet.Cluster{{Name: "c1", File: "clusters/c1.yaml"}},
		Workspaces: []*fleet.Workspace{{Name: "team", File: "workspaces/team.yaml"}},
	}
	f.Spec.Trunk = "main"
	return f, nil, nil
}

func (m *movingFleets) Revision(context.Context, string, ...string) (gitstore.Commit, error) {
	return gitstore.Commit{}, nil
}

func (m *movingFleets) Trunk(ctx context.Context, named func(context.Context, gitstore.Commit) string) (gitstore.Commit,
	error,
) {
	return trunkOf(ctx, m, named)
}

// TestTrunkCommits: which commits of the trunk concern a reviewed merge request.
func TestTrunkCommits(t *testing.T) {
	t.Parallel()
	changed := func(cluster, app string) fleet.AffectedTarget {
		return fleet.AffectedTarget{Cluster: cluster, App: app, Effect: fleet.EffectChanged}
	}
	added := func(cluster, app string) fleet.AffectedTarget {
		return fleet.AffectedTarget{Cluster: cluster, App: app, Effect: fleet.EffectAdded}
	}
	own := []fleet.AffectedTarget{changed("c1", "shop")}
	for _, c := range []struct {
		what     string
		trunk    []string
		affected []fleet.AffectedTarget
		scope    []fleet.AffectedTarget
		concerns bool
	}{
		{"a file that no target reads", []string{"README.md"}, nil, own, false},
		{"another app", []string{"apps/web/app.yaml"}, []fleet.AffectedTarget{changed("c1", "web")}, own, false},
		{
			"the app on another cluster",
			[]string{"apps/shop/layers/cluster/c2/values.yaml"},
			[]fleet.AffectedTarget{changed("c2", "shop")},
			own, false,
		},
		{
			"a shared layer",
			[]string{"apps/shop/layers/global/values.yaml"},
			[]fleet.AffectedTarget{changed("c1", "shop"), changed("c2", "shop")},
			own, true,
		},
		{"the same file", []string{"a/values.yaml"}, nil, own, true},
		{"a file in place of a folder", []string{"a"}, nil, own, true},
		{"a folder in place of a file", []string{"a/values.yaml/x"}, nil, own, true},
		{"a file beside it", []string{"a/values.yaml.orig"}, nil, own, false},
		{"a policy", []string{"policy/rules.rego"}, nil, own, true},
		{"sluice.yaml", []string{"sluice.yaml"}, nil, own, true},
		{"sluice.lock", []string{"sluice.lock"}, nil, own, true},
		{"a cluster", []string{"clusters/c1.yaml"}, nil, own, true},
		{"a workspace", []string{"workspaces/team.yaml"}, nil, own, true},
		{
			"a new app on the cluster",
			[]string{"apps/new/app.yaml"},
			[]fleet.AffectedTarget{added("c1", "new")},
			own,
			true,
		},
		{
			"a new app on another cluster",
			[]string{"apps/new/app.yaml"},
			[]fleet.AffectedTarget{added("c2", "new")},
			own,
			false,
		},
		{
			"the app, which the merge request adds to a cluster",
			[]string{"charts/shop/x"},
			[]fleet.AffectedTarget{changed("c2", "shop")},
			[]fleet.AffectedTarget{added("c1", "shop")},
			true,
		},
	} {
		space := &movingFleets{trunk: c.trunk, change: []string{"a/values.yaml", "b/values.yaml"}, affected: c.affected}
		now := time.Unix(0, 0)
		j := listingJob(nil, &now)
		j.log = slog.New(slog.DiscardHandler)
		j.space = &Workspace{Fleets: space, Commits: space}
		before, after := gitstore.Commit{Hash: gitstore.Hash{1}, Tree: gitstore.Hash{1}},
			gitstore.Commit{Hash: gitstore.Hash{2}, Tree: gitstore.Hash{2}}
		mr := &forge.MergeRequest{Number: 7, Head: "head", TargetBranch: "main"}
		base, head := gitstore.Commit{Tree: gitstore.Hash{3}}, gitstore.Commit{Tree: gitstore.Hash{4}}
		current := func(mr *forge.MergeRequest, target gitstore.Commit) bool {
			return (&reviewTask{task: j, mr: mr, target: target}).current(t.Context())
		}
		review := func(r *report.Review) {
			(&reviewTask{task: j, mr: mr}).rememberScope(t.Context(), r, scope{target: before, base: base, head: head})
			j.update(7, func(s *headState) { s.own.input = inputOf(mr, before.Hash, "") })
		}
		whole := &report.Review{Changes: &diff.ChangeSet{}, Scope: c.scope}
		review(whole)
		if got := current(mr, after); got == c.concerns {
			t.Errorf("%s: the merge request is reviewed again: %t", c.what, !got)
		}
		if c.concerns {
			continue
		}
		if j.state(7).own.input != inputOf(mr, after.Hash, "") {
			t.Errorf("%s: the new tip is not remembered", c.what)
		}
		labelled := *mr
		labelled.Labels = []string{"hold"}
		if current(&labelled, after) {
			t.Errorf("%s: a new label changes nothing", c.what)
		}
		other := *mr
		other.TargetBranch = "release"
		j.update(7, func(s *headState) { s.own.input = inputOf(&other, before.Hash, "") })
		if current(&other, gitstore.Commit{Hash: gitstore.Hash{5}}) {
			t.Errorf("%s: the fleet of another branch was read", c.what)
		}
		space.broken = errors.New("broken")
		j.moves = nil
		review(whole)
		if current(mr, after) {
			t.Errorf("%s: a fleet that cannot be read concerns nothing", c.what)
		}
		space.broken, j.moves = nil, nil
		for name, partial := range map[string]*report.Review{
			"errors":           {Changes: &diff.ChangeSet{}, Scope: c.scope, Errors: []string{"broken"}},
			"no comparison":    {Scope: c.scope},
			"too many targets": {Changes: &diff.ChangeSet{}, Scope: make([]fleet.AffectedTarget, maxScopeSize+1)},
		} {
			if review(partial); current(mr, after) {
				t.Errorf("%s, a review with %s: no new review", c.what, name)
			}
		}
	}
}
