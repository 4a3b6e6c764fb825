package gitstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestCheckedOutBranchIsLeftAlone(t *testing.T) {
	dir := source(t)
	s := open(t, Options{Dir: dir})
	w := writer(t, s)
	head, _ := s.Resolve(t.Context(), "main")
	got := push(t, s.Local(), w, Move{"main", head.Hash, commitOf(t, w, "x", head.Hash)})
	if got[0].State != Rejected || !strings.Contains(got[0].Reason, "checked out") {
		t.Errorf("the result of push is %+v", got)
	}
}

func TestLocalMovesRaceWithGit(t *testing.T) {
	bare := t.TempDir()
	runGit(t, bare, "init", "-q", "--bare")
	s := open(t, Options{Dir: bare})
	w := writer(t, s)
	base := commitOf(t, w, "base")
	push(t, s.Local(), w, Move{"env/dev", Hash{}, base})
	runGit(t, bare, "pack-refs", "--all")
	ours, theirs := 0, 0
	at := base
	for i := range 20 {
		w := writer(t, s)
		next := commitOf(t, w, fmt.Sprint("ours", i), at)
		human := runGit(t, bare, "commit-tree", "-p", at.String(), "-m", fmt.Sprint(i), at.String()+"^{tree}")
		var group sync.WaitGroup
		var results []MoveResult
		won := false
		group.Go(func() {
			results, _ = s.Local().Push(context.Background(), w, []Move{{"env/dev", at, next}}, PushOptions{})
		})
		group.Go(func() {
			//nolint:noctx // runs for a moment
			won = exec.Command("git", "-C", bare, "update-ref", "refs/heads/env/dev", human, at.String()).Run() == nil
		})
		group.Wait()
		updated := len(results) == 1 && results[0].State == Updated
		if updated == won {
			t.Fatalf("both or neither: ours %+v, theirs %v", results, won)
		}
		want := human
		if updated {
			ours++
			want = next.String()
		} else {
			theirs++
		}
		if got := runGit(t, bare, "rev-parse", "env/dev"); got != want {
			t.Fatalf("env/dev is at %s, want %s", got, want)
		}
		at, _ = ParseHash(want)
	}
	t.Logf("won %d, lost %d", ours, theirs)
}

func TestCheckedOutInALinkedWorkingTree(t *testing.T) {
	dir := source(t)
	linked := filepath.Join(t.TempDir(), "linked")
	runGit(t, dir, "worktree", "add", "-q", "-b", "env/dev", linked)
	for _, at := range []string{dir, linked, filepath.Join(dir, ".git")} {
		s := open(t, Options{Dir: at})
		w := writer(t, s)
		head := resolve(t, s, "refs/heads/main")
		next := commitOf(t, w, "x", head.Hash)
		got := push(t, s.Local(), w, Move{"main", head.Hash, next}, Move{"env/dev", head.Hash, next},
			Move{"env/free", Hash{}, next})
		if len(got) != 2 || got[0].State != Rejected || got[1].State != Rejected {
			t.Errorf("%s: the result of push is %+v", at, got)
		}
	}
}

func TestConflictingBranchNames(t *testing.T) {
	for _, pack := range []bool{false, true} {
		bare := t.TempDir()
		runGit(t, bare, "init", "-q", "--bare")
		s := open(t, Options{Dir: bare})
		w := writer(t, s)
		one := commitOf(t, w, "one")
		push(t, s.Local(), w, Move{"env/dev", Hash{}, one}, Move{"x/y/z", Hash{}, one})
		if pack {
			runGit(t, bare, "pack-refs", "--all")
		}
		for _, name := range []string{"env/dev/x", "env/dev/x/y", "x", "x/y"} {
			if got := push(t, s.Local(), w, Move{name, Hash{}, one}); got[0].State != Conflict ||
				!strings.Contains(got[0].Reason, "in the way") {
				t.Errorf("%s (packed %v): %+v", name, pack, got)
			}
		}
		push(t, s.Local(), w, Move{"x/y/z", one, Hash{}})
		if got := push(t, s.Local(), w, Move{"x/y", Hash{}, one}); got[0].State != Updated {
			t.Errorf("the result of push is %+v", got)
		}
		if got := runGit(t, bare, "for-each-ref", "--format=%(refname)"); got != "refs/heads/env/dev\nrefs/heads/x/y" {
			t.Errorf("there are %s", got)
		}
	}
}

func TestOddRefs(t *testing.T) {
	bare := t.TempDir()
	runGit(t, bare, "init", "-q", "--bare")
	s := open(t, Options{Dir: bare})
	w := writer(t, s)
	one := commitOf(t, w, "one")
	push(t, s.Local(), w, Move{"env/real", Hash{}, one})
	runGit(t, bare, "symbolic-ref", "refs/heads/env/link", "refs/heads/env/real")
	write(t, bare, "refs/heads/env/broken", "")
	write(t, bare, "refs/heads/env/held.lock", "")
	refs, err := s.Local().List(t.Context(), "env/")
	if err != nil || len(refs) != 1 || refs["env/real"] != one {
		t.Errorf("the refs are %v, the error is %v", refs, err)
	}
	for _, name := range []string{"env/link", "env/broken"} {
		if got, err := s.Local().Push(t.Context(), w, []Move{{name, Hash{}, one}}, PushOptions{}); err == nil {
			t.Errorf("%s: the result of Push is %+v", name, got)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got, err := s.Local().Push(ctx, w, []Move{{"env/held", Hash{}, one}}, PushOptions{}); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("the result of Push is %+v, the error is %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(bare, "refs", "heads", "env", "held.lock")); err != nil {
		t.Errorf("somebody's lock was removed: %v", err)
	}
}

// Moves branches while Git packs, deletes and creates refs.
func TestLocalMovesRaceWithPackRefs(t *testing.T) {
	bare := t.TempDir()
	runGit(t, bare, "init", "-q", "--bare")
	s := open(t, Options{Dir: bare})
	w := writer(t, s)
	at := commitOf(t, w, "base")
	other := commitOf(t, w, "other")
	push(t, s.Local(), w, Move{"env/dev", Hash{}, at}, Move{"env/other", Hash{}, other})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			_ = exec.Command("git", "-C", bare, "pack-refs", "--all").Run() //nolint:noctx // runs for a moment
		}
	})
	for i := range 30 {
		w := writer(t, s)
		next := commitOf(t, w, fmt.Sprint(i), at)
		temporary := Move{fmt.Sprint("env/temporary", i%2), Hash{}, next}
		moves := []Move{{"env/dev", at, next}, temporary}
		if i >= 2 {
			moves[1] = Move{
				fmt.Sprint("env/temporary", i%2), resolve(t, s, fmt.Sprint("env/temporary", i%2)).Hash,
				Hash{},
			}
		}
		if got := push(t, s.Local(), w, moves...); len(got) != 2 || got[0].State != Updated || got[1].State != Updated {
			t.Errorf("%d: the result of push is %+v", i, got)
			break
		}
		if i >= 2 {
			push(t, s.Local(), nil, temporary)
		}
		if have := runGit(t, bare, "rev-parse", "env/dev", "env/other", "env/temporary0"); !strings.HasPrefix(have,
			next.String()+"\n"+other.String()) {
			t.Errorf("%d: the have is %s", i, have)
		}
		at = next
	}
	cancel()
	group.Wait()
	runGit(t, bare, "fsck", "--strict")
}
