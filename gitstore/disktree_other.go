//go:build !linux

package gitstore

import (
	"io/fs"
	"os"
	"path/filepath"
)

// treeOnDisk reads a folder and those below it.
type treeOnDisk struct{ root string }

// openTree opens a folder. Close it.
func openTree(root string) (*treeOnDisk, error) { return &treeOnDisk{root}, nil }

func (t *treeOnDisk) close() {}

// identify has folders identified where that is known to be safe.
func (t *treeOnDisk) identify() {}

// identity returns what identifies a folder; false if nothing does.
func (t *treeOnDisk) identity(string) (folderIdentity, bool) { return folderIdentity{}, false }

// list returns the names in a folder; at is its path from root with slashes. Nothing identifies the folder.
func (t *treeOnDisk) list(at string) ([]dirItem, folderIdentity, error) {
	list, err := os.ReadDir(filepath.Join(t.root, filepath.FromSlash(at)))
	if err != nil {
		return nil, folderIdentity{}, err
	}
	out := make([]dirItem, len(list))
	for i, item := range list {
		out[i] = dirItem{item.Name(), item.IsDir()}
	}
	return out, folderIdentity{}, nil
}

// stat returns what a file is; at is its path from root with slashes.
func (t *treeOnDisk) stat(at string) (fileStat, error) {
	info, err := os.Lstat(filepath.Join(t.root, filepath.FromSlash(at)))
	if err != nil {
		return fileStat{}, err
	}
	out := fileStat{mode: info.Mode().Perm(), size: info.Size(), modified: info.ModTime()}
	switch {
	case info.Mode().IsRegular():
	case info.Mode()&fs.ModeSymlink != 0:
		out.mode |= fs.ModeSymlink
	default:
		out.mode |= fs.ModeIrregular
	}
	return out, nil
}
