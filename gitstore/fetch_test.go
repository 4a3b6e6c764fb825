package gitstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore/internal/pack"
)

// generous configures a server to provide any object, and to support filters.
func generous(tb testing.TB, dir string) {
	tb.Helper()
	runGit(tb, dir, "config", "uploadpack.allowFilter", "true")
	runGit(tb, dir, "config", "uploadpack.allowAnySHA1InWant", "true")
}

func sidePacks(tb testing.TB, dir string) int {
	tb.Helper()
	packs, err := filepath.Glob(filepath.Join(dir, sideName, "objects", "pack", "*.pack"))
	if err != nil {
		tb.Fatal(err)
	}
	return len(packs)
}

func TestPartialClonesAreFilledByDirectory(t *testing.T) {
	origin := source(t)
	generous(t, origin)
	for i := range 100 {
		write(t, origin, fmt.Sprintf("many/%d", i), fmt.Sprint(i))
	}
	runGit(t, origin, "add", ".")
	runGit(t, origin, "commit", "-qm", "many")
	clone := filepath.Join(t.TempDir(), "c")
	runGit(t, origin, "clone", "-q", "--no-checkout", "--depth=1", "--filter=blob:none", "file://"+origin, clone)
	s := open(t, Options{Dir: clone})
	snap := s.Snapshot(t.Context(), resolve(t, s, "HEAD").Tree)
	for i := range 100 {
		if data, err := snap.ReadFile(fmt.Sprintf("many/%d", i)); err != nil || string(data) != fmt.Sprint(i) {
			t.Fatalf("%d: the data is %q, the error is %v", i, data, err)
		}
	}
	if n := sidePacks(t, filepath.Join(clone, ".git")); n != 1 {
		t.Errorf("%d requests", n)
	}
	// A second run finds the objects, and Git reports no damage.
	again := open(t, Options{Dir: clone})
	runGit(t, clone, "remote", "set-url", "origin", "/nowhere")
	if _, err := again.Snapshot(t.Context(), resolve(t, again, "HEAD").Tree).ReadFile("many/7"); err != nil {
		t.Error(err)
	}
	runGit(t, clone, "fsck", "--strict")
}

func TestServerWithoutMissingObjects(t *testing.T) {
	origin := source(t)
	runGit(t, origin, "config", "uploadpack.allowFilter", "true")
	clone := filepath.Join(t.TempDir(), "c")
	runGit(t, origin, "clone", "-q", "--no-checkout", "--depth=1", "--filter=blob:none", "file://"+origin, clone)
	s := open(t, Options{Dir: clone})
	_, err := s.Snapshot(t.Context(), resolve(t, s, "HEAD").Tree).ReadFile("a.txt")
	blob := runGit(t, origin, "rev-parse", "HEAD:a.txt")
	for _, want := range []string{blob, "git fetch", "uploadpack.allowReachableSHA1InWant"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
	if !errors.Is(err, ErrNotFound) {
		t.Error("it is not ErrNotFound")
	}
}

func TestMirrorFetchesARevision(t *testing.T) {
	origin := source(t)
	runGit(t, origin, "tag", "-a", "-m", "x", "v1")
	want := runGit(t, origin, "rev-parse", "HEAD")
	for _, rev := range []string{"HEAD", "main", "v1", "refs/heads/main", want} {
		s := open(t, Options{URL: "file://" + origin})
		c, err := s.FetchRevision(t.Context(), rev)
		if err != nil || c.Hash.String() != want {
			t.Errorf("%s: the hash is %v, the error is %v", rev, c.Hash, err)
		}
		if _, err := s.Snapshot(t.Context(), c.Tree).ReadFile("dir/b.txt"); err != nil {
			t.Error(err)
		}
	}
	s := open(t, Options{URL: "file://" + origin})
	for _, rev := range []string{"nope", "../../etc", strings.Repeat("1", 40)} {
		if _, err := s.FetchRevision(t.Context(), rev); err == nil {
			t.Errorf("%s was found", rev)
		}
	}
	if _, err := s.FetchRevision(t.Context(), "nope"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the error is %v", err)
	}
	if dir := s.dir; s.Close() != nil || isFolder(dir) {
		t.Error("the temporary mirror is still there")
	}
}

func TestMirrorFetchesOnlyNewObjects(t *testing.T) {
	for _, kind := range []string{"generous", "plain"} {
		t.Run(kind, func(t *testing.T) {
			origin := source(t)
			if kind == "generous" {
				generous(t, origin)
			}
			write(t, origin, "noise", noise())
			runGit(t, origin, "add", ".")
			runGit(t, origin, "commit", "-qm", "noise")
			cacheDir := t.TempDir()
			first, err := ParseHash(runGit(t, origin, "rev-parse", "HEAD"))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				write(t, origin, "dir/b.txt", fmt.Sprint(i))
				runGit(t, origin, "commit", "-qam", fmt.Sprint(i))
				s := open(t, Options{URL: "file://" + origin, CacheDir: cacheDir})
				readMirror(t, s, fmt.Sprint(i))
				if kind == "plain" {
					continue
				}
				if ok, err := s.IsAncestor(t.Context(), first, resolve(t, s, newest).Hash); err != nil || !ok {
					t.Fatalf("ok is %v, the error is %v", ok, err)
				}
			}
			if n := largePacks(t, cacheDir); n != 1 {
				t.Errorf("%d packs hold the large file", n)
			}
		})
	}
}

// noise returns an incompressible file that makes a pack large.
func noise() string {
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 1<<18)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return string(data)
}

func readMirror(t *testing.T, s *Store, want string) {
	t.Helper()
	c, err := s.FetchRevision(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	snap := s.Snapshot(t.Context(), c.Tree)
	if data, err := snap.ReadFile("dir/b.txt"); err != nil || string(data) != want {
		t.Fatalf("the data is %q, the error is %v", data, err)
	}
	if data, err := snap.ReadFile("noise"); err != nil || string(data) != noise() {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
}

func largePacks(t *testing.T, cacheDir string) int {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(cacheDir, "*", "objects", "pack", "*.pack"))
	if err != nil || len(packs) < 3 {
		t.Fatalf("the packs are %v, the error is %v", packs, err)
	}
	large := 0
	for _, pack := range packs {
		if info, err := os.Stat(pack); err == nil && info.Size() > 1<<17 {
			large++
		}
	}
	return large
}

func TestMirrorOfAPlainServerFindsAnOldCommit(t *testing.T) {
	origin := source(t)
	first := runGit(t, origin, "rev-parse", "HEAD")
	runGit(t, origin, "commit", "-qm", "two", "--allow-empty")
	s := open(t, Options{URL: "file://" + origin})
	if c, err := s.FetchRevision(t.Context(), first); err != nil || c.Hash.String() != first {
		t.Errorf("the hash is %v, the error is %v", c.Hash, err)
	}
}

func TestBranchesOfAnotherRepository(t *testing.T) {
	root := t.TempDir()
	bare := filepath.Join(root, "r.git")
	runGit(t, root, "init", "-q", "--bare", bare)
	generous(t, bare)
	s := open(t, Options{Dir: source(t)})
	b, err := s.Remote(bare, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, s)
	one := commitOf(t, w, "one")
	two := commitOf(t, w, "two", one)
	push(t, b, w, Move{"env/dev", Hash{}, two})
	for range 2 { // the pusher has the objects already; a fresh clone fetches them without history
		fresh := open(t, Options{Dir: source(t)})
		place, err := fresh.Remote(bare, Auth{})
		if err != nil {
			t.Fatal(err)
		}
		if err := place.Fetch(t.Context(), two); err != nil {
			t.Fatal(err)
		}
		c, err := fresh.Commit(t.Context(), two)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := fresh.Snapshot(t.Context(), c.Tree).ReadFile("f"); err != nil || string(data) != "two" {
			t.Errorf("the data is %q, the error is %v", data, err)
		}
		if fresh.Has(one) {
			t.Error("the history came too")
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !s.Has(two) {
		t.Error("what was pushed is not here")
	}
}

func TestReadOnlyRepository(t *testing.T) {
	origin := source(t)
	generous(t, origin)
	clone := filepath.Join(t.TempDir(), "c")
	runGit(t, origin, "clone", "-q", "--no-checkout", "--filter=blob:none", "file://"+origin, clone)
	// even root cannot write here
	if err := os.WriteFile(filepath.Join(clone, ".git", sideName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Dir: clone})
	if _, err := s.Snapshot(t.Context(), resolve(t, s, "HEAD").Tree).ReadFile("a.txt"); err != nil {
		t.Error(err)
	}
	temp := s.side.Dir()
	if err := s.Close(); err != nil || isFolder(temp) {
		t.Errorf("%s is still there: %v", temp, err)
	}
}

// The default branch and the trunk that its commit names come from one listing of refs. The trunk is listed again only
// if it is another branch whose commit must be fetched.
func TestTrunkFromOneListing(t *testing.T) {
	t.Parallel()
	origin := source(t)
	runGit(t, origin, "branch", "same")
	runGit(t, origin, "checkout", "-q", "-b", "other")
	write(t, origin, "a.txt", "another trunk")
	runGit(t, origin, "commit", "-qam", "another trunk")
	runGit(t, origin, "checkout", "-q", "main")
	main, other := runGit(t, origin, "rev-parse", "main"), runGit(t, origin, "rev-parse", "other")
	server := backend(t, filepath.Dir(origin), "", "")
	listed := countListings(server)
	s := open(t, Options{URL: server.URL + "/" + filepath.Base(origin) + "/.git"})
	for _, c := range []struct {
		trunk, want string
		listings    int64
	}{
		{"", main, 1},
		{"main", main, 1},
		{"same", main, 1},
		{"gone", main, 1},
		{"other", other, 2},
		{"other", other, 1},
		{"HEAD", main, 1},
	} {
		listed.Store(0)
		tip, err := FetchTrunk(t.Context(), s, func(_ context.Context, head Commit) string {
			if head.Hash.String() != main {
				t.Errorf("HEAD is %s", head.Hash)
			}
			return c.trunk
		})
		if err != nil || tip.Hash.String() != c.want || listed.Load() != c.listings {
			t.Errorf("%q: %s after %d listings, %v; expected %s after %d", c.trunk, tip.Hash, listed.Load(), err,
				c.want, c.listings)
		}
	}
}

// Each fetch of a mirror adds a pack, and opening the mirror merges the small ones. Both a new reader and one that
// has the mirror open still find every object, and git fsck reports nothing.
func TestManyFetchesLeaveFewPacks(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	origin, dir := source(t), t.TempDir()
	generous(t, origin)
	runGit(t, origin, "tag", "-a", "-m", "a tag", "v1")
	mirror := func() *Store { return open(t, Options{URL: "file://" + origin, CacheDir: dir}) }
	first := mirror()
	if _, err := first.FetchRevision(t.Context(), "v1"); err != nil {
		t.Fatal(err)
	}
	known := map[Hash]bool{}
	most, s := 0, first
	for i := range 3 * pack.ManySmall {
		write(t, origin, "a.txt", fmt.Sprint("change ", i))
		runGit(t, origin, "commit", "-qam", fmt.Sprint("change ", i))
		s = mirror()
		c, err := s.FetchRevision(t.Context(), "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		known[c.Hash], known[c.Tree] = true, true
		packs, err := filepath.Glob(filepath.Join(s.dir, "objects", "pack", "*.idx"))
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(packs))
	}
	if most > pack.ManySmall || most < 2 {
		t.Errorf("there were up to %d packs", most)
	}
	runGit(t, s.dir, "fsck", "--connectivity-only")
	runGit(t, origin, "update-ref", "-d", "refs/heads/main") // nothing can be fetched again
	for h := range known {
		for name, at := range map[string]*Store{"the first": first, "the last": s} {
			if _, err := at.readLocal(h); err != nil {
				t.Errorf("%s does not have %s: %v", name, h, err)
			}
		}
	}
	tag, err := ParseHash(strings.TrimSpace(runGit(t, origin, "rev-parse", "refs/tags/v1")))
	if err != nil {
		t.Fatal(err)
	}
	if o, err := s.readLocal(tag); err != nil || o.Kind != "tag" {
		t.Errorf("the tag: %q, %v", o.Kind, err)
	}
}
