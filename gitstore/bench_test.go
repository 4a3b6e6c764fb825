package gitstore

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// many returns moves of a thousand branches, each with a commit, two trees and its own file.
func many(tb testing.TB, s *Store) (*Writer, []Move) {
	tb.Helper()
	w, err := s.NewWriter()
	if err != nil {
		tb.Fatal(err)
	}
	moves := make([]Move, 1000)
	who := Signature{"Sluice", "s@example.com", time.Unix(1700000000, 0).UTC()}
	for i := range moves {
		blob, err := w.Blob(fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c%d\n", i))
		if err != nil {
			tb.Fatal(err)
		}
		below, err := w.Tree([]Entry{{"configmap.yaml", ModeFile, blob}})
		if err != nil {
			tb.Fatal(err)
		}
		tree, err := w.Tree([]Entry{{"app", ModeTree, below}})
		if err != nil {
			tb.Fatal(err)
		}
		h, err := w.Commit(CommitSpec{Tree: tree, Author: who, Committer: who, Message: "m\n"})
		if err != nil {
			tb.Fatal(err)
		}
		moves[i] = Move{fmt.Sprintf("cluster/c%04d", i), Hash{}, h}
	}
	return w, moves
}

func BenchmarkPushThousandBranches(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		_, bare := bareRepo(b)
		s := open(b, Options{Dir: source(b)})
		place, err := s.Remote(bare, Auth{})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		w, moves := many(b, s)
		results, err := place.Push(b.Context(), w, moves, PushOptions{})
		if err != nil || len(results) != 1000 || results[999].State != Updated {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGitPushThousandBranches(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		_, bare := bareRepo(b)
		dir := filepath.Join(b.TempDir(), "local.git")
		runGit(b, b.TempDir(), "init", "-q", "--bare", dir)
		s := open(b, Options{Dir: dir})
		w, moves := many(b, s)
		if _, err := s.Local().Push(b.Context(), w, moves, PushOptions{}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		runGit(b, dir, "push", "-q", bare, "refs/heads/*:refs/heads/*")
	}
}

func BenchmarkLocalPushThousandBranches(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		_, bare := bareRepo(b)
		s := open(b, Options{Dir: bare})
		w, moves := many(b, s)
		b.StartTimer()
		if _, err := s.Local().Push(b.Context(), w, moves, PushOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenAndReadThousandBranches(b *testing.B) {
	_, bare := bareRepo(b)
	s := open(b, Options{Dir: bare})
	w, moves := many(b, s)
	if _, err := s.Local().Push(b.Context(), w, moves, PushOptions{}); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	runGit(b, bare, "gc", "-q")
	for b.Loop() {
		fresh := open(b, Options{Dir: bare})
		refs, err := fresh.Local().List(b.Context(), "cluster/")
		if err != nil || len(refs) != 1000 {
			b.Fatal(len(refs), err)
		}
		for _, h := range refs {
			c, err := fresh.Commit(b.Context(), h)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := fresh.Snapshot(b.Context(), c.Tree).ReadFile("app/configmap.yaml"); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkWriteObjects(b *testing.B) {
	s := open(b, Options{Dir: source(b)})
	w := writer(b, s)
	text := make([]byte, 1500)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		if _, err := w.Blob(fmt.Append(text[:1400], i)); err != nil {
			b.Fatal(err)
		}
	}
}
