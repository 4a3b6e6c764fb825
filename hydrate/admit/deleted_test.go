package admit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// Deletes every combination of branches after a first run, whose commits have no parents. The environment counts as
// new only if all of its branches are missing.
func TestDeletedBranchesAreDistinguishedFromNewOnes(t *testing.T) {
	t.Parallel()
	base := hydratetest.Demo(t)
	base.Hydrate(nil)
	branches := []string{"env/dev", "cluster/dev-1", "cluster/dev-edge-1"}
	for missing := 1; missing < 1<<len(branches); missing++ {
		var gone []string
		for i, name := range branches {
			if missing&(1<<i) != 0 {
				gone = append(gone, name)
			}
		}
		t.Run(strings.ReplaceAll(strings.Join(gone, ","), "/", "-"), func(t *testing.T) {
			t.Parallel()
			r := &hydratetest.Repo{T: t, Dir: t.TempDir()}
			r.Git("clone", "-q", "--mirror", base.Dir, ".git")
			r.Git("config", "core.bare", "false")
			r.Git("reset", "-q", "--hard", "main")
			for _, name := range gone {
				r.Git("branch", "-qD", name)
			}
			e := r.Hydrate(nil).Environments[0]
			if len(gone) == len(branches) {
				if e.Status != hydrate.StatusUpdated {
					t.Errorf("a new environment: %s %s", e.Status, e.Reason)
				}
				return
			}
			if e.Status != hydrate.StatusRefused || !strings.Contains(e.Reason, "somebody deleted") ||
				!strings.Contains(e.Reason, "--recreate") {
				t.Fatalf("the status is %s, the reason is %q", e.Status, e.Reason)
			}
			if got := r.Git("for-each-ref", "--format=%(refname:short)", "refs/heads/"+gone[0]); got != "" {
				t.Errorf("%s is back", got)
			}
			e = r.Hydrate(func(q *hydrate.Request) { q.Recreate = true }).Environments[0]
			if e.Status != hydrate.StatusUpdated {
				t.Errorf("--recreate: %s %s", e.Status, e.Reason)
			}
			for _, name := range branches {
				if r.Git("rev-parse", name+"^{tree}") != base.Git("rev-parse", name+"^{tree}") {
					t.Errorf("--recreate: %s has another tree", name)
				}
			}
		})
	}
}

// An environment without branches is not new if a record of its promotions exists, or if another environment was
// promoted from it.
func TestDeletedEnvironmentWithoutClusterBranches(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(r *hydratetest.Repo){
		"sluice/state records": func(r *hydratetest.Repo) {
			r.Git("checkout", "-q", "--orphan", "sluice/state")
			r.Git("rm", "-rqf", ".")
			r.Write("environments/dev.yaml",
				"apiVersion: sluice.dev/v1alpha1\nkind: PromotionRecord\nenvironment: dev\nran:\n  - {source: {commit: abc}, tree: def, at: 2024-01-02T03:04:05Z}\n")
			r.Commit("record")
			r.Git("checkout", "-q", "main")
		},
		"env/staging was promoted from it": func(r *hydratetest.Repo) {
			r.Git("branch", "-q", "env/staging", r.Git("commit-tree", "-m",
				"x\n\nSluice-Source: a\nSluice-Promoted-From: dev", "HEAD^{tree}"))
		},
	} {
		t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			t.Parallel()
			r := hydratetest.Demo(t)
			leave(r)
			only := func(q *hydrate.Request) { q.Environments = []string{"dev"} }
			e := r.Hydrate(only).Environments[0]
			if e.Status != hydrate.StatusRefused || !strings.Contains(e.Reason, name) {
				t.Errorf("the status is %s, the reason is %q", e.Status, e.Reason)
			}
		})
	}
}

// Where the trunk lists signers, a tip that none of them signed does not tell whether a branch was deleted: neither
// does its trailer say so, nor does the lack of one say the contrary.
func TestUnsignedTipsDoNotTellADeletedBranch(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	for name, message := range map[string]string{
		"with the trailer": "x\n\nSluice-Source: a\nSluice-Environment: dev",
		"without":          "x",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, sign := hydratetest.NewSignedRemote(t)
			hydratetest.WantStatus(t, r.Push("main", sign), hydrate.StatusUpdated, "")
			forged := r.Bare.Git("commit-tree", "-m", message, "cluster/dev-1^{tree}")
			r.Bare.Git("update-ref", "refs/heads/cluster/dev-1", forged)
			r.Bare.Git("update-ref", "-d", "refs/heads/env/dev")
			e := r.Push("main", sign)
			hydratetest.WantStatus(t, e, hydrate.StatusRefused, forged)
			for _, word := range []string{"cluster/dev-1", "spec.signers", "--recreate"} {
				if !strings.Contains(e.Reason, word) {
					t.Errorf("%q misses %q", e.Reason, word)
				}
			}
		})
	}
}

// Where the trunk lists signers, a marker branch that none of them signed for the environment does not hide that its
// branch was deleted.
func TestForgedMarkersDoNotHideADeletedBranch(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	for name, c := range map[string]struct {
		forge func(r *hydratetest.Remote) string
		want  string
	}{
		"unsigned": {func(r *hydratetest.Remote) string {
			return r.Bare.Git("commit-tree", "-m", "x\n\nSluice-Source: a\nSluice-Environment: dev",
				"cluster/dev-1^{tree}")
		}, "sluice/creating/dev does not have a signature"},
		"of a cluster": {func(r *hydratetest.Remote) string {
			return r.Bare.Git("rev-parse",
				"cluster/dev-1")
		}, "somebody deleted env/dev"},
		"of another environment": {
			func(r *hydratetest.Remote) string { return r.Bare.Git("rev-parse", "env/staging") },
			"somebody deleted env/dev",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, sign := hydratetest.NewSignedRemote(t)
			r.Write("sluice.yaml", strings.Replace(r.Read("sluice.yaml"), "      after: [dev]\n      promotion: {mode: auto, bake: 30m}\n", "", 1))
			r.Commit("staging follows the trunk, too")
			r.Git("push", "-q", "origin", "main")
			both := func(c *hydrate.Config, q *hydrate.Request) {
				sign(c, q)
				q.Environments = []string{
					"dev",
					"staging",
				}
			}
			hydratetest.WantStatus(t, r.Push("main", both), hydrate.StatusUpdated, "")
			r.Bare.Git("update-ref", "refs/heads/sluice/creating/dev", c.forge(r))
			r.Bare.Git("update-ref", "-d", "refs/heads/env/dev")
			hydratetest.WantStatus(t, r.Push("main", sign), hydrate.StatusRefused, c.want)
		})
	}
}

// A first run that is interrupted between two pushes continues in the next run, which deletes the marker branch.
func TestInterruptedFirstRunContinues(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	r := hydratetest.NewRemote(t)
	slow := func(_ *hydrate.Config, q *hydrate.Request) { q.PerPush = 1 }
	hook := func(script string) { r.Bare.WriteHook("update", script) }
	for _, refused := range []string{"refs/heads/cluster/dev-edge-1", "refs/heads/env/dev"} {
		hook(fmt.Sprintf("#!/bin/sh\n[ \"$1\" != %s ]\n", refused))
		if e := r.Push("main", slow); e.Status != hydrate.StatusRejected {
			t.Fatalf("the status is %s, the reason is %q", e.Status, e.Reason)
		}
		if got := r.Bare.Git("for-each-ref", "--format=%(refname:short)",
			"refs/heads/sluice"); got != "sluice/creating/dev" {
			t.Errorf("the mark is %q", got)
		}
	}
	hook("#!/bin/sh\n")
	r.Write("README.md", "next\n")
	r.Commit("next")
	r.Git("push", "-q", "origin", "main")
	hydratetest.WantStatus(t, r.Push("main", slow), hydrate.StatusUpdated, "")
	if got := r.Bare.Git("for-each-ref", "--format=%(refname:short)", "refs/heads/sluice"); got != "" {
		t.Errorf("%s is still there", got)
	}
	r.Bare.Git("branch", "-qD", "env/dev")
	hydratetest.WantStatus(t, r.Push("main", slow), hydrate.StatusRefused, "somebody deleted env/dev")
}
