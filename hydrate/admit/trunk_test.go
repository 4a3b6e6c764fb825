package admit_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

func overwrite(_ *hydrate.Config, q *hydrate.Request) { q.Overwrite = true }

func TestUnmergedCommitsAreRefused(t *testing.T) {
	t.Parallel()
	r := hydratetest.NewRemote(t)
	hydratetest.WantStatus(t, r.Push("main", nil), hydrate.StatusUpdated, "")
	tip := r.Bare.Git("rev-parse", "env/dev", "cluster/dev-1")
	r.Feature()
	hydratetest.WantStatus(t, r.Push("feature", nil), hydrate.StatusRefused, "--allow-unmerged dev")
	r.Git("push", "-q", "origin", "feature")
	hydratetest.WantStatus(t, r.Push("feature", nil), hydrate.StatusRefused, "is not on the trunk main of ")
	r.Git("checkout", "-q", "main")
	r.Git("merge", "-q", "--no-ff", "--no-edit", "feature")
	// merged here but not pushed
	hydratetest.WantStatus(t, r.Push("main", nil), hydrate.StatusRefused, "is not on the trunk")
	if now := r.Bare.Git("rev-parse", "env/dev", "cluster/dev-1"); now != tip {
		t.Errorf("branches moved: %s", now)
	}
	r.Git("push", "-q", "origin", "main")
	hydratetest.WantStatus(t, r.Push("main", nil), hydrate.StatusUpdated, "")
	hydratetest.WantStatus(t, r.Push("feature", nil), hydrate.StatusSuperseded, "newer commit")
}

func TestUnmergedExceptionEndsWithTheNextCommitOfTheTrunk(t *testing.T) {
	t.Parallel()
	r := hydratetest.NewRemote(t)
	r.Push("main", nil)
	r.Feature()
	e := r.Push("feature", hydratetest.AllowUnmerged)
	hydratetest.WantStatus(t, e, hydrate.StatusUpdated, "")
	if len(e.Exceptions) != 1 {
		t.Errorf("exceptions: %q", e.Exceptions)
	}
	trunk := r.Git("rev-parse", "main")
	for _, name := range []string{"env/dev", "cluster/dev-1"} {
		if got := r.Bare.Git("log", "-1", "--format=%(trailers:key=Sluice-Unmerged,valueonly)", name); got != trunk {
			t.Errorf("%s: Sluice-Unmerged is %q, want %s", name, got, trunk)
		}
	}
	exception := r.Bare.Git("rev-parse", "env/dev")
	hydratetest.WantStatus(t, r.Push("main", nil), hydrate.StatusSuperseded, "runs the unmerged commit")
	if r.Bare.Git("rev-parse", "env/dev") != exception {
		t.Error("the same trunk commit ended the exception")
	}
	r.Git("checkout", "-q", "main")
	r.Write("README.md", "x\n")
	r.Commit("next")
	r.Git("push", "-q", "origin", "main")
	hydratetest.WantStatus(t, r.Push("main", nil), hydrate.StatusUpdated, "")
	if got := r.Bare.Git("log", "-1", "--format=%(trailers:key=Sluice-Unmerged,valueonly)", "env/dev"); got != "" {
		t.Errorf("the trunk's commit has the exception's trailer %q", got)
	}
	if got := r.Bare.Git("show", "cluster/dev-1:shop/deployment-shop.yaml"); strings.Contains(got, "replicas: 7") {
		t.Error("the unmerged change is still there")
	}
	hydratetest.WantStatus(t, r.Push("main~1", nil), hydrate.StatusSuperseded, "newer commit")
}

func TestUnknownSourceCommitNamesTheNextStep(t *testing.T) {
	t.Parallel()
	r := hydratetest.NewRemote(t)
	unchecked := func(c *hydrate.Config, _ *hydrate.Request) { c.Source = nil }
	r.Push("main", nil)
	r.Feature()
	hydratetest.WantStatus(t, r.Push("feature", unchecked), hydrate.StatusUpdated, "")
	hydratetest.WantStatus(t, r.Push("main", nil), hydrate.StatusRefused, "--overwrite-foreign")

	clone := &hydratetest.Remote{Repo: &hydratetest.Repo{T: t, Dir: filepath.Join(t.TempDir(), "clone")}, Bare: r.Bare}
	r.Git("clone", "-q", "file://"+r.Bare.Dir, clone.Dir) // lacks the commit, and is not shallow
	e := clone.Push("main", nil)
	hydratetest.WantStatus(t, e, hydrate.StatusRefused, "neither this clone nor file://")
	if strings.Contains(e.Reason, "unshallow") {
		t.Errorf("a full clone is told to unshallow: %s", e.Reason)
	}
	hydratetest.WantStatus(t, clone.Push("main", overwrite), hydrate.StatusUpdated, "")
	hydratetest.WantStatus(t, clone.Push("main", nil), hydrate.StatusUnchanged, "")
}

func TestMergedCommitsOfShallowAndDetachedClones(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	t.Parallel()
	r := hydratetest.NewRemote(t)
	for _, message := range []string{"two", "three", "four"} {
		r.Write("README.md", message+"\n")
		r.Commit(message)
	}
	r.Git("push", "-q", "origin", "main")
	clone := &hydratetest.Remote{Repo: &hydratetest.Repo{T: t, Dir: filepath.Join(t.TempDir(), "clone")}, Bare: r.Bare}
	r.Git("clone", "-q", "--depth", "1", "file://"+r.Bare.Dir, clone.Dir)
	clone.Git("fetch", "-q", "--depth", "1", "origin", r.Git("rev-parse", "main~1"))
	clone.Git("checkout", "-q", "--detach", "FETCH_HEAD")
	hydratetest.WantStatus(t, clone.Push("HEAD", nil), hydrate.StatusUpdated, "")
	hydratetest.WantStatus(t, clone.Push("origin/main", nil), hydrate.StatusUpdated, "")
	hydratetest.WantStatus(t, clone.Push("HEAD", nil), hydrate.StatusSuperseded, "newer commit")
}

func TestTrunkThatTheRemoteDoesNotHave(t *testing.T) {
	t.Parallel()
	r := hydratetest.NewRemote(t)
	r.Bare.Git("branch", "-q", "-m", "main", "master")
	hydratetest.WantStatus(t, r.Push("main", nil), hydrate.StatusRefused, "has no branch main, the trunk (write spec.trunk: master in sluice.yaml, which is main where it is not set)")
}

// An unmerged commit must not declare its own branch as the trunk.
func TestUnmergedCommitThatNamesItsOwnTrunk(t *testing.T) {
	t.Parallel()
	r := hydratetest.NewRemote(t)
	r.Push("main", nil)
	r.Git("checkout", "-q", "-b", "feature")
	r.Write("sluice.yaml", strings.Replace(r.Read("sluice.yaml"), "trunk: main", "trunk: feature", 1))
	r.Commit("my own trunk")
	r.Git("push", "-q", "origin", "feature")
	hydratetest.WantStatus(t, r.Push("feature", nil), hydrate.StatusRefused, "is not on the trunk main of ")
	r.Bare.Git("branch", "-q", "-D", "main") // the trunk was renamed
	hydratetest.WantStatus(t, r.Push("feature", nil), hydrate.StatusUpdated, "")
}

func TestTrunkIsThatOfTheSourceRepository(t *testing.T) {
	t.Parallel()
	r := hydratetest.NewRemote(t)
	other := hydratetest.New(t)
	r.Output = "file://" + other.Dir
	hydratetest.WantStatus(t, r.Push("main", nil), hydrate.StatusUpdated, "")
	r.Feature()
	hydratetest.WantStatus(t, r.Push("feature", nil), hydrate.StatusRefused, "is not on the trunk main of file://"+
		r.Bare.Dir)
}
