package gitstore

import (
	"fmt"
	"testing"
)

func TestIsAncestor(t *testing.T) {
	dir := source(t)
	for i := range 3 {
		runGit(t, dir, "commit", "-qm", fmt.Sprint(i), "--allow-empty")
	}
	runGit(t, dir, "checkout", "-qb", "side", "HEAD~2")
	runGit(t, dir, "commit", "-qm", "side", "--allow-empty")
	s := open(t, Options{Dir: dir})
	at := func(rev string) Hash {
		c, err := s.Resolve(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		return c.Hash
	}
	for _, c := range []struct {
		old, new string
		want     bool
	}{{"main~3", "main", true}, {"main", "main", true}, {"main", "main~1", false}, {"main", "side", false}, {"main~2", "side", true}} {
		if got, err := s.IsAncestor(t.Context(), at(c.old), at(c.new)); err != nil || got != c.want {
			t.Errorf("%s → %s: %v %v", c.old, c.new, got, err)
		}
	}
}
