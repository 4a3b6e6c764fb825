package gitstore

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestShallowAndPartialClones(t *testing.T) {
	origin := source(t)
	runGit(t, origin, "config", "uploadpack.allowFilter", "true")
	runGit(t, origin, "config", "uploadpack.allowAnySHA1InWant", "true")
	old := runGit(t, origin, "rev-parse", "HEAD")
	runGit(t, origin, "commit", "-qm", "two", "--allow-empty")
	clone := filepath.Join(t.TempDir(), "c")
	runGit(t, origin, "clone", "-q", "--no-checkout", "--depth=1", "--filter=blob:none", "file://"+origin, clone)
	s := open(t, Options{Dir: clone})
	c, err := s.Resolve(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := s.Snapshot(t.Context(), c.Tree).ReadFile("dir/b.txt"); err != nil || string(data) != "b\n" {
		t.Errorf("%q %v", data, err)
	}
	h, _ := ParseHash(old)
	if ok, err := s.IsAncestor(t.Context(), h, c.Hash); err != nil || !ok {
		t.Errorf("%v %v", ok, err)
	}
	runGit(t, clone, "remote", "remove", "origin")
	alone := open(t, Options{Dir: clone})
	if _, err := alone.IsAncestor(t.Context(), Hash{1}, c.Hash); !errors.Is(err, ErrShallow) {
		t.Errorf("got %v", err)
	}
}

func TestMirrorFetchesARevision(t *testing.T) {
	origin := source(t)
	want := runGit(t, origin, "rev-parse", "HEAD")
	for _, rev := range []string{"HEAD", "main", want} {
		s := open(t, Options{URL: "file://" + origin})
		c, err := s.FetchRevision(t.Context(), rev)
		if err != nil || c.Hash.String() != want {
			t.Errorf("%s: %v %v", rev, c.Hash, err)
		}
	}
	s := open(t, Options{URL: "file://" + origin})
	if _, err := s.FetchRevision(t.Context(), "nope"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
