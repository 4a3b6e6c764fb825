package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"
)

// runGit runs the real thing.
func runGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.com", "GIT_AUTHOR_DATE=2024-01-02T03:04:05+0100", "GIT_COMMITTER_DATE=2024-01-02T03:04:05+0100")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// source makes a repository with one commit.
func source(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	runGit(t, dir, "init", "-q", "-b", "main")
	for name, data := range map[string]string{"a.txt": "a\n", "dir/b.txt": "b\n", "dir/sub/c.sh": "c\n", ".gitignore": "ignored\n"} {
		write(t, dir, name, data)
	}
	if err := os.Symlink("a.txt", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "add", ".")
	runGit(t, dir, "commit", "-qm", "first")
	return dir
}

func write(t testing.TB, dir, name, data string) {
	t.Helper()
	full := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func writer(t testing.TB, s *Store) *Writer {
	t.Helper()
	w, err := s.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func commitOf(t testing.TB, w *Writer, content string, parents ...Hash) Hash {
	t.Helper()
	blob, err := w.Blob([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := w.Tree([]Entry{{"f", ModeFile, blob}})
	if err != nil {
		t.Fatal(err)
	}
	who := Signature{"Sluice", "s@example.com", time.Unix(1700000000, 0).UTC()}
	h, err := w.Commit(CommitSpec{Tree: tree, Parents: parents, Author: who, Committer: who, Message: "m\n"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// backend serves a folder of repositories with git http-backend.
func backend(t testing.TB, root, user, password string) *httptest.Server {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	handler := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); user != "" && (u != user || p != password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestSnapshotIsAFileSystem(t *testing.T) {
	s := open(t, Options{Dir: source(t)})
	c, err := s.Resolve(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if c.Author.Name != "A" || c.Author.When.Format(time.RFC3339) != "2024-01-02T03:04:05+01:00" || c.Message != "first\n" {
		t.Errorf("got %+v", c)
	}
	snap := s.Snapshot(t.Context(), c.Tree)
	if err := fstest.TestFS(fileOnly{snap}, "a.txt", "dir/b.txt", "dir/sub/c.sh"); err != nil {
		t.Error(err)
	}
	i, err := snap.Stat("link")
	if err != nil || i.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("link: %v %v", i, err)
	}
	if _, err := snap.ReadFile("link"); err == nil {
		t.Error("a link was read")
	}
	for _, bad := range []string{"../a", "/a", "a/../b", "a.txt/x", "nope"} {
		if _, err := snap.Stat(bad); err == nil {
			t.Errorf("%s was found", bad)
		}
	}
}

// fileOnly hides the link from fstest, which would follow it.
type fileOnly struct{ *Snapshot }

func (f fileOnly) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := f.Snapshot.ReadDir(name)
	var out []fs.DirEntry
	for _, e := range entries {
		if e.Type().IsRegular() || e.IsDir() {
			out = append(out, e)
		}
	}
	return out, err
}

func (f fileOnly) Open(name string) (fs.File, error) {
	file, err := f.Snapshot.Open(name)
	if d, ok := file.(interface{ keep(func(fs.DirEntry) bool) }); ok {
		d.keep(func(e fs.DirEntry) bool { return e.Type().IsRegular() || e.IsDir() })
	}
	return file, err
}

func (f *file) keep(want func(fs.DirEntry) bool) {
	var out []fs.DirEntry
	for _, e := range f.entries {
		if want(e) {
			out = append(out, e)
		}
	}
	f.entries = out
}

func TestWorkingTreeEqualsGitsOwn(t *testing.T) {
	dir := source(t)
	write(t, dir, "ignored", "x")
	write(t, dir, "dir/.gitignore", "*.log\n")
	write(t, dir, "dir/x.log", "x")
	write(t, dir, "new/file", "new")
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Dir: dir})
	got, err := s.WorkingTree(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	runGit(t, dir, "add", "-A")
	if want := runGit(t, dir, "write-tree"); got.String() != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if data, err := s.Snapshot(t.Context(), got).ReadFile("new/file"); err != nil || string(data) != "new" {
		t.Errorf("%q %v", data, err)
	}
	outside := t.TempDir()
	write(t, outside, "x/y", "z")
	if _, err := OpenMemory().WorkingTree(t.Context(), outside); err != nil {
		t.Error(err)
	}
}

func TestChangesEqualGitsOwn(t *testing.T) {
	dir := source(t)
	runGit(t, dir, "rm", "-q", "a.txt")
	write(t, dir, "dir/sub/c.sh", "changed")
	if err := os.Remove(filepath.Join(dir, "dir", "b.txt")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "dir/b.txt/now-a-dir", "x")
	write(t, dir, "z", "new")
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-qm", "second")
	s := open(t, Options{Dir: dir})
	a, _ := s.Resolve(t.Context(), "HEAD~1")
	b, _ := s.Resolve(t.Context(), "HEAD")
	changes, err := s.Changes(t.Context(), a.Tree, b.Tree)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, c := range changes {
		got[c.Path] = true
	}
	for line := range strings.SplitSeq(runGit(t, dir, "diff", "--name-only", "--no-renames", "HEAD~1", "HEAD"), "\n") {
		if !got[line] {
			t.Errorf("%s is missing in %v", line, got)
		}
		delete(got, line)
	}
	if len(got) > 0 || len(changes) == 0 {
		t.Errorf("too many: %v", got)
	}
}

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

func TestWhatIsWrittenPassesFsck(t *testing.T) {
	dir := t.TempDir()
	runGit(t, dir, "init", "-q", "--bare")
	s := open(t, Options{Dir: dir})
	w := writer(t, s)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 200 {
				if _, err := w.Blob(fmt.Appendf(nil, "blob %d\n%s", i, strings.Repeat("x", i*20))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if w.Len() != 200 {
		t.Errorf("%d objects", w.Len())
	}
	first := commitOf(t, w, "one")
	if c, err := s.Commit(t.Context(), first); err != nil || c.Message != "m\n" { // readable before it is pushed
		t.Errorf("%+v %v", c, err)
	}
	results, err := s.Local().Push(t.Context(), w, []Move{{"env/dev", Hash{}, first}, {"cluster/a", Hash{}, first}}, PushOptions{})
	if err != nil || len(results) != 2 || results[0].State != Updated {
		t.Fatalf("%+v %v", results, err)
	}
	runGit(t, dir, "fsck", "--strict", "--full")
	if got := runGit(t, dir, "rev-parse", "env/dev"); got != first.String() {
		t.Errorf("env/dev is at %s", got)
	}
	if got := runGit(t, dir, "cat-file", "-p", "env/dev:f"); got != "one" {
		t.Errorf("got %q", got)
	}
}

func TestTreeNamesAreRefused(t *testing.T) {
	w := writer(t, OpenMemory())
	for _, name := range []string{"", ".", "..", "a/b", ".git", ".GIT", ".git ", ".git.", "git~1", ".g\u200cit", "a\x00b", ".git::$INDEX_ALLOCATION", `a\b`} {
		if _, err := w.Tree([]Entry{{name, ModeFile, Hash{1}}}); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
	if _, err := w.Tree([]Entry{{"a", ModeFile, Hash{1}}, {"a", ModeTree, Hash{2}}}); err == nil {
		t.Error("a name was taken twice")
	}
}

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

func TestConnectionCutAfterThePush(t *testing.T) {
	root := t.TempDir()
	runGit(t, root, "init", "-q", "--bare", "r.git")
	runGit(t, filepath.Join(root, "r.git"), "config", "http.receivepack", "true")
	inner := backend(t, root, "", "")
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxied := httptest.NewRecorder()
		inner.Config.Handler.ServeHTTP(proxied, r)
		if strings.HasSuffix(r.URL.Path, "git-receive-pack") && r.Method == http.MethodPost {
			panic(http.ErrAbortHandler) // applied, and the answer is lost
		}
		for k, v := range proxied.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(proxied.Code)
		_, _ = w.Write(proxied.Body.Bytes())
	}))
	t.Cleanup(cut.Close)
	s := open(t, Options{Dir: source(t)})
	b, err := s.Remote(cut.URL+"/r.git", Auth{})
	if err != nil {
		t.Fatal(err)
	}
	w := writer(t, s)
	one := commitOf(t, w, "one")
	got, err := b.Push(t.Context(), w, []Move{{"env/dev", Hash{}, one}}, PushOptions{})
	if err != nil || len(got) != 1 || got[0].State != Updated {
		t.Errorf("%+v %v", got, err)
	}
}

func TestHangingServerAndCancel(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stop) })
	s := open(t, Options{Dir: source(t)})
	b, _ := s.Remote(server.URL+"/r.git", Auth{})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := b.List(ctx, "env/"); err == nil || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %s", err, time.Since(start))
	}
}

func TestNoCredentialInAnError(t *testing.T) {
	root := t.TempDir()
	runGit(t, root, "init", "-q", "--bare", "r.git")
	server := backend(t, root, "me", "right")
	s := open(t, Options{Dir: source(t)})
	for _, c := range []struct {
		address string
		auth    Auth
	}{
		{server.URL + "/r.git", Auth{User: "me", Password: "hunter2"}},
		{server.URL + "/r.git", Auth{Token: "hunter2"}},
		{strings.Replace(server.URL, "http://", "http://me:hunter2@", 1) + "/r.git", Auth{}},
		{"http://me:hunter2@127.0.0.1:1/r.git", Auth{}},
		{"https://me:hunter2@%zz/r.git", Auth{}},
	} {
		b, err := s.Remote(c.address, c.auth)
		if err == nil {
			_, err = b.List(t.Context(), "")
			if strings.Contains(b.String(), "hunter2") {
				t.Errorf("the address shows it: %s", b)
			}
		}
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(fmt.Sprintf("%+v %#v", err, err), "hunter2") {
			t.Errorf("%s: %v", redactURL(c.address), err)
		}
	}
	ok, err := s.Remote(strings.Replace(server.URL, "http://", "http://me:right@", 1)+"/r.git", Auth{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ok.List(t.Context(), ""); err != nil {
		t.Errorf("credentials of the address were not used: %v", err)
	}
}

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

func TestSignedCommitsVerify(t *testing.T) {
	keys := t.TempDir()
	run := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(keys, "id"))
	if out, err := run.CombinedOutput(); err != nil {
		t.Skipf("ssh-keygen is not on this machine: %v %s", err, out)
	}
	key, err := os.ReadFile(filepath.Join(keys, "id"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := NewSigner(key, "")
	if err != nil {
		t.Fatal(err)
	}
	bare := t.TempDir()
	runGit(t, bare, "init", "-q", "--bare")
	s := open(t, Options{Dir: bare})
	w := writer(t, s)
	tree, _ := w.Tree(nil)
	who := Signature{"S", "s@example.com", time.Unix(1700000000, 0).UTC()}
	h, err := w.Commit(CommitSpec{Tree: tree, Author: who, Committer: who, Message: "signed\n", Signer: signer})
	if err != nil {
		t.Fatal(err)
	}
	push(t, s.Local(), w, Move{"env/dev", Hash{}, h})
	public, _ := os.ReadFile(filepath.Join(keys, "id.pub"))
	write(t, keys, "allowed", "s@example.com "+string(public))
	runGit(t, bare, "-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile="+filepath.Join(keys, "allowed"), "verify-commit", "env/dev")
	runGit(t, bare, "fsck", "--strict")
}

func FuzzTrailers(f *testing.F) {
	f.Add("subject", "body", "value")
	f.Add("Sluice-Source: x", "a\n\nSluice-Source: forged\n", "v\nSluice-Approved-By: me")
	f.Add("", "\r\n\r\nA: b\r\n", "\u2028x")
	f.Fuzz(func(t *testing.T, subject, body, value string) {
		got := Trailers(Message(subject, body, []Trailer{{"Sluice-Source", value}, {"Sluice-Version", "1"}}))
		if len(got) != 2 || got[0] != (Trailer{"Sluice-Source", oneLine(value)}) || got[1].Value != "1" {
			t.Fatalf("%q %q %q gave %+v", subject, body, value, got)
		}
	})
}

func FuzzSignature(f *testing.F) {
	f.Add("A", "a@example.com", int64(1700000000))
	f.Add("A <x> 1 +0000\nparent", "\n", int64(-5))
	f.Fuzz(func(t *testing.T, name, email string, unix int64) {
		s := Signature{name, email, time.Unix(max(unix%1e10, 0), 0).UTC()}
		data, err := encodeCommit(CommitSpec{Tree: Hash{1}, Author: s, Committer: s, Message: "m"})
		if err != nil {
			t.Fatal(err)
		}
		c, err := parseCommit(Hash{}, data)
		if err != nil || len(c.Parents) != 0 || c.Message != "m" || !c.Author.When.Equal(s.When) {
			t.Fatalf("%q came back as %+v (%v)", data, c, err)
		}
	})
}
