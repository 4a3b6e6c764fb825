package gitstore

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Compares every pair of commits of a random history with merges with git rev-list.
func TestBetweenEqualsGitsOwn(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	// two commits in one second
	s, all, parents := randomHistory(t, random, 20, 3, func(i int) int64 { return int64(i / 2) })
	before := ancestry(all, parents)
	for i, from := range all {
		for j, to := range all {
			var want []string
			for _, h := range all {
				if before[to][h] && !before[from][h] {
					want = append(want, h.String())
				}
			}
			slices.Sort(want)
			if i == 3 && j >= 18 { // the table above is right
				if git := strings.Fields(runGit(t, s.dir, "rev-list", to.String(), "^"+
					from.String())); len(git) != len(want) {
					t.Fatalf("git lists %v, want %v", git, want)
				}
			}
			list, err := s.Between(t.Context(), from, to, len(all))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.IsSortedFunc(list, func(a, b Commit) int { return b.Committer.When.Compare(a.Committer.When) }) {
				t.Fatalf("not the newest first: %v", list)
			}
			var got []string
			for _, c := range list {
				got = append(got, c.Hash.String())
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("from c%d to c%d: %v, want %v", i, j, got, want)
			}
		}
	}
}

// ancestry returns each commit with its ancestors, from a list with parents before children.
func ancestry(all []Hash, parents map[Hash][]Hash) map[Hash]map[Hash]bool {
	out := map[Hash]map[Hash]bool{}
	for _, h := range all {
		out[h] = map[Hash]bool{h: true}
		for _, p := range parents[h] {
			maps.Copy(out[h], out[p])
		}
	}
	return out
}

func TestLimitOfBetween(t *testing.T) {
	t.Parallel()
	dir := source(t)
	for i := range 3 {
		runGit(t, dir, "commit", "-qm", fmt.Sprint(i), "--allow-empty")
	}
	s := open(t, Options{Dir: dir})
	from, to := resolve(t, s, "main~3").Hash, resolve(t, s, "main").Hash
	if got, err := s.Between(t.Context(), from, to, 3); err != nil || len(got) != 3 || got[0].Hash.IsZero() {
		t.Errorf("the result of Between is %v, the error is %v", got, err)
	}
	if got, err := s.Between(t.Context(), from, to, 2); !errors.Is(err, ErrTooManyCommits) || got != nil ||
		!strings.Contains(err.Error(), "more than 2 between") {
		t.Errorf("the result of Between is %v, the error is %v", got, err)
	}
	for _, pair := range [][2]Hash{{to, to}, {to, from}} {
		if got, err := s.Between(t.Context(), pair[0], pair[1], 0); err != nil || len(got) != 0 {
			t.Errorf("from %s to %s: %v %v", pair[0].Short(), pair[1].Short(), got, err)
		}
	}
	missing := Hash{1}
	for _, pair := range [][2]Hash{{missing, to}, {to, missing}} {
		if got, err := s.Between(t.Context(), pair[0], pair[1], 9); err == nil {
			t.Errorf("from %s to %s, of which one is missing: %v", pair[0].Short(), pair[1].Short(), got)
		}
	}
}

// A part of the commits is never given for all of them: a shallow clone gets the others, or the answer is an error.
func TestBetweenInAShallowClone(t *testing.T) {
	t.Parallel()
	origin := source(t)
	runGit(t, origin, "config", "uploadpack.allowAnySHA1InWant", "true")
	first, err := ParseHash(runGit(t, origin, "rev-parse", "HEAD"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		runGit(t, origin, "commit", "-qm", fmt.Sprint(i), "--allow-empty")
	}
	for _, alone := range []bool{false, true} {
		clone := filepath.Join(t.TempDir(), "c")
		runGit(t, origin, "clone", "-q", "--depth=2", "file://"+origin, clone)
		if alone {
			runGit(t, clone, "remote", "remove", "origin")
		}
		s := open(t, Options{Dir: clone})
		got, err := s.Between(t.Context(), first, resolve(t, s, "HEAD").Hash, 9)
		if alone && (!errors.Is(err, ErrShallow) || got != nil) {
			t.Errorf("without a remote: %v %v", got, err)
		}
		if !alone && (err != nil || len(got) != 4) {
			t.Errorf("with a remote: %v %v", got, err)
		}
	}
}

// The first-parent line leaves out what merges brought, and a shallow clone gets the rest or says that it is
// incomplete.
func TestFirstParents(t *testing.T) {
	t.Parallel()
	origin := source(t)
	runGit(t, origin, "config", "uploadpack.allowAnySHA1InWant", "true")
	runGit(t, origin, "switch", "-qc", "side")
	runGit(t, origin, "commit", "-qm", "side", "--allow-empty")
	runGit(t, origin, "switch", "-q", "main")
	for i := range 3 {
		runGit(t, origin, "commit", "-qm", fmt.Sprint(i), "--allow-empty")
	}
	runGit(t, origin, "merge", "-q", "--no-ff", "-m", "merge", "side")
	want := strings.Fields(runGit(t, origin, "rev-list", "--first-parent", "-n", "4", "HEAD"))
	for _, alone := range []bool{false, true} {
		clone := filepath.Join(t.TempDir(), "c")
		runGit(t, origin, "clone", "-q", "--depth=2", "file://"+origin, clone)
		if alone {
			runGit(t, clone, "remote", "remove", "origin")
		}
		s := open(t, Options{Dir: clone})
		line, err := s.FirstParents(t.Context(), resolve(t, s, "HEAD").Hash, 4)
		var got []string
		for _, c := range line {
			got = append(got, c.Hash.String())
		}
		switch {
		case alone && (!errors.Is(err, ErrShallow) || !slices.Equal(got, want[:2])):
			t.Errorf("without a remote: got %v, %v, want the two commits that are there and ErrShallow", got, err)
		case !alone && (err != nil || !slices.Equal(got, want)):
			t.Errorf("with a remote: got %v, %v, want %v", got, err, want)
		}
	}
}
