package verify_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/verify"
)

// TestCommit holds what Commit says of a commit of an environment branch, without a look at any branch.
func TestCommit(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	first := r.Resolve("HEAD")
	r.Write("apps/shop/layers/global/values.yaml", "replicas: 3\n")
	r.Commit("second")
	if got := r.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"dev"} }); !got.OK() {
		t.Fatalf("%+v", got)
	}
	hash := func(rev string) gitstore.Hash {
		t.Helper()
		h, err := gitstore.ParseHash(r.Git("rev-parse", rev))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	message := r.Git("log", "-1", "--format=%B", "env/dev")
	parent := r.Git("commit-tree", "env/dev:dev-1", "-m", "not of Sluice")
	claims := r.Git("commit-tree", "env/dev^{tree}", "-m", strings.TrimSpace(message)+"\nSluice-Unmerged: "+first.Hash.String())
	empty := r.Pipe("", "mktree")
	_, line := hydratetest.NewKey(t)
	r.SetSigners(line)
	r.Commit("signers")
	signed := r.Resolve("HEAD")
	for _, c := range []struct {
		name           string
		tip, trunk     gitstore.Hash
		status, reason string
		signers        bool
	}{
		{name: "as rendered", tip: hash("env/dev"), trunk: hash("main"), status: verify.StatusOK},
		{name: "the trunk lacks the source", tip: hash("env/dev"), trunk: first.Hash, status: verify.StatusUnmerged, reason: "does not contain"},
		{name: "an exception that nobody signed", tip: hash(claims), trunk: first.Hash, status: verify.StatusUnproven, reason: "nothing proves who recorded it"},
		{name: "another tree", tip: hash(parent), trunk: hash("main"), status: verify.StatusFailed, reason: "what it was rendered from"},
		{name: "nothing", tip: hash(r.Git("commit-tree", empty, "-m", message)), trunk: hash("main"), status: verify.StatusFailed, reason: "what it was rendered from"},
		{name: "nobody signed it", tip: hash("env/dev"), trunk: hash("main"), status: verify.StatusUnsigned, reason: "without a signature", signers: true},
	} {
		h := r.Hydrator(1)
		rules := first
		if c.signers {
			rules = signed
		}
		f, _, err := h.Fleet(t.Context(), rules.Tree)
		if err != nil {
			t.Fatal(err)
		}
		got, err := verify.Commit(t.Context(), h, f, "dev", c.tip, c.trunk)
		if err != nil || got.Status != c.status || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: %+v, %v; want %s", c.name, got, err, c.status)
		}
	}
}
