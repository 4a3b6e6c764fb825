package hydrate_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/tips"
	"github.com/sluice-gitops/sluice/internal/memo"
	"github.com/sluice-gitops/sluice/internal/signers"
)

// manyClusters adds clusters many-000 and so on to the environment dev.
func manyClusters(r *hydratetest.Remote, n int) {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "---\napiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: many-%03d, labels: {region: eu-west-1, ring: main}}\nspec: {environment: dev, class: core, vars: {shortName: m%d, lbRange: 10.1.0.0/24}}\n", i, i)
	}
	r.Write("clusters/many.yaml", text.String())
	r.Commit("many")
	r.Git("push", "-q", "origin", "main")
}

// The tips of a large environment are one list. A run reads none of the commits in it, and takes no other commit for them.
func TestListOfTips(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	r := hydratetest.NewRemote(t)
	manyClusters(r, 100)
	kept := openKept(t)
	push := func(c *hydrate.Config, _ *hydrate.Request) { c.Kept = kept }
	run := func(status hydrate.Status, reason string) {
		t.Helper()
		hydratetest.WantStatus(t, r.Push("main", push), status, reason)
	}
	find := func(cluster string, tip gitstore.Hash) bool {
		t.Helper()
		list, _ := kept.Get(tips.ListKey("dev", signers.List{}))
		rows := memo.RowsOf(list)
		_, ok := rows.Find(cluster, string(tip[:]))
		return ok
	}
	tip := func(cluster string) gitstore.Commit { return r.Bare.Resolve("cluster/" + cluster) }
	run(hydrate.StatusUpdated, "")
	if find("many-000", tip("many-000").Hash) {
		t.Error("a branch that the run has made is in the list before anybody looked at it")
	}
	run(hydrate.StatusUnchanged, "")
	for _, name := range []string{"dev-1", "many-000", "many-050", "many-099"} {
		if !find(name, tip(name).Hash) {
			t.Errorf("the list lacks %s", name)
		}
	}
	// With a wrong list, a branch of another cluster passes for this one: the commits of the list are not read.
	before, wrong := tip("many-007"), tip("dev-1")
	list, _ := kept.Get(tips.ListKey("dev", signers.List{}))
	r.Bare.Git("update-ref", "refs/heads/cluster/many-007", wrong.Hash.String())
	kept.Put(tips.ListKey("dev", signers.List{}), memo.AppendRow(nil, "many-007", string(wrong.Hash[:]), before.Tree[:]))
	run(hydrate.StatusUnchanged, "")
	kept.Put(tips.ListKey("dev", signers.List{}), list)
	run(hydrate.StatusRefused, "not for this branch")
	r.Bare.Git("update-ref", "refs/heads/cluster/many-007", before.Hash.String())
	run(hydrate.StatusUnchanged, "")
	r.Next("X") // all clusters change
	run(hydrate.StatusUpdated, "")
	if now := tip("many-050"); now.Hash == before.Hash || find("many-050", now.Hash) {
		t.Error("the branch did not move, or the list has its new tip already")
	}
	run(hydrate.StatusUnchanged, "")
	if !find("many-050", tip("many-050").Hash) {
		t.Error("the list was not made again although all branches moved")
	}
	r.Bare.Git("update-ref", "refs/heads/cluster/many-050", tip("many-050").Parents[0].String())
	run(hydrate.StatusUpdated, "") // it is moved to what it should have
}

// A run whose clone lacks the commits of tips that it knows fetches those that it moves.
func TestMovingTipsAreFetched(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	r := hydratetest.NewRemote(t)
	r.Output = filepath.Join(t.TempDir(), "output.git")
	r.Git("init", "-q", "--bare", r.Output)
	kept := openKept(t)
	push := func(c *hydrate.Config, _ *hydrate.Request) { c.Kept = kept }
	for _, status := range []hydrate.Status{hydrate.StatusUpdated, hydrate.StatusUnchanged} {
		hydratetest.WantStatus(t, r.Push("main", push), status, "")
	}
	r.Git("clone", "-q", "--no-local", "--single-branch", "--branch", "main", r.Bare.Dir, r.Dir+"/other") // without the rendered branches
	other := &hydratetest.Remote{Repo: &hydratetest.Repo{T: t, Dir: r.Dir + "/other"}, Bare: r.Bare, Output: r.Output}
	other.Git("config", "user.name", "a")
	other.Git("config", "user.email", "a@example.com")
	other.Next("X")
	hydratetest.WantStatus(t, other.Push("main", push), hydrate.StatusUpdated, "")
	output := hydratetest.Repo{T: t, Dir: r.Output}
	if n := output.Git("rev-list", "--count", "cluster/dev-1"); n != "2" {
		t.Errorf("cluster/dev-1 has %s commits, want 2", n)
	}
}
