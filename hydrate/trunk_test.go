package hydrate_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// remote is a clone whose output goes to branches of its remote or of another repository.
type remote struct {
	*hydratetest.Repo
	bare   *hydratetest.Repo
	output string // another repository for the branches; "" for the remote
}

func withRemote(t *testing.T) *remote {
	t.Helper()
	r := hydratetest.Demo(t)
	bare := filepath.Join(t.TempDir(), "bare.git")
	r.Git("clone", "-q", "--bare", r.Dir, bare)
	r.Git("remote", "add", "origin", "file://"+bare)
	return &remote{Repo: r, bare: &hydratetest.Repo{T: t, Dir: bare}}
}

// push hydrates a revision to dev.
func (r *remote) push(revision string, change func(*hydrate.Config, *hydrate.Request)) hydrate.EnvironmentResult {
	r.T.Helper()
	h := r.Hydrator(2)
	c, err := h.Store.Resolve(r.T.Context(), revision)
	if err != nil {
		r.T.Fatal(err)
	}
	config := h.Config
	if config.Source, err = h.Store.Remote("origin", gitstore.Auth{}); err != nil {
		r.T.Fatal(err)
	}
	config.Branches = config.Source
	if r.output != "" {
		if config.Branches, err = h.Store.Remote(r.output, gitstore.Auth{}); err != nil {
			r.T.Fatal(err)
		}
	}
	request := hydrate.Request{Commit: c, Write: true, Environments: []string{"dev"}}
	if change != nil {
		change(&config, &request)
	}
	result, err := hydrate.New(config).Hydrate(r.T.Context(), request)
	if err != nil {
		r.T.Fatal(err)
	}
	return result.Environments[0]
}

func allowUnmerged(_ *hydrate.Config, q *hydrate.Request) { q.AllowUnmerged = []string{"dev"} }

func overwrite(_ *hydrate.Config, q *hydrate.Request) { q.Overwrite = true }

// feature commits a change on a new branch.
func (r *remote) feature() {
	r.T.Helper()
	r.Git("checkout", "-q", "-b", "feature")
	r.Write("apps/shop/layers/environment/dev/values.yaml", "replicas: 7\n")
	r.Commit("seven")
}

func wantStatus(t *testing.T, got hydrate.EnvironmentResult, status hydrate.Status, reason string) {
	t.Helper()
	if got.Status != status || !strings.Contains(got.Reason, reason) {
		t.Errorf("got %s %q, want %s %q", got.Status, got.Reason, status, reason)
	}
}

func TestUnmergedCommitsAreRefused(t *testing.T) {
	t.Parallel()
	r := withRemote(t)
	wantStatus(t, r.push("main", nil), hydrate.StatusUpdated, "")
	tip := r.bare.Git("rev-parse", "env/dev", "cluster/dev-1")
	r.feature()
	wantStatus(t, r.push("feature", nil), hydrate.StatusRefused, "--allow-unmerged dev")
	r.Git("push", "-q", "origin", "feature")
	wantStatus(t, r.push("feature", nil), hydrate.StatusRefused, "is not on the trunk main of ")
	r.Git("checkout", "-q", "main")
	r.Git("merge", "-q", "--no-ff", "--no-edit", "feature")
	wantStatus(t, r.push("main", nil), hydrate.StatusRefused, "is not on the trunk") // merged here but not pushed
	if now := r.bare.Git("rev-parse", "env/dev", "cluster/dev-1"); now != tip {
		t.Errorf("branches moved: %s", now)
	}
	r.Git("push", "-q", "origin", "main")
	wantStatus(t, r.push("main", nil), hydrate.StatusUpdated, "")
	wantStatus(t, r.push("feature", nil), hydrate.StatusSuperseded, "newer commit")
}

func TestUnmergedExceptionEndsWithTheNextCommitOfTheTrunk(t *testing.T) {
	t.Parallel()
	r := withRemote(t)
	r.push("main", nil)
	r.feature()
	e := r.push("feature", allowUnmerged)
	wantStatus(t, e, hydrate.StatusUpdated, "")
	if len(e.Exceptions) != 1 {
		t.Errorf("exceptions: %q", e.Exceptions)
	}
	trunk := r.Git("rev-parse", "main")
	for _, name := range []string{"env/dev", "cluster/dev-1"} {
		if got := r.bare.Git("log", "-1", "--format=%(trailers:key=Sluice-Unmerged,valueonly)", name); got != trunk {
			t.Errorf("%s: Sluice-Unmerged is %q, want %s", name, got, trunk)
		}
	}
	exception := r.bare.Git("rev-parse", "env/dev")
	wantStatus(t, r.push("main", nil), hydrate.StatusSuperseded, "runs the unmerged commit")
	if r.bare.Git("rev-parse", "env/dev") != exception {
		t.Error("the same trunk commit ended the exception")
	}
	r.Git("checkout", "-q", "main")
	r.Write("README.md", "x\n")
	r.Commit("next")
	r.Git("push", "-q", "origin", "main")
	wantStatus(t, r.push("main", nil), hydrate.StatusUpdated, "")
	if got := r.bare.Git("log", "-1", "--format=%(trailers:key=Sluice-Unmerged,valueonly)", "env/dev"); got != "" {
		t.Errorf("the trunk's commit has the exception's trailer %q", got)
	}
	if got := r.bare.Git("show", "cluster/dev-1:shop/deployment-shop.yaml"); strings.Contains(got, "replicas: 7") {
		t.Error("the unmerged change is still there")
	}
	wantStatus(t, r.push("main~1", nil), hydrate.StatusSuperseded, "newer commit")
}

func TestUnknownSourceCommitNamesTheNextStep(t *testing.T) {
	t.Parallel()
	r := withRemote(t)
	unchecked := func(c *hydrate.Config, _ *hydrate.Request) { c.Source = nil }
	r.push("main", nil)
	r.feature()
	wantStatus(t, r.push("feature", unchecked), hydrate.StatusUpdated, "")
	wantStatus(t, r.push("main", nil), hydrate.StatusRefused, "--overwrite-foreign")

	clone := &remote{Repo: &hydratetest.Repo{T: t, Dir: filepath.Join(t.TempDir(), "clone")}, bare: r.bare}
	r.Git("clone", "-q", "file://"+r.bare.Dir, clone.Dir) // lacks the commit, and is not shallow
	e := clone.push("main", nil)
	wantStatus(t, e, hydrate.StatusRefused, "neither this clone nor file://")
	if strings.Contains(e.Reason, "unshallow") {
		t.Errorf("a full clone is told to unshallow: %s", e.Reason)
	}
	wantStatus(t, clone.push("main", overwrite), hydrate.StatusUpdated, "")
	wantStatus(t, clone.push("main", nil), hydrate.StatusUnchanged, "")
}

func TestMergedCommitsOfShallowAndDetachedClones(t *testing.T) {
	t.Parallel()
	r := withRemote(t)
	for _, message := range []string{"two", "three", "four"} {
		r.Write("README.md", message+"\n")
		r.Commit(message)
	}
	r.Git("push", "-q", "origin", "main")
	clone := &remote{Repo: &hydratetest.Repo{T: t, Dir: filepath.Join(t.TempDir(), "clone")}, bare: r.bare}
	r.Git("clone", "-q", "--depth", "1", "file://"+r.bare.Dir, clone.Dir)
	clone.Git("fetch", "-q", "--depth", "1", "origin", r.Git("rev-parse", "main~1"))
	clone.Git("checkout", "-q", "--detach", "FETCH_HEAD")
	wantStatus(t, clone.push("HEAD", nil), hydrate.StatusUpdated, "")
	wantStatus(t, clone.push("origin/main", nil), hydrate.StatusUpdated, "")
	wantStatus(t, clone.push("HEAD", nil), hydrate.StatusSuperseded, "newer commit")
}

func TestTrunkThatTheRemoteDoesNotHave(t *testing.T) {
	t.Parallel()
	r := withRemote(t)
	r.bare.Git("branch", "-q", "-m", "main", "master")
	wantStatus(t, r.push("main", nil), hydrate.StatusRefused, "has no branch main, which spec.trunk names")
}

// An unmerged commit must not declare its own branch as the trunk.
func TestUnmergedCommitThatNamesItsOwnTrunk(t *testing.T) {
	t.Parallel()
	r := withRemote(t)
	r.push("main", nil)
	r.Git("checkout", "-q", "-b", "feature")
	r.Write("sluice.yaml", strings.Replace(r.Read("sluice.yaml"), "trunk: main", "trunk: feature", 1))
	r.Commit("my own trunk")
	r.Git("push", "-q", "origin", "feature")
	wantStatus(t, r.push("feature", nil), hydrate.StatusRefused, "is not on the trunk main of ")
	r.bare.Git("branch", "-q", "-D", "main") // the trunk was renamed
	wantStatus(t, r.push("feature", nil), hydrate.StatusUpdated, "")
}

func TestTrunkIsThatOfTheSourceRepository(t *testing.T) {
	t.Parallel()
	r := withRemote(t)
	other := hydratetest.New(t)
	r.output = "file://" + other.Dir
	wantStatus(t, r.push("main", nil), hydrate.StatusUpdated, "")
	r.feature()
	wantStatus(t, r.push("feature", nil), hydrate.StatusRefused, "is not on the trunk main of file://"+r.bare.Dir)
}
