package gitstore

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// places runs a test in a local repository, over the file system and over HTTP.
func places(t *testing.T, test func(t *testing.T, bare string, s *Store, b Branches)) {
	t.Helper()
	for _, kind := range []string{"local", "file", "http"} {
		t.Run(kind, func(t *testing.T) {
			root := t.TempDir()
			bare := filepath.Join(root, "r.git")
			runGit(t, root, "init", "-q", "--bare", bare)
			runGit(t, bare, "config", "http.receivepack", "true")
			runGit(t, bare, "config", "uploadpack.allowAnySHA1InWant", "true")
			if kind == "local" {
				s := open(t, Options{Dir: bare})
				test(t, bare, s, s.Local())
				return
			}
			s := open(t, Options{Dir: source(t)})
			address, auth := bare, Auth{}
			if kind == "http" {
				address, auth = backend(t, root, "me", "s3cret").URL+"/r.git", Auth{User: "me", Password: "s3cret"}
			}
			b, err := s.Remote(address, auth)
			if err != nil {
				t.Fatal(err)
			}
			test(t, bare, s, b)
		})
	}
}

func push(t *testing.T, b Branches, w *Writer, moves ...Move) []MoveResult {
	t.Helper()
	results, err := b.Push(t.Context(), w, moves, PushOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestPushMovesByCompareAndSwap(t *testing.T) {
	places(t, func(t *testing.T, bare string, s *Store, b Branches) {
		t.Helper()
		w := writer(t, s)
		one := commitOf(t, w, "one")
		if got := push(t, b, w, Move{"env/dev", Hash{}, one}, Move{"cluster/a", Hash{}, one}); got[0].State != Updated {
			t.Fatalf("%+v", got)
		}
		refs, err := b.List(t.Context(), "env/", "cluster/")
		if err != nil || len(refs) != 2 || refs["env/dev"] != one {
			t.Fatalf("%v %v", refs, err)
		}
		w = writer(t, s)
		two := commitOf(t, w, "two", one)
		if got := push(t, b, w, Move{"env/dev", one, two}); got[0].State != Updated || runGit(t, bare, "rev-parse", "env/dev") != two.String() {
			t.Errorf("%+v", got)
		}
	})
}

func TestPushRefusesWhatMoved(t *testing.T) {
	places(t, func(t *testing.T, bare string, s *Store, b Branches) {
		t.Helper()
		w := writer(t, s)
		one := commitOf(t, w, "one")
		push(t, b, w, Move{"env/dev", Hash{}, one}, Move{"env/gone", Hash{}, one}, Move{"env/packed", Hash{}, one})
		runGit(t, bare, "pack-refs", "--all")
		human := runGit(t, bare, "commit-tree", "-p", one.String(), "-m", "human", one.String()+"^{tree}")
		runGit(t, bare, "update-ref", "refs/heads/env/dev", human)
		runGit(t, bare, "update-ref", "-d", "refs/heads/env/gone")
		w = writer(t, s)
		two := commitOf(t, w, "two", one)
		got := push(t, b, w, Move{"env/dev", one, two}, Move{"env/gone", one, two}, Move{"env/packed", one, two})
		for _, r := range got {
			if r.State != Conflict || r.Reason == "" {
				t.Errorf("%+v", r)
			}
		}
		if len(got) != 2 || runGit(t, bare, "rev-parse", "env/dev") != human || runGit(t, bare, "rev-parse", "env/packed") != one.String() {
			t.Errorf("%+v, env/packed %s", got, runGit(t, bare, "rev-parse", "env/packed"))
		}
		if refs, _ := b.List(t.Context(), "env/"); len(refs) != 2 {
			t.Errorf("a deleted branch is back: %v", refs)
		}
		if got := push(t, b, w, Move{"env/new", Hash{}, two}, Move{"env/packed", one, two}); len(got) != 2 || got[1].State != Updated {
			t.Errorf("%+v", got)
		}
		w = writer(t, s)
		if got := push(t, b, w, Move{"env/packed", two, Hash{}}); got[0].State != Updated {
			t.Errorf("%+v", got)
		}
		if refs, _ := b.List(t.Context(), "env/p"); len(refs) != 0 {
			t.Errorf("a branch was not deleted: %v", refs)
		}
		runGit(t, bare, "fsck", "--strict")
	})
}

func TestPushReportsEveryRef(t *testing.T) {
	root := t.TempDir()
	bare := filepath.Join(root, "r.git")
	runGit(t, root, "init", "-q", "--bare", bare)
	runGit(t, bare, "config", "receive.advertiseAtomic", "false")
	hook := filepath.Join(bare, "hooks", "update")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\n[ \"$1\" != refs/heads/env/no ]\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Dir: source(t)})
	b, err := s.Remote(bare, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, s)
	one := commitOf(t, w, "one")
	got := push(t, b, w, Move{"env/yes", Hash{}, one}, Move{"env/no", Hash{}, one}, Move{"env/too", Hash{}, one})
	if got[0].State != Updated || got[1].State != Rejected || got[2].State != Updated || !strings.Contains(got[1].Reason, "hook") {
		t.Errorf("%+v", got)
	}
}

func TestAtomicPushMovesAllOrNothing(t *testing.T) {
	root := t.TempDir()
	bare := filepath.Join(root, "r.git")
	runGit(t, root, "init", "-q", "--bare", bare)
	if err := os.WriteFile(filepath.Join(bare, "hooks", "update"), []byte("#!/bin/sh\n[ \"$1\" != refs/heads/env/no ]\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Dir: source(t)})
	b, _ := s.Remote(bare, Auth{})
	w := writer(t, s)
	one := commitOf(t, w, "one")
	got := push(t, b, w, Move{"env/yes", Hash{}, one}, Move{"env/no", Hash{}, one})
	if got[0].State == Updated || got[1].State == Updated {
		t.Errorf("%+v", got)
	}
	if refs, _ := b.List(t.Context(), "env/"); len(refs) != 0 {
		t.Errorf("moved: %v", refs)
	}
}

func TestRefsPerPush(t *testing.T) {
	root := t.TempDir()
	bare := filepath.Join(root, "r.git")
	runGit(t, root, "init", "-q", "--bare", bare)
	count := filepath.Join(root, "pushes")
	if err := os.WriteFile(filepath.Join(bare, "hooks", "post-receive"), []byte("#!/bin/sh\necho push >> "+count+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Dir: source(t)})
	b, _ := s.Remote(bare, Auth{})
	w := writer(t, s)
	one := commitOf(t, w, "one")
	var moves []Move
	for i := range 7 {
		moves = append(moves, Move{fmt.Sprintf("cluster/%d", i), Hash{}, one})
	}
	got, err := b.Push(t.Context(), w, moves, PushOptions{PerPush: 3})
	if err != nil || len(got) != 7 {
		t.Fatalf("%+v %v", got, err)
	}
	data, _ := os.ReadFile(count)
	if n := strings.Count(string(data), "push"); n != 3 {
		t.Errorf("%d pushes", n)
	}
}
