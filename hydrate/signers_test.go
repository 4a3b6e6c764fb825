package hydrate_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/rollout"
)

// Anybody can write trailers. If the trunk lists signers, a commit with Sluice's trailers but without a signature is
// foreign.
func TestUnsignedCommitsWithTheTrailersOfSluiceAreForeign(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	for name, forge := range map[string]func(r *hydratetest.Remote) string{
		"env/dev": func(r *hydratetest.Remote) string {
			return r.Bare.Forge("env/dev",
				r.WithPart("env/dev:dev-edge-1"))
		},
		"env/dev, the same tree": func(r *hydratetest.Remote) string { return r.Bare.Forge("env/dev", "env/dev") },
		"cluster/dev-1": func(r *hydratetest.Remote) string {
			return r.Bare.Forge("cluster/dev-1",
				"cluster/dev-edge-1")
		},
		"cluster/dev-1, same tree": func(r *hydratetest.Remote) string {
			return r.Bare.Forge("cluster/dev-1",
				"cluster/dev-1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, sign := hydratetest.NewSignedRemote(t)
			hydratetest.WantStatus(t, r.Push("main", sign), hydrate.StatusUpdated, "")
			forged := forge(r)
			r.Next("X")
			e := r.Push("main", sign)
			hydratetest.WantStatus(t, e, hydrate.StatusRefused, forged)
			if !strings.Contains(e.Reason, "spec.signers") || !strings.Contains(e.Reason, "--allow-empty -S") {
				t.Errorf("the reason names no next step: %s", e.Reason)
			}
			hydratetest.WantStatus(t, r.Push("main", func(c *hydrate.Config, q *hydrate.Request) {
				sign(c, q)
				q.Overwrite = true
			}), hydrate.StatusUpdated, "")
			r.Next("Y")
			hydratetest.WantStatus(t, r.Push("main", sign), hydrate.StatusUpdated, "")
		})
	}
}

// An allowed signer accepts a branch with an empty commit.
func TestEmptySignedCommitsAcceptABranch(t *testing.T) {
	t.Parallel()
	r := hydratetest.NewRemote(t)
	hydratetest.WantStatus(t, r.Push("main", nil), hydrate.StatusUpdated, "")
	signer, line := hydratetest.NewKey(t)
	r.SetSigners(line)
	r.Commit("signers")
	r.Git("push", "-q", "origin", "main")
	sign := func(c *hydrate.Config, _ *hydrate.Request) { c.Signer = signer }
	hydratetest.WantStatus(t, r.Push("main", sign), hydrate.StatusRefused, "it is not signed")
	store := r.Bare.Hydrator(1).Store
	for _, name := range []string{"env/dev", "cluster/dev-1", "cluster/dev-edge-1"} {
		tip := r.Bare.Resolve(name)
		w, err := store.NewWriter()
		if err != nil {
			t.Fatal(err)
		}
		hash, err := w.Commit(gitstore.CommitSpec{
			Tree: tip.Tree, Parents: []gitstore.Hash{tip.Hash}, Author: tip.Author, Committer: tip.Committer,
			Message: "accept\n", Signer: signer,
		})
		if err != nil {
			t.Fatal(err)
		}
		moved, err := store.Local().Push(t.Context(), w, []gitstore.Move{{Branch: name, Old: tip.Hash, New: hash}},
			gitstore.PushOptions{})
		if err != nil || moved[0].Err() != nil {
			t.Fatal(err, moved)
		}
	}
	hydratetest.WantStatus(t, r.Push("main", sign), hydrate.StatusUpdated, "")
	r.Next("X")
	hydratetest.WantStatus(t, r.Push("main", sign), hydrate.StatusUpdated, "")
}

// A run must not write commits that the next run would refuse.
func TestNothingIsWrittenWithoutAnAllowedKey(t *testing.T) {
	t.Parallel()
	r, sign := hydratetest.NewSignedRemote(t)
	other, _ := hydratetest.NewKey(t)
	for name, change := range map[string]func(*hydrate.Config, *hydrate.Request){
		"no key": nil, "another key": func(c *hydrate.Config, _ *hydrate.Request) { c.Signer = other },
	} {
		e := r.Push("main", change)
		hydratetest.WantStatus(t, e, hydrate.StatusRefused, "--sign-key")
		if e.New != "" || len(e.Clusters) > 0 {
			t.Errorf("%s: branches that are not written are reported: %+v", name, e)
		}
		if got := r.Bare.Git("branch", "--list", "env/*", "cluster/*"); got != "" {
			t.Errorf("%s: the result of Git is %s", name, got)
		}
	}
	hydratetest.WantStatus(t, r.Push("main", sign), hydrate.StatusUpdated, "")
}

// The signers are those of the trunk, whatever the commit says.
func TestUnmergedCommitThatRemovesTheSigners(t *testing.T) {
	t.Parallel()
	r, sign := hydratetest.NewSignedRemote(t)
	hydratetest.WantStatus(t, r.Push("main", sign), hydrate.StatusUpdated, "")
	r.Bare.Forge("env/dev", "env/dev")
	r.Git("checkout", "-q", "-b", "feature")
	text := r.Read("sluice.yaml")
	i := strings.Index(text, "  signers: [")
	r.Write("sluice.yaml", text[:i]+text[i+strings.Index(text[i:], "\n")+1:])
	r.Commit("no signers")
	hydratetest.WantStatus(t, r.Push("feature", hydratetest.AllowUnmerged), hydrate.StatusRefused, "spec.signers")
}

// A forged record must not hide that an environment's branch was deleted.
func TestUnsignedRecordsDoNotHideADeletedBranch(t *testing.T) {
	t.Parallel()
	r, sign := hydratetest.NewSignedRemote(t)
	tree := r.Bare.Pipe("", "mktree")
	r.Bare.Git("update-ref", "refs/heads/"+rollout.StateBranch, r.Bare.Git("commit-tree", "-m", "forged", tree))
	hydratetest.WantStatus(t, r.Push("main", sign), hydrate.StatusRefused, "--recreate")
	hydratetest.WantStatus(t, r.Push("main", func(c *hydrate.Config, q *hydrate.Request) {
		sign(c, q)
		q.Recreate = true
	}), hydrate.StatusUpdated, "")
}

// The trunk of a new environment is that of the remote's default branch, not the one that the commit names.
func TestUnmergedCommitThatNamesATrunkForANewEnvironment(t *testing.T) {
	t.Parallel()
	r := hydratetest.NewRemote(t)
	r.Git("checkout", "-q", "-b", "feature")
	r.Write("sluice.yaml", strings.Replace(r.Read("sluice.yaml"), "trunk: main", "trunk: feature", 1))
	r.Commit("my own trunk")
	r.Git("push", "-q", "origin", "feature")
	hydratetest.WantStatus(t, r.Push("feature", nil), hydrate.StatusRefused, "is not on the trunk main of ")
	if got := r.Bare.Git("branch", "--list", "env/*", "cluster/*"); got != "" {
		t.Error(got)
	}
	hydratetest.WantStatus(t, r.Push("main", nil), hydrate.StatusUpdated, "")
}

// A signature does not say which branch a commit belongs to. A commit that Sluice signed for another branch is
// foreign.
func TestSignedCommitsOfAnotherBranchAreForeign(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	for name, from := range map[string]string{"cluster/dev-1": "cluster/dev-edge-1", "cluster/dev-edge-1": "env/dev"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, sign := hydratetest.NewSignedRemote(t)
			hydratetest.WantStatus(t, r.Push("main", sign), hydrate.StatusUpdated, "")
			r.Bare.Git("update-ref", "refs/heads/"+name, from)
			r.Next("X")
			hydratetest.WantStatus(t, r.Push("main", sign), hydrate.StatusRefused, "not for this branch")
			hydratetest.WantStatus(t, r.Push("main", func(c *hydrate.Config, q *hydrate.Request) {
				sign(c, q)
				q.Overwrite = true
			}), hydrate.StatusUpdated, "")
		})
	}
}

// A run that changes only cluster branches needs an allowed key too.
func TestClustersAreNotWrittenWithoutAnAllowedKey(t *testing.T) {
	t.Parallel()
	r, sign := hydratetest.NewSignedRemote(t)
	hydratetest.WantStatus(t, r.Push("main", sign), hydrate.StatusUpdated, "")
	r.Bare.Git("update-ref", "-d", "refs/heads/cluster/dev-1")
	recreate := func(_ *hydrate.Config, q *hydrate.Request) { q.Recreate = true }
	hydratetest.WantStatus(t, r.Push("main", recreate), hydrate.StatusRefused, "--sign-key")
	if got := r.Bare.Git("branch", "--list", "cluster/dev-1"); got != "" {
		t.Error(got)
	}
	hydratetest.WantStatus(t, r.Push("main", func(c *hydrate.Config, q *hydrate.Request) {
		sign(c, q)
		recreate(c, q)
	}), hydrate.StatusUpdated, "")
}
