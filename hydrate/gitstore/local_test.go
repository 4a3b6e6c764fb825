package gitstore

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

func TestCheckedOutBranchIsLeftAlone(t *testing.T) {
	dir := source(t)
	s := open(t, Options{Dir: dir})
	w := writer(t, s)
	head, _ := s.Resolve(t.Context(), "main")
	got := push(t, s.Local(), w, Move{"main", head.Hash, commitOf(t, w, "x", head.Hash)})
	if got[0].State != Rejected || !strings.Contains(got[0].Reason, "checked out") {
		t.Errorf("%+v", got)
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
			won = exec.Command("git", "-C", bare, "update-ref", "refs/heads/env/dev", human, at.String()).Run() == nil //nolint:noctx // a moment
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
