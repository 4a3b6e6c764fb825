package gitstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func resolve(tb testing.TB, s *Store, rev string) Commit {
	tb.Helper()
	c, err := s.Resolve(tb.Context(), rev)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestIsAncestor(t *testing.T) {
	dir := source(t)
	for i := range 3 {
		runGit(t, dir, "commit", "-qm", fmt.Sprint(i), "--allow-empty")
	}
	runGit(t, dir, "checkout", "-qb", "side", "HEAD~2")
	runGit(t, dir, "commit", "-qm", "side", "--allow-empty")
	runGit(t, dir, "checkout", "-q", "--orphan", "other")
	runGit(t, dir, "commit", "-qm", "other", "--allow-empty")
	s := open(t, Options{Dir: dir})
	for _, c := range []struct {
		old, new string
		want     bool
	}{
		{"main~3", "main", true},
		{"main", "main", true},
		{"main", "main~1", false},
		{"main", "side", false},
		{"main~2", "side", true},
		{"other", "main", false},
	} {
		if got, err := s.IsAncestor(t.Context(), resolve(t, s, c.old).Hash, resolve(t, s, c.new).Hash); err != nil ||
			got != c.want {
			t.Errorf("the old is %s → the new is %s: the result of IsAncestor is %v, the error is %v", c.old, c.new,
				got, err)
		}
	}
	if _, err := s.MergeBase(t.Context(), resolve(t, s, "other").Hash, resolve(t, s, "main").Hash); !errors.Is(err,
		ErrNotFound) {
		t.Errorf("the error is %v", err)
	}
}

// Compares every pair of commits of a random history with wrong clocks with git merge-base. randomHistory makes a
// repository with commits that have at most a number of parents among the six commits before them. Commit i is the
// branch ci, and has a time in seconds. It returns the parents of each commit.
func randomHistory(t *testing.T, random *rand.Rand, commits, most int, at func(i int) int64) (*Store, []Hash,
	map[Hash][]Hash,
) {
	t.Helper()
	dir := t.TempDir()
	runGit(t, dir, "init", "-q", "--bare")
	s := open(t, Options{Dir: dir})
	w := writer(t, s)
	tree, err := w.Tree(nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []Hash
	var moves []Move
	parents := map[Hash][]Hash{}
	for i := range commits {
		var of []Hash
		for range min(i, 1+random.IntN(most)) {
			if p := all[max(0, i-1-random.IntN(6))]; !slices.Contains(of, p) {
				of = append(of, p)
			}
		}
		who := Signature{"S", "s@example.com", time.Unix(1_700_000_000+at(i), 0).UTC()}
		h, err := w.Commit(CommitSpec{Tree: tree, Parents: of, Author: who, Committer: who, Message: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		all, parents[h] = append(all, h), of
		moves = append(moves, Move{fmt.Sprint("c", i), Hash{}, h})
	}
	push(t, s.Local(), w, moves...)
	return s, all, parents
}

func TestHistoryEqualsGitsOwn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s, all, _ := randomHistory(t, random, 13, 2, func(i int) int64 { return int64(i*100) + random.Int64N(1000) })
	dir := s.dir
	for _, a := range all {
		for _, b := range all {
			want := strings.Fields(runGit(t, dir, "merge-base", "--all", a.String(), b.String()))
			got, err := s.MergeBase(t.Context(), a, b)
			if err != nil || !slices.Contains(want, got.String()) {
				t.Fatalf("merge base of %s and %s: %s %v, want one of %v", a, b, got, err, want)
			}
			again, err := s.MergeBase(t.Context(), b, a)
			if err != nil || again != got {
				t.Fatalf("the other way round it is %s %v", again, err)
			}
			ancestor, err := s.IsAncestor(t.Context(), a, b)
			if err != nil || ancestor != slices.Equal(want, []string{a.String()}) {
				t.Fatalf("%s before %s: %v %v", a, b, ancestor, err)
			}
		}
	}
}

func TestShallowHistoryIsDeepenedInAFewRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	for _, filter := range []string{"true", "false"} {
		t.Run("filter "+filter, func(t *testing.T) {
			origin := source(t)
			runGit(t, origin, "config", "uploadpack.allowFilter", filter)
			runGit(t, origin, "config", "uploadpack.allowAnySHA1InWant", "true")
			first := runGit(t, origin, "rev-parse", "HEAD")
			runGit(t, origin, "checkout", "-qb", "side")
			runGit(t, origin, "commit", "-qm", "side", "--allow-empty")
			runGit(t, origin, "checkout", "-q", "main")
			script := "for i in $(seq 300); do git commit -qm $i --allow-empty; done"
			runGit(t, origin, "-c", "alias.many=!"+script, "many")
			clone := filepath.Join(t.TempDir(), "c")
			runGit(t, origin, "clone", "-q", "--depth=1", "--no-single-branch", "file://"+origin, clone)
			before := runGit(t, clone, "count-objects", "-v")
			s := open(t, Options{Dir: clone})
			base, err := s.MergeBase(t.Context(), resolve(t, s, "main").Hash, resolve(t, s, "origin/side").Hash)
			if err != nil || base.String() != first {
				t.Fatalf("the base is %s, the error is %v, want %s", base, err, first)
			}
			packs, err := filepath.Glob(filepath.Join(clone, ".git", sideName, "objects", "pack", "*.pack"))
			if err != nil || len(packs) == 0 || len(packs) > 3 {
				t.Errorf("%d requests: %v", len(packs), err)
			}
			if after := runGit(t, clone, "count-objects", "-v"); after != before {
				t.Errorf("the user's objects were\n%s\nand are\n%s", before, after)
			}
			runGit(t, clone, "fsck", "--strict")
		})
	}
}

func TestShallowHistoryWithoutARemote(t *testing.T) {
	origin := source(t)
	first := runGit(t, origin, "rev-parse", "HEAD")
	runGit(t, origin, "commit", "-qm", "two", "--allow-empty")
	runGit(t, origin, "commit", "-qm", "three", "--allow-empty")
	clone := filepath.Join(t.TempDir(), "c")
	runGit(t, origin, "clone", "-q", "--depth=2", "file://"+origin, clone)
	runGit(t, clone, "remote", "remove", "origin")
	s := open(t, Options{Dir: clone})
	head := resolve(t, s, "HEAD")
	if ok, err := s.IsAncestor(t.Context(), head.Parents[0], head.Hash); err != nil || !ok {
		t.Errorf("what is here was not seen: %v %v", ok, err)
	}
	old, err := ParseHash(first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.IsAncestor(t.Context(), old, head.Hash); !errors.Is(err, ErrShallow) {
		t.Errorf("the error is %v", err)
	}
	if _, err := s.Resolve(t.Context(), "HEAD~2"); !errors.Is(err, ErrNotFound) ||
		!strings.Contains(err.Error(), "git fetch --unshallow") {
		t.Errorf("the error is %v", err)
	}
}

// In a shallow clone, the error names the command that completes the clone, whatever the server allows.
func TestServerThatGivesOnlyTips(t *testing.T) {
	origin := source(t)
	first, err := ParseHash(runGit(t, origin, "rev-parse", "HEAD"))
	if err != nil {
		t.Fatal(err)
	}
	runGit(t, origin, "commit", "-qm", "second", "--allow-empty")
	runGit(t, origin, "commit", "-qm", "third", "--allow-empty")
	clone := filepath.Join(t.TempDir(), "c")
	runGit(t, origin, "clone", "-q", "--depth=1", "file://"+origin, clone)
	s := open(t, Options{Dir: clone})
	_, err = s.IsAncestor(t.Context(), first, resolve(t, s, "HEAD").Hash)
	if !errors.Is(err, ErrShallow) || strings.Count(err.Error(), "git fetch --unshallow") != 1 ||
		strings.Contains(err.Error(), "--now") {
		t.Errorf("the error is %v", err)
	}
	if _, err := s.Commit(t.Context(), first); !errors.Is(err, ErrNotFound) ||
		strings.Count(err.Error(), "git fetch --unshallow") != 1 ||
		!strings.Contains(err.Error(), "the server gives only") {
		t.Errorf("the missing commit: %v", err)
	}
	runGit(t, clone, "fetch", "-q", "--unshallow")
	if ok, err := open(t, Options{Dir: clone}).IsAncestor(t.Context(), first, resolve(t, s, "HEAD").Hash); !ok ||
		err != nil {
		t.Errorf("after git fetch --unshallow: %v, %v", ok, err)
	}
}

// With equal dates, the walk reaches the end of the shallow history first. The merge base is the parent.
func TestMergeBaseOfParentAndChildInAShallowClone(t *testing.T) {
	origin := source(t)
	for _, name := range []string{"one", "two", "three"} { // runGit gives all commits the same date
		runGit(t, origin, "commit", "-qm", name, "--allow-empty")
	}
	clone := filepath.Join(t.TempDir(), "c")
	runGit(t, origin, "clone", "-q", "--depth=2", "file://"+origin, clone)
	s := open(t, Options{Dir: clone})
	child, parent := resolve(t, s, "HEAD").Hash, resolve(t, s, "HEAD~1").Hash
	for _, pair := range [][2]Hash{{child, parent}, {parent, child}} {
		if got, err := s.MergeBase(t.Context(), pair[0], pair[1]); err != nil || got != parent {
			t.Errorf("the result of MergeBase is %s, the error is %v; want %s", got, err, parent)
		}
	}
}

// An unknown remote names those that the repository has.
func TestUnknownRemoteNamesOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runGit(t, dir, "init", "-q")
	_, err := open(t, Options{Dir: dir}).Remote("origin", Auth{})
	if !errors.Is(err, ErrNoRemote) || !strings.Contains(err.Error(), "git remote add") {
		t.Errorf("without remotes: %v", err)
	}
	runGit(t, dir, "remote", "add", "upstream", "https://git.example.com/acme/fleet")
	runGit(t, dir, "remote", "add", "fork", "https://git.example.com/ada/fleet")
	_, err = open(t, Options{Dir: dir}).Remote("origin", Auth{})
	if !errors.Is(err, ErrNoRemote) || !strings.Contains(err.Error(),
		`no remote "origin" (it has fork, upstream: name one with --remote)`) {
		t.Errorf("with two others: %v", err)
	}
}
