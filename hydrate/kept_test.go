package hydrate_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/tips"
	"github.com/sluice-gitops/sluice/internal/memo"
	"github.com/sluice-gitops/sluice/internal/signers"
)

// openKept opens a file of results in a place where a run has been before.
func openKept(t *testing.T) *memo.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "kept")
	if err := memo.Open(name, "build").Save(); err != nil {
		t.Fatal(err)
	}
	return memo.Open(name, "build")
}

// What earlier runs knew of the tips of cluster branches hides no foreign commit.
func TestKeptTipsHideNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	for name, forge := range map[string]func(r *hydratetest.Remote) (want string){
		"another tree": func(r *hydratetest.Remote) string { return r.Bare.Forge("cluster/dev-1", "cluster/dev-edge-1") },
		"same tree":    func(r *hydratetest.Remote) string { return r.Bare.Forge("cluster/dev-1", "cluster/dev-1") },
		"another branch": func(r *hydratetest.Remote) string {
			r.Bare.Git("update-ref", "refs/heads/cluster/dev-1", "cluster/dev-edge-1")
			return "not for this branch"
		},
		"other signers": func(r *hydratetest.Remote) string {
			_, line := hydratetest.NewKey(t)
			r.Write("sluice.yaml", regexp.MustCompile("ssh-ed25519 [^ '\"\\n]+").ReplaceAllString(r.Read("sluice.yaml"), regexp.MustCompile("ssh-ed25519 [^ ]+").FindString(line)))
			r.Commit("other signers")
			r.Git("push", "-q", "origin", "main")
			return "spec.signers"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, sign := hydratetest.NewSignedRemote(t)
			kept := openKept(t)
			push := func(c *hydrate.Config, q *hydrate.Request) {
				sign(c, q)
				c.Kept = kept
			}
			hydratetest.WantStatus(t, r.Push("main", push), hydrate.StatusUpdated, "")
			hydratetest.WantStatus(t, r.Push("main", push), hydrate.StatusUnchanged, "") // knows every tip
			want := forge(r)
			r.Next("X")
			hydratetest.WantStatus(t, r.Push("main", push), hydrate.StatusRefused, want)
		})
	}
}

// A tip that is known is not read again.
func TestKnownTipsAreNotRead(t *testing.T) {
	t.Parallel()
	r := hydratetest.NewRemote(t)
	kept := openKept(t)
	push := func(c *hydrate.Config, _ *hydrate.Request) { c.Kept = kept }
	hydratetest.WantStatus(t, r.Push("main", push), hydrate.StatusUpdated, "")
	hydratetest.WantStatus(t, r.Push("main", push), hydrate.StatusUnchanged, "")
	key := func(tip gitstore.Hash) memo.Key {
		return tips.Key(tip, branch.Owner{Environment: "dev", Cluster: "dev-1"}, signers.List{})
	}
	tip, wrong := r.Bare.Resolve("cluster/dev-1"), r.Bare.Resolve("cluster/dev-edge-1")
	if known, ok := kept.Get(key(tip.Hash)); !ok || string(known) != string(tip.Tree[:]) {
		t.Errorf("the tip %s has the tree %s, and %x is known of it", tip.Hash, tip.Tree, known)
	}
	// With a wrong result, a branch of another cluster passes for this one: only what was checked may be kept.
	r.Bare.Git("update-ref", "refs/heads/cluster/dev-1", wrong.Hash.String())
	kept.Put(key(wrong.Hash), tip.Tree[:])
	hydratetest.WantStatus(t, r.Push("main", push), hydrate.StatusUnchanged, "")
	r.Bare.Git("update-ref", "refs/heads/cluster/dev-1", r.Bare.Git("rev-parse", "env/dev"))
	r.Next("X")
	hydratetest.WantStatus(t, r.Push("main", push), hydrate.StatusRefused, "not for this branch")
}
