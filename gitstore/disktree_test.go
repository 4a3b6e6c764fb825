package gitstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A folder on disk is what os.ReadDir and os.Lstat say.
func TestTreeOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 1500 { // more than one call of the system returns
		write(t, dir, fmt.Sprintf("many/%03d-%s", i, strings.Repeat("n", i%200)), "x")
	}
	for _, name := range []string{".hidden", "...", "..a", "two\nlines", "\xff\xfe", "ü", " ", "deep/er/file"} {
		write(t, dir, name, "some text")
	}
	chmod(t, filepath.Join(dir, "ü"), 0o755)
	mkdir(t, filepath.Join(dir, "empty"))
	relink(t, "deep", filepath.Join(dir, "folder link"))
	relink(t, "nothing", filepath.Join(dir, "broken link"))
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	disk, err := openTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.close()
	for _, at := range []string{"", "many", "deep", "deep/er", "empty"} {
		compareFolder(t, disk, dir, at)
	}
	if list, _, err := disk.list("folder link"); err == nil {
		t.Errorf("a link to a folder is followed: %v", list)
	}
	for _, name := range []string{"missing", "ü/file"} {
		if _, _, err := disk.list(name); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := disk.stat(name); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := disk.stat("missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := openTree(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
}

func compareFolder(t *testing.T, disk *treeOnDisk, dir, at string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, at))
	if err != nil {
		t.Fatal(err)
	}
	var want []dirItem
	for _, e := range entries {
		want = append(want, dirItem{e.Name(), e.IsDir()})
	}
	got, _, err := disk.list(at)
	slices.SortFunc(got, func(a, b dirItem) int { return strings.Compare(a.name, b.name) })
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q: %d names of %d: %v", at, len(got), len(want), err)
	}
	for _, item := range want {
		info, err := os.Lstat(filepath.Join(dir, at, item.name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := disk.stat(inFolder(at, item.name))
		if err != nil || got.mode.Perm() != info.Mode().Perm() || got.mode&fs.ModeSymlink != info.Mode()&fs.ModeSymlink ||
			got.mode.IsRegular() != info.Mode().IsRegular() || got.size != info.Size() || !got.modified.Equal(info.ModTime()) {
			t.Errorf("%q: %v, %v; it is %v", item.name, got, err, info)
		}
	}
}
