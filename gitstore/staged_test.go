package gitstore

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/index"
)

// indexWith writes an index of many kinds of entries with Git.
func indexWith(t *testing.T, version string) []byte {
	t.Helper()
	dir := t.TempDir()
	runGit(t, dir, "init", "-q", "-b", "main")
	runGit(t, dir, "config", "index.version", version)
	runGit(t, dir, "config", "user.name", "A")
	runGit(t, dir, "config", "user.email", "a@example.com")
	long := strings.Repeat(strings.Repeat("l", 200)+"/", 3) // names of all lengths modulo 8, and many shared beginnings
	for i := range 40 {
		write(t, dir, long+strings.Repeat("x", i+1), strings.Repeat("a", i))
	}
	write(t, dir, "a/file", "two")
	write(t, dir, "skipped", "x")
	relink(t, "a", filepath.Join(dir, "link"))
	chmod(t, filepath.Join(dir, "a", "file"), 0o755)
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-qm", "start")
	if version != "2" {
		write(t, dir, "intended", "x")
		runGit(t, dir, "add", "-N", "intended")
		runGit(t, dir, "update-index", "--skip-worktree", "skipped")
	}
	// Names of 4,095 bytes and more have no length in the flags; no file system has them.
	huge := strings.Repeat(strings.Repeat("h", 200)+"/", 25)
	blob := runGit(t, dir, "hash-object", "-w", "skipped")
	for _, n := range []int{4093, 4094, 4095, 4096, 4097, 4500} {
		runGit(t, dir, "update-index", "--add", "--cacheinfo", "100644,"+blob+","+huge[:n-1]+"e")
	}
	data, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// asGoGit decodes an index with go-git.
func asGoGit(data []byte) ([]stagedFile, Hash, error) {
	idx := &index.Index{}
	if err := index.NewDecoder(bytes.NewReader(data)).Decode(idx); err != nil {
		return nil, Hash{}, err
	}
	return stagedOf(idx), stagedTree(idx), nil
}

func sameFiles(a, b []stagedFile) bool {
	return slices.EqualFunc(a, b, func(a, b stagedFile) bool {
		same := a.modified.Equal(b.modified)
		a.modified, b.modified = time.Time{}, time.Time{}
		return same && a == b
	})
}

func TestIndexIsDecodedAsGoGitDoes(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2", "3", "4"} {
		data := indexWith(t, version)
		want, tree, err := asGoGit(data)
		if err != nil {
			t.Fatal(err)
		}
		got, gotTree, ok := decodeIndex(data)
		if !ok || gotTree != tree || !sameFiles(got, want) {
			t.Errorf("version %s: %d entries of %d, tree %s of %s, %v", version, len(got), len(want), gotTree, tree, ok)
		}
		unhashed := append(bytes.Clone(data[:len(data)-hashSize]), make([]byte, hashSize)...)
		if got, _, ok := decodeIndex(unhashed); !ok || !sameFiles(got, want) {
			t.Errorf("version %s, without a checksum: %d entries of %d, %v", version, len(got), len(want), ok)
		}
		for i := range len(data) - 1 {
			if _, _, ok := decodeIndex(data[:i]); ok {
				t.Fatalf("version %s: the first %d of %d bytes are an index", version, i, len(data))
			}
		}
	}
}

func TestTreeOfAnIndex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runGit(t, dir, "init", "-q", "-b", "main")
	write(t, dir, "a/file", "two")
	runGit(t, dir, "add", "-A")
	read := func() Hash {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
		if err != nil {
			t.Fatal(err)
		}
		_, tree, ok := decodeIndex(data)
		if !ok {
			t.Fatal("the index is not decoded")
		}
		return tree
	}
	if tree := read(); !tree.IsZero() {
		t.Errorf("before the tree is written: %s", tree)
	}
	want := runGit(t, dir, "write-tree")
	if tree := read(); tree.String() != want {
		t.Errorf("after the tree is written: %s, Git has %s", tree, want)
	}
	write(t, dir, "a/other", "x")
	runGit(t, dir, "add", "-A")
	if tree := read(); !tree.IsZero() {
		t.Errorf("after a change: %s", tree)
	}
}

func FuzzDecodeIndex(f *testing.F) {
	for version, name := range map[byte]string{2: "a\x00", 3: "a\x00", 4: "\x00a\x00"} {
		data := append([]byte(indexSignature), 0, 0, 0, version, 0, 0, 0, 1)
		data = append(append(data, make([]byte, stagedFlags)...), 0, 1)
		data = append(append(data, name...), "TREE\x00\x00\x00\x19\x001 0\n01234567890123456789"...)
		sum := sha1.Sum(data)
		if _, tree, ok := decodeIndex(append(bytes.Clone(data), sum[:]...)); !ok || tree.IsZero() {
			f.Fatalf("version %d is not decoded", version)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sum := sha1.Sum(data)
		data = append(data, sum[:]...)
		got, tree, ok := decodeIndex(data)
		if !ok {
			return
		}
		want, wantTree, err := asGoGit(data)
		if err != nil {
			return // go-git looks into extensions that are not used here
		}
		if tree != wantTree || !sameFiles(got, want) {
			t.Errorf("version %d: %v, tree %s; go-git has %v, tree %s", binary.BigEndian.Uint32(data[4:]), got, tree, want, wantTree)
		}
	})
}
