package gitstore

import (
	"os"
	"path/filepath"
	"testing"
)

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
