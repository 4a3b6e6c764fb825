package hydrate_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// signedRemote is a remote whose trunk lists one signer.
func signedRemote(t *testing.T) (*remote, func(*hydrate.Config, *hydrate.Request)) {
	t.Helper()
	r := withRemote(t)
	signer, line := hydratetest.NewKey(t)
	r.SetSigners(line)
	r.Commit("signers")
	r.Git("push", "-q", "origin", "main")
	return r, func(c *hydrate.Config, _ *hydrate.Request) { c.Signer = signer }
}

// next commits to the trunk.
func (r *remote) next(currency string) {
	r.T.Helper()
	r.Write("apps/shop/layers/global/values.yaml", strings.Replace(r.Read("apps/shop/layers/global/values.yaml"), "currency: ", "currency: "+currency, 1))
	r.Commit("currency " + currency)
	r.Git("push", "-q", "origin", "main")
}

// withPart returns the tree of env/dev with another tree for the cluster dev-1.
func (r *remote) withPart(tree string) string {
	r.T.Helper()
	var entries []string
	for line := range strings.SplitSeq(r.bare.Git("ls-tree", "env/dev"), "\n") {
		if strings.HasSuffix(line, "\tdev-1") {
			line = "040000 tree " + r.bare.Git("rev-parse", tree) + "\tdev-1"
		}
		entries = append(entries, line)
	}
	return r.bare.Pipe(strings.Join(entries, "\n")+"\n", "mktree")
}

// Anybody can write trailers. If the trunk lists signers, a commit with Sluice's trailers but without a signature is
// foreign.
func TestUnsignedCommitsWithTheTrailersOfSluiceAreForeign(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(r *remote) string{
		"env/dev":                  func(r *remote) string { return r.bare.Forge("env/dev", r.withPart("env/dev:dev-edge-1")) },
		"env/dev, the same tree":   func(r *remote) string { return r.bare.Forge("env/dev", "env/dev") },
		"cluster/dev-1":            func(r *remote) string { return r.bare.Forge("cluster/dev-1", "cluster/dev-edge-1") },
		"cluster/dev-1, same tree": func(r *remote) string { return r.bare.Forge("cluster/dev-1", "cluster/dev-1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, sign := signedRemote(t)
			wantStatus(t, r.push("main", sign), hydrate.StatusUpdated, "")
			forged := forge(r)
			r.next("X")
			e := r.push("main", sign)
			wantStatus(t, e, hydrate.StatusRefused, forged)
			if !strings.Contains(e.Reason, "spec.signers") || !strings.Contains(e.Reason, "--allow-empty -S") {
				t.Errorf("the reason names no next step: %s", e.Reason)
			}
			wantStatus(t, r.push("main", func(c *hydrate.Config, q *hydrate.Request) { sign(c, q); q.Overwrite = true }), hydrate.StatusUpdated, "")
			r.next("Y")
			wantStatus(t, r.push("main", sign), hydrate.StatusUpdated, "")
		})
	}
}

// An allowed signer accepts a branch with an empty commit.
func TestEmptySignedCommitsAcceptABranch(t *testing.T) {
	t.Parallel()
	r := withRemote(t)
	wantStatus(t, r.push("main", nil), hydrate.StatusUpdated, "")
	signer, line := hydratetest.NewKey(t)
	r.SetSigners(line)
	r.Commit("signers")
	r.Git("push", "-q", "origin", "main")
	sign := func(c *hydrate.Config, _ *hydrate.Request) { c.Signer = signer }
	wantStatus(t, r.push("main", sign), hydrate.StatusRefused, "it is not signed")
	store := r.bare.Hydrator(1).Store
	for _, name := range []string{"env/dev", "cluster/dev-1", "cluster/dev-edge-1"} {
		tip := r.bare.Resolve(name)
		w, err := store.NewWriter()
		if err != nil {
			t.Fatal(err)
		}
		hash, err := w.Commit(gitstore.CommitSpec{
			Tree: tip.Tree, Parents: []gitstore.Hash{tip.Hash}, Author: tip.Author, Committer: tip.Committer, Message: "accept\n", Signer: signer,
		})
		if err != nil {
			t.Fatal(err)
		}
		moved, err := store.Local().Push(t.Context(), w, []gitstore.Move{{Branch: name, Old: tip.Hash, New: hash}}, gitstore.PushOptions{})
		if err != nil || moved[0].Err() != nil {
			t.Fatal(err, moved)
		}
	}
	wantStatus(t, r.push("main", sign), hydrate.StatusUpdated, "")
	r.next("X")
	wantStatus(t, r.push("main", sign), hydrate.StatusUpdated, "")
}

// A run must not write commits that the next run would refuse.
func TestNothingIsWrittenWithoutAnAllowedKey(t *testing.T) {
	t.Parallel()
	r, sign := signedRemote(t)
	other, _ := hydratetest.NewKey(t)
	for name, change := range map[string]func(*hydrate.Config, *hydrate.Request){
		"no key": nil, "another key": func(c *hydrate.Config, _ *hydrate.Request) { c.Signer = other },
	} {
		e := r.push("main", change)
		wantStatus(t, e, hydrate.StatusRefused, "--sign-key")
		if e.New != "" || len(e.Clusters) > 0 {
			t.Errorf("%s: branches that are not written are reported: %+v", name, e)
		}
		if got := r.bare.Git("branch", "--list", "env/*", "cluster/*"); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
	wantStatus(t, r.push("main", sign), hydrate.StatusUpdated, "")
}

// The signers are those of the trunk, whatever the commit says.
func TestUnmergedCommitThatRemovesTheSigners(t *testing.T) {
	t.Parallel()
	r, sign := signedRemote(t)
	wantStatus(t, r.push("main", sign), hydrate.StatusUpdated, "")
	r.bare.Forge("env/dev", "env/dev")
	r.Git("checkout", "-q", "-b", "feature")
	text := r.Read("sluice.yaml")
	i := strings.Index(text, "  signers: [")
	r.Write("sluice.yaml", text[:i]+text[i+strings.Index(text[i:], "\n")+1:])
	r.Commit("no signers")
	wantStatus(t, r.push("feature", allowUnmerged), hydrate.StatusRefused, "spec.signers")
}

// A forged record must not hide that an environment's branch was deleted.
func TestUnsignedRecordsDoNotHideADeletedBranch(t *testing.T) {
	t.Parallel()
	r, sign := signedRemote(t)
	tree := r.bare.Pipe("", "mktree")
	r.bare.Git("update-ref", "refs/heads/"+promote.StateBranch, r.bare.Git("commit-tree", "-m", "forged", tree))
	wantStatus(t, r.push("main", sign), hydrate.StatusRefused, "--recreate")
	wantStatus(t, r.push("main", func(c *hydrate.Config, q *hydrate.Request) { sign(c, q); q.Recreate = true }), hydrate.StatusUpdated, "")
}

// The trunk of a new environment is that of the remote's default branch, not the one that the commit names.
func TestUnmergedCommitThatNamesATrunkForANewEnvironment(t *testing.T) {
	t.Parallel()
	r := withRemote(t)
	r.Git("checkout", "-q", "-b", "feature")
	r.Write("sluice.yaml", strings.Replace(r.Read("sluice.yaml"), "trunk: main", "trunk: feature", 1))
	r.Commit("my own trunk")
	r.Git("push", "-q", "origin", "feature")
	wantStatus(t, r.push("feature", nil), hydrate.StatusRefused, "is not on the trunk main of ")
	if got := r.bare.Git("branch", "--list", "env/*", "cluster/*"); got != "" {
		t.Error(got)
	}
	wantStatus(t, r.push("main", nil), hydrate.StatusUpdated, "")
}

// A signature does not say which branch a commit belongs to. A commit that Sluice signed for another branch is
// foreign.
func TestSignedCommitsOfAnotherBranchAreForeign(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]string{"cluster/dev-1": "cluster/dev-edge-1", "cluster/dev-edge-1": "env/dev"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, sign := signedRemote(t)
			wantStatus(t, r.push("main", sign), hydrate.StatusUpdated, "")
			r.bare.Git("update-ref", "refs/heads/"+name, from)
			r.next("X")
			wantStatus(t, r.push("main", sign), hydrate.StatusRefused, "not for this branch")
			wantStatus(t, r.push("main", func(c *hydrate.Config, q *hydrate.Request) { sign(c, q); q.Overwrite = true }), hydrate.StatusUpdated, "")
		})
	}
}

// A run that changes only cluster branches needs an allowed key too.
func TestClustersAreNotWrittenWithoutAnAllowedKey(t *testing.T) {
	t.Parallel()
	r, sign := signedRemote(t)
	wantStatus(t, r.push("main", sign), hydrate.StatusUpdated, "")
	r.bare.Git("update-ref", "-d", "refs/heads/cluster/dev-1")
	recreate := func(_ *hydrate.Config, q *hydrate.Request) { q.Recreate = true }
	wantStatus(t, r.push("main", recreate), hydrate.StatusRefused, "--sign-key")
	if got := r.bare.Git("branch", "--list", "cluster/dev-1"); got != "" {
		t.Error(got)
	}
	wantStatus(t, r.push("main", func(c *hydrate.Config, q *hydrate.Request) { sign(c, q); recreate(c, q) }), hydrate.StatusUpdated, "")
}
