package verify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/verify"
	"github.com/sluice-gitops/sluice/rollout"
)

// signed is a repository with a hydrated fleet whose trunk lists one signer.
func signed(t *testing.T) *hydratetest.Repo {
	t.Helper()
	r := hydratetest.Demo(t)
	signer, line := hydratetest.NewKey(t)
	r.SetSigners(line)
	r.Commit("signers")
	hydrateSigned(r, signer)
	return r
}

// replace puts another message on the tip of a branch; a nil signer leaves it unsigned.
func replace(r *hydratetest.Repo, name, message string, signer gitstore.Signer) {
	r.T.Helper()
	store := r.Hydrator(1).Store
	tip := r.Resolve(name)
	w, err := store.NewWriter()
	if err != nil {
		r.T.Fatal(err)
	}
	hash, err := w.Commit(gitstore.CommitSpec{
		Tree: tip.Tree, Parents: tip.Parents, Author: tip.Author,
		Committer: tip.Committer, Message: message, Signer: signer,
	})
	if err != nil {
		r.T.Fatal(err)
	}
	moved, err := store.Local().Push(r.T.Context(), w, []gitstore.Move{{Branch: name, Old: tip.Hash, New: hash}},
		gitstore.PushOptions{})
	if err != nil || moved[0].Err() != nil {
		r.T.Fatal(err, moved)
	}
}

func hydrateSigned(r *hydratetest.Repo, signer gitstore.Signer) {
	r.T.Helper()
	config := r.Hydrator(2).Config
	config.Signer = signer
	result, err := hydrate.New(config).Hydrate(r.T.Context(), hydrate.Request{
		Commit: r.Resolve("main"), Write: true,
		Environments: []string{"dev", "staging", "prod"},
	})
	if err != nil || !result.OK() {
		r.T.Fatalf("%+v, %v", result, err)
	}
}

// run verifies the branches of the repository against main.
func run(r *hydratetest.Repo, environments ...string) map[string]verify.Verification {
	r.T.Helper()
	found, err := verify.Run(r.T.Context(), r.Hydrator(2), r.Resolve("main"), environments, time.Now())
	if err != nil {
		r.T.Fatal(err)
	}
	out := map[string]verify.Verification{}
	for _, v := range found {
		out[v.Environment] = v
	}
	return out
}

func TestHydratedBranchesAreVerified(t *testing.T) {
	t.Parallel()
	r := signed(t)
	for name, v := range run(r) {
		if v.Status != verify.StatusOK || v.Source != r.Git("rev-parse", "main") ||
			len(v.Differences)+len(v.Unsigned)+len(v.Unmerged) > 0 {
			t.Errorf("%s: the value is %+v", name, v)
		}
	}
	if _, err := verify.Run(t.Context(), r.Hydrator(1), r.Resolve("main"), []string{"prodd"}, time.Now()); err == nil ||
		!strings.Contains(err.Error(), `"prodd"`) {
		t.Errorf("an unknown environment: %v", err)
	}
}

func TestMissingBranchesAreNotVerified(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	found, err := verify.Run(t.Context(), r.Hydrator(1), r.Resolve("main"), nil, time.Now())
	if err != nil || len(found) != 3 || verify.Any(found) || found[0].Status != verify.StatusMissing {
		t.Errorf("the found is %+v, the error is %v", found, err)
	}
}

// Each of the three ways in which somebody can write to a branch has its own status, and counts as tampering.
func TestTampering(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	for name, c := range map[string]struct {
		tamper func(r *hydratetest.Repo) string // returns the text that the verification must contain
		status string
	}{
		"a file of an environment branch": {func(r *hydratetest.Repo) string {
			edit(r, "env/prod", "prod-eu-1/shop/extra.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n")
			return "prod-eu-1/shop/extra.yaml"
		}, verify.StatusDiffers},
		"a file of a cluster branch": {func(r *hydratetest.Repo) string {
			edit(r, "cluster/prod-eu-1", "shop/service-shop.yaml", "hello\n")
			return "shop/service-shop.yaml"
		}, verify.StatusDiffers},
		"an unsigned copy of an environment branch": {func(r *hydratetest.Repo) string {
			return r.Forge("env/prod",
				"env/prod")
		}, verify.StatusUnsigned},
		"an unsigned copy of a cluster branch": {func(r *hydratetest.Repo) string { return r.Forge("cluster/prod-eu-1", "cluster/prod-eu-1") }, verify.StatusUnsigned},
		"unsigned records": {func(r *hydratetest.Repo) string {
			forged := r.Git("commit-tree", "-m", "forged", r.Pipe("", "mktree"))
			r.Git("update-ref", "refs/heads/"+rollout.StateBranch, forged)
			return forged
		}, verify.StatusUnsigned},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t)
			named := c.tamper(r)
			found := run(r)
			v := found["prod"]
			if v.Status != c.status || !verify.Tampered(v.Status) || !strings.Contains(names(v), named) {
				t.Errorf("%+v lacks %s", v, named)
			}
			if other := found["staging"]; name != "unsigned records" && other.Status != verify.StatusOK {
				t.Errorf("staging: %+v", other)
			}
		})
	}
}

func names(v verify.Verification) string {
	var b strings.Builder
	for _, d := range v.Differences {
		b.WriteString(d.Branch + ":" + d.Path + " ")
	}
	for _, s := range v.Unsigned {
		b.WriteString(s.Branch + " " + s.Commit + " ")
	}
	return b.String() + strings.Join(v.Unmerged, " ")
}

// edit commits a file to a branch, as a person would.
func edit(r *hydratetest.Repo, branch, file, text string) {
	r.T.Helper()
	tree := &hydratetest.Repo{T: r.T, Dir: r.T.TempDir() + "/tree"}
	r.Git("worktree", "add", "-q", "--detach", tree.Dir, branch)
	tree.Write(file, text)
	tree.Commit("by hand")
	r.Git("update-ref", "refs/heads/"+branch, tree.Git("rev-parse", "HEAD"))
}

// A source commit must be on the trunk, whatever a branch says. An exception is recorded in the branch, and everybody
// who may push can write such a record: only a signature proves it.
func TestSourceCommitsMustBeOnTheTrunk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		recorded, listed, signed bool
		exceptions               int
		want                     string
	}{
		"without a record":          {want: verify.StatusUnmerged},
		"recorded, without signers": {recorded: true, exceptions: 1, want: verify.StatusUnproven},
		"recorded by a listed signer": {
			recorded: true, listed: true, signed: true, exceptions: 1,
			want: verify.StatusOK,
		},
		"recorded without a signature": {recorded: true, listed: true, want: verify.StatusUnmerged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := hydratetest.Demo(t)
			key, line := hydratetest.NewKey(t)
			if c.listed {
				r.SetSigners(line)
				r.Commit("signers")
				hydrateSigned(r, key)
			}
			r.Git("checkout", "-q", "-b", "feature")
			r.Write("apps/shop/layers/environment/dev/values.yaml", "replicas: 7\n")
			r.Commit("seven")
			feature := r.Resolve("feature")
			config := r.Hydrator(2).Config
			config.Signer = key
			// of this repository: any commit is written
			result, err := hydrate.New(config).Hydrate(t.Context(),
				hydrate.Request{Commit: feature, Write: true, Environments: []string{"dev"}})
			if err != nil || !result.OK() {
				t.Fatalf("the result is %+v, the error is %v", result, err)
			}
			if c.recorded {
				message := r.Git("log", "-1", "--format=%B", "env/dev")
				var signer gitstore.Signer
				if c.signed {
					signer = key
				}
				replace(r, "env/dev", strings.Replace(message, "Sluice-Version", "Sluice-Unmerged: "+
					r.Git("rev-parse", "main")+"\nSluice-Version", 1)+"\n", signer)
			}
			v := run(r, "dev")["dev"]
			if v.Status != c.want {
				t.Errorf("the value is %+v", v)
			}
			if strings.Join(v.Exceptions, " ") != strings.Repeat(feature.Hash.String(), c.exceptions) {
				t.Errorf("the value is %+v", v)
			}
			for _, word := range map[string][]string{
				verify.StatusUnmerged: {feature.Hash.String(), "trunk"},
				verify.StatusUnproven: {feature.Hash.String(), "spec.signers"},
			}[c.want] {
				if !strings.Contains(v.Reason, word) {
					t.Errorf("%q misses %q", v.Reason, word)
				}
			}
			if c.recorded && !c.signed && c.listed {
				return
			}
			// branches of this repository may come from what is checked out
			found, err := verify.Run(t.Context(), r.Hydrator(1), feature, []string{"dev"}, time.Now())
			if err != nil || found[0].Status != verify.StatusOK {
				t.Errorf("the found is %+v, the error is %v", found, err)
			}
		})
	}
}

func TestBranchesThatCannotBeVerified(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	text := r.Git("show", "env/dev:.sluice/environment.yaml")
	source := r.Git("rev-parse", "main")
	edit(r, "env/dev", ".sluice/environment.yaml", strings.Replace(text, source, strings.Repeat("1", 40), 1)+"\n")
	v := run(r, "dev")["dev"]
	if v.Status != verify.StatusFailed || !strings.Contains(v.Reason, strings.Repeat("1", 10)) {
		t.Errorf("the value is %+v", v)
	}
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	r := signed(t)
	list := func(environments ...string) map[string]verify.Signature {
		found, err := verify.Signatures(t.Context(), r.Hydrator(1), r.Resolve("main"), environments)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]verify.Signature{}
		for _, s := range found {
			out[s.Branch] = s
		}
		return out
	}
	found := list()
	if len(found) != 3+7 { // environments, clusters
		t.Errorf("the found is %+v", found)
	}
	for name, s := range found {
		if s.Signer != "sluice@example.com" || s.Commit != r.Git("rev-parse", name) {
			t.Errorf("the state is %+v", s)
		}
	}
	forged := r.Forge("cluster/prod-eu-1", "cluster/prod-eu-1")
	r.Git("update-ref", "refs/heads/"+rollout.StateBranch, r.Git("commit-tree", "-m", "forged", r.Pipe("", "mktree")))
	found = list("prod")
	if s := found["cluster/prod-eu-1"]; s.Signer != "" || s.Commit != forged || s.Reason == "" {
		t.Errorf("the state is %+v", s)
	}
	if s := found[rollout.StateBranch]; s.Signer != "" || s.Reason == "" || found["env/prod"].Signer == "" ||
		len(found) != 5 {
		t.Errorf("the found is %+v", found)
	}
}

func TestSignaturesNeedAListOfSigners(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	//nolint:errorlint // it is returned unwrapped
	if _, err := verify.Signatures(t.Context(), r.Hydrator(1), r.Resolve("main"), nil); err != verify.ErrNoSigners {
		t.Errorf("the error is %v", err)
	}
}

// A cluster that a freeze keeps at an earlier state is behind. Without a freeze the same cluster differs, and so does
// one whose tree its environment never had.
func TestClustersBehindAsPlanned(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	first := r.Git("rev-parse", "main")
	r.Write("apps/shop/layers/environment/dev/values.yaml", "replicas: 7\n")
	r.Commit("seven")
	r.Hydrate(nil)
	r.Git("update-ref", "refs/heads/cluster/dev-1", "cluster/dev-1~1")
	if v := run(r, "dev")["dev"]; v.Status != verify.StatusDiffers || len(v.Differences) == 0 {
		t.Errorf("without a freeze: %+v", v)
	}
	record := rollout.NewRecord("dev")
	record.Freezes = []rollout.Freeze{{Target: "dev-1", From: time.Now().Add(-time.Hour), Reason: "audit", By: "ana"}}
	data, err := record.Encode()
	if err != nil {
		t.Fatal(err)
	}
	blob := r.Pipe(string(data), "hash-object", "-w", "--stdin")
	folder := r.Pipe("100644 blob "+blob+"\tdev.yaml\n", "mktree")
	r.Git("update-ref", "refs/heads/"+rollout.StateBranch, r.Git("commit-tree", "-m", "record",
		r.Pipe("040000 tree "+folder+"\tenvironments\n", "mktree")))
	v := run(r, "dev")["dev"]
	if v.Status != verify.StatusBehind || verify.Tampered(v.Status) || len(v.Behind) != 1 || len(v.Differences) > 0 {
		t.Fatalf("the value is %+v", v)
	}
	if b := v.Behind[0]; b.Cluster != "dev-1" || b.Branch != "cluster/dev-1" ||
		!strings.HasPrefix(b.Source, first[:8]) || !strings.Contains(b.Reason, "audit") {
		t.Errorf("the content is %+v", b)
	}
	r.Git("update-ref", "refs/heads/cluster/dev-1", r.Git("commit-tree", "-p", "cluster/dev-1", "-m", "by hand",
		"cluster/dev-edge-1^{tree}"))
	if v := run(r, "dev")["dev"]; v.Status != verify.StatusDiffers {
		t.Errorf("a tree that dev never had: %+v", v)
	}
}
