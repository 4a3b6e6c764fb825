package admit_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// toProd is a change for Push that writes prod.
func toProd(_ *hydrate.Config, q *hydrate.Request) { q.Environments = []string{"prod"} }

// prodOf gives the status of prod after a push.
func prodOf(r *hydratetest.Remote, revision string, change func(*hydrate.Config, *hydrate.Request)) hydrate.EnvironmentResult {
	var out hydrate.EnvironmentResult
	result := r.PushAll(revision, func(c *hydrate.Config, q *hydrate.Request) {
		toProd(c, q)
		if change != nil {
			change(c, q)
		}
	})
	for _, e := range result.Environments {
		if e.Name == "prod" {
			out = e
		}
	}
	return out
}

// A hydration of the remote never writes an environment that comes after others: not the first time, not from a commit
// of a time when it did not, and not from a commit that is not merged.
func TestPromotedEnvironmentsAreRefused(t *testing.T) {
	t.Parallel()
	r := hydratetest.NewRemote(t)
	fleet := r.Read("sluice.yaml")
	hydratetest.WantStatus(t, prodOf(r, "main", nil), hydrate.StatusRefused, "it comes after staging, and hydrate asks no gate")
	r.Write("sluice.yaml", strings.Replace(fleet, "      after: [staging]\n", "", 1))
	r.Git("checkout", "-q", "-b", "feature")
	r.Commit("prod follows the trunk")
	hydratetest.WantStatus(t, prodOf(r, "feature", func(_ *hydrate.Config, q *hydrate.Request) {
		q.AllowUnmerged = []string{"prod"}
	}), hydrate.StatusRefused, "sluice promote prod")
	r.Git("push", "-q", "origin", "feature:main")
	old := r.Git("rev-parse", "HEAD")
	r.Write("sluice.yaml", fleet)
	r.Commit("prod is promoted again")
	r.Git("push", "-q", "origin", "feature:main")
	for _, revision := range []string{old, "feature"} {
		hydratetest.WantStatus(t, prodOf(r, revision, func(_ *hydrate.Config, q *hydrate.Request) { q.Overwrite, q.Recreate = true, true }),
			hydrate.StatusRefused, "sluice repair prod")
	}
	if got := r.Bare.Git("for-each-ref", "refs/heads/env", "refs/heads/cluster"); got != "" {
		t.Errorf("branches were written:\n%s", got)
	}
}

// --prune deletes the branch of a cluster that left a promoted environment after the promotion, and moves nothing else.
func TestPruneOfPromotedEnvironment(t *testing.T) {
	t.Parallel()
	r := hydratetest.NewRemote(t)
	promote := func() {
		r.Hydrate(func(q *hydrate.Request) { q.MaxDeletions = 1000 })
		r.Git("push", "-q", "origin", "env/prod", "cluster/prod-us-1", "cluster/prod-eu-1")
	}
	promote()
	r.Write("clusters/prod-us-1.yaml", r.Read("clusters/prod-us-1.yaml")+"  state: retired\n")
	r.Commit("retire prod-us-1")
	r.Git("push", "-q", "origin", "main")
	prune := func(_ *hydrate.Config, q *hydrate.Request) { q.Prune = true }
	hydratetest.WantStatus(t, prodOf(r, "main", prune), hydrate.StatusUnchanged, "")
	r.Bare.Git("rev-parse", "cluster/prod-us-1")
	promote()
	tip := r.Bare.Git("rev-parse", "env/prod", "cluster/prod-eu-1")
	hydratetest.WantStatus(t, prodOf(r, "main", prune), hydrate.StatusUpdated, "")
	if got := r.Bare.Git("for-each-ref", "refs/heads/cluster/prod-us-1"); got != "" {
		t.Errorf("the branch of the retired cluster is still there: %s", got)
	}
	if got := r.Bare.Git("rev-parse", "env/prod", "cluster/prod-eu-1"); got != tip {
		t.Errorf("other branches moved: %s, before %s", got, tip)
	}
}
