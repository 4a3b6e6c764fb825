package gitstore

import (
	"errors"
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
			t.Fatalf("the result of push is %+v", got)
		}
		refs, err := b.List(t.Context(), "env/", "cluster/")
		if err != nil || len(refs) != 2 || refs["env/dev"] != one {
			t.Fatalf("the refs are %v, the error is %v", refs, err)
		}
		w = writer(t, s)
		two := commitOf(t, w, "two", one)
		if got := push(t, b, w, Move{"env/dev", one, two}); got[0].State != Updated ||
			runGit(t, bare, "rev-parse", "env/dev") != two.String() {
			t.Errorf("the result of push is %+v", got)
		}
	})
}

func TestPushRefusesMovedBranches(t *testing.T) {
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
				t.Errorf("the result is %+v", r)
			}
		}
		if len(got) != 2 || runGit(t, bare, "rev-parse", "env/dev") != human ||
			runGit(t, bare, "rev-parse", "env/packed") != one.String() {
			t.Errorf("%+v, env/packed %s", got, runGit(t, bare, "rev-parse", "env/packed"))
		}
		if refs, _ := b.List(t.Context(), "env/"); len(refs) != 2 {
			t.Errorf("a deleted branch is back: %v", refs)
		}
		if got := push(t, b, w, Move{"env/new", Hash{}, two}, Move{"env/packed", one, two}); len(got) != 2 ||
			got[1].State != Updated {
			t.Errorf("the result of push is %+v", got)
		}
		w = writer(t, s)
		if got := push(t, b, w, Move{"env/packed", two, Hash{}}); got[0].State != Updated {
			t.Errorf("the result of push is %+v", got)
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
	if got[0].State != Updated || got[1].State != Rejected || got[2].State != Updated ||
		!strings.Contains(got[1].Reason, "hook") {
		t.Errorf("the result of push is %+v", got)
	}
}

func TestAtomicPushMovesAllOrNothing(t *testing.T) {
	root := t.TempDir()
	bare := filepath.Join(root, "r.git")
	runGit(t, root, "init", "-q", "--bare", bare)
	if err := os.WriteFile(filepath.Join(bare, "hooks", "update"),
		[]byte("#!/bin/sh\n[ \"$1\" != refs/heads/env/no ]\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Dir: source(t)})
	b, _ := s.Remote(bare, Auth{})
	w := writer(t, s)
	one := commitOf(t, w, "one")
	got := push(t, b, w, Move{"env/yes", Hash{}, one}, Move{"env/no", Hash{}, one})
	if got[0].State == Updated || got[1].State == Updated {
		t.Errorf("the result of push is %+v", got)
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
	if err := os.WriteFile(filepath.Join(bare, "hooks", "post-receive"), []byte("#!/bin/sh\necho push >> "+count+"\n"),
		0o755); err != nil {
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
		t.Fatalf("the result of Push is %+v, the error is %v", got, err)
	}
	data, _ := os.ReadFile(count)
	if n := strings.Count(string(data), "push"); n != 3 {
		t.Errorf("%d pushes", n)
	}
}

func bareRepo(tb testing.TB) (root, bare string) {
	tb.Helper()
	root = tb.TempDir()
	bare = filepath.Join(root, "r.git")
	runGit(tb, root, "init", "-q", "--bare", bare)
	runGit(tb, bare, "config", "http.receivepack", "true")
	return root, bare
}

func hook(tb testing.TB, bare, script string) {
	tb.Helper()
	const name = "pre-receive"
	if err := os.WriteFile(filepath.Join(bare, "hooks", name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		tb.Fatal(err)
	}
}

func TestServerDecidesARace(t *testing.T) {
	root, bare := bareRepo(t)
	s := open(t, Options{Dir: source(t)})
	b, err := s.Remote(backend(t, root, "", "").URL+"/r.git", Auth{})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, s)
	one := commitOf(t, w, "one")
	push(t, b, w, Move{"env/dev", Hash{}, one}, Move{"env/qa", Hash{}, one})
	// Somebody else moves a branch after the refs were read and before the push.
	human := runGit(t, bare, "commit-tree", "-p", one.String(), "-m", "human", one.String()+"^{tree}")
	hook(t, bare, "unset GIT_QUARANTINE_PATH GIT_QUARANTINE_ENVIRONMENT\ngit update-ref refs/heads/env/dev "+human+"\n")
	w = writer(t, s)
	two := commitOf(t, w, "two", one)
	got := push(t, b, w, Move{"env/dev", one, two}, Move{"env/qa", one, two})
	if got[0].State != Conflict || got[1].State == Updated || runGit(t, bare, "rev-parse", "env/dev") != human ||
		runGit(t, bare, "rev-parse", "env/qa") != one.String() {
		t.Errorf("the result of push is %+v", got)
	}
}

func TestHookMessageIsTheReason(t *testing.T) {
	root, bare := bareRepo(t)
	hook(t, bare, "echo 'remote: only \x1b[31mreleases\x1b[0m on Friday s3cret' >&2\nexit 1\n")
	s := open(t, Options{Dir: source(t)})
	b, err := s.Remote(backend(t, root, "me", "s3cret").URL+"/r.git", Auth{User: "me", Password: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, s)
	got := push(t, b, w, Move{"env/dev", Hash{}, commitOf(t, w, "one")})
	if got[0].State != Rejected || !strings.Contains(got[0].Reason, "on Friday") ||
		strings.ContainsAny(got[0].Reason, "\x1b\n") || strings.Contains(got[0].Reason, "s3cret") {
		t.Errorf("the result of push is %+v", got)
	}
}

func TestRefsPerPushStopAtAConflict(t *testing.T) {
	_, bare := bareRepo(t)
	s := open(t, Options{Dir: source(t)})
	b, err := s.Remote(bare, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, s)
	one := commitOf(t, w, "one")
	push(t, b, w, Move{"cluster/2", Hash{}, one})
	w = writer(t, s)
	two := commitOf(t, w, "two", one)
	moves := []Move{
		{"cluster/0", Hash{}, two},
		{"cluster/1", Hash{}, two},
		{"cluster/2", two, two},
		{"env/dev", Hash{}, two},
	}
	got, err := b.Push(t.Context(), w, moves, PushOptions{PerPush: 1})
	if err != nil || len(got) != 3 || got[1].State != Updated || got[2].State != Conflict {
		t.Errorf("the result of Push is %+v, the error is %v", got, err)
	}
	if refs, err := b.List(t.Context(), "env/"); err != nil || len(refs) != 0 {
		t.Errorf("the environment branch moved before its clusters: %v %v", refs, err)
	}
	runGit(t, bare, "fsck", "--strict")
}

func TestInvalidMovesAreRefusedLocally(t *testing.T) {
	places(t, func(t *testing.T, bare string, s *Store, b Branches) {
		t.Helper()
		w := writer(t, s)
		one := commitOf(t, w, "one")
		long := strings.Repeat("x", 2000)
		for _, name := range []string{
			"", "../x", "a..b", "/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a.lock/b", "a b",
			"a~1", "a^", "a:b", "a?", "a*", "a[", `a\b`, "a\x00", "a\n", "@", "a@{1}", "-a", "a.", long,
		} {
			if got, err := b.Push(t.Context(), w, []Move{{name, Hash{}, one}}, PushOptions{}); err == nil {
				t.Errorf("%q: the result of Push is %+v", name, got)
			}
		}
		for _, moves := range [][]Move{
			{{"a", Hash{}, Hash{}}},
			{{"a", Hash{}, one}, {"a", Hash{}, one}},
			{{"b/c/d", Hash{}, one}, {"b", Hash{}, one}},
		} {
			if got, err := b.Push(t.Context(), w, moves, PushOptions{}); err == nil {
				t.Errorf("the result of Push is %+v", got)
			}
		}
		if out := runGit(t, bare, "for-each-ref"); out != "" {
			t.Errorf("there are %s", out)
		}
	})
}

func TestPushWithoutObjects(t *testing.T) {
	places(t, func(t *testing.T, bare string, s *Store, b Branches) {
		t.Helper()
		w := writer(t, s)
		one := commitOf(t, w, "one")
		push(t, b, w, Move{"env/dev", Hash{}, one})
		if got := push(t, b, nil, Move{"env/copy", Hash{}, one}, Move{"env/dev", one, Hash{}}); len(got) != 2 ||
			got[0].State != Updated || got[1].State != Updated {
			t.Errorf("the result of push is %+v", got)
		}
		if got := push(t, b, writer(t, s), Move{"env/copy", one, Hash{}}); got[0].State != Updated {
			t.Errorf("the result of push is %+v", got)
		}
		if out := runGit(t, bare, "for-each-ref"); out != "" {
			t.Errorf("there are %s", out)
		}
	})
}

// The text that a hook prints does not change the type of the error.
func TestRefusedByAHookIsNotDamage(t *testing.T) {
	_, bare := bareRepo(t)
	hook(t, bare, "echo 'malformed packfile: object not found, corrupt, unexpected EOF' >&2; exit 1\n")
	s := open(t, Options{Dir: source(t)})
	b, err := s.Remote(bare, Auth{})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, s)
	results, err := b.Push(t.Context(), w, []Move{{"env/dev", Hash{}, commitOf(t, w, "one")}}, PushOptions{})
	if err != nil || len(results) != 1 {
		t.Fatalf("the results are %+v, the error is %v", results, err)
	}
	refused, ok := errors.AsType[*RefusedError](results[0].Err())
	if !ok || errors.Is(refused, ErrDamaged) || errors.Is(refused, ErrNotFound) ||
		!strings.Contains(refused.Message, "malformed packfile") {
		t.Errorf("the results are %#v", results[0])
	}
	one, two := commitOf(t, w, "one"), Hash{1}
	for state, want := range map[State]error{
		Updated: nil, Conflict: ErrConflict, Rejected: ErrRefused,
		Unknown: ErrOutcomeUnknown,
	} {
		if err := (MoveResult{Move: Move{"env/dev", two, one}, State: state, Reason: "why"}).Err(); !errors.Is(err,
			want) {
			t.Errorf("%s: the error is %v", state, err)
		}
	}
}
