package gitstore

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// disk changes files other than refs. Tests replace it by a disk that stops after any step, as a killed process does.
type disk interface {
	MkdirAll(dir string) error
	CreateTemp(dir, pattern string) (*os.File, error)
	// Sync makes a file or folder survive a power cut.
	Sync(f *os.File) error
	Rename(from, to string) error
	RemoveAll(name string) error
}

type osDisk struct{}

func (osDisk) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o755) } //nolint:gosec // as Git's own folders

func (osDisk) CreateTemp(dir, pattern string) (*os.File, error) { return os.CreateTemp(dir, pattern) }

func (osDisk) Sync(f *os.File) error { return f.Sync() }

func (osDisk) Rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) RemoveAll(name string) error { return os.RemoveAll(name) }

// install renames a packfile and its index to their final names, so that a reader sees both or neither: Git and this
// package ignore a .pack without an .idx. It syncs both files before it renames them, and the names before it
// returns.
func install(d disk, base, packFile, indexFile string) error {
	if err := d.Rename(packFile, base+".pack"); err != nil {
		return err
	}
	if err := d.Rename(indexFile, base+".idx"); err != nil {
		return err
	}
	return syncFolder(d, filepath.Dir(base))
}

// installed reports whether a complete pack of this name exists.
func installed(base string) bool {
	p, err := openPack(base, 0)
	if err != nil {
		return false
	}
	_ = p.close() // opened for reading only
	return true
}

// removePack removes a pack's files. It removes the index first: without it, no reader uses the pack.
func removePack(d disk, base string) error {
	var errs []error
	for _, suffix := range []string{".idx", ".rev", ".bitmap", ".pack"} {
		errs = append(errs, d.RemoveAll(base+suffix))
	}
	return errors.Join(errs...)
}

// syncFolder makes renames survive a power cut: a branch must not be on disk before its objects.
func syncFolder(d disk, dir string) error {
	f, err := os.Open(dir) //nolint:gosec // the folder of a repository
	if err != nil {
		return err
	}
	err = d.Sync(f)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // the file system cannot sync folders
	}
	return errors.Join(err, f.Close())
}

// syncFile makes a finished file read-only and syncs it.
func syncFile(d disk, name string) error {
	f, err := os.Open(name) //nolint:gosec // our own temporary file
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o444), d.Sync(f), f.Close())
}

// writeFile replaces a file as a whole.
func writeFile(d disk, name, text string) error {
	f, err := d.CreateTemp(filepath.Dir(name), tempFile)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, d.Sync(f), f.Close()); err != nil {
		return err
	}
	return d.Rename(f.Name(), name)
}

// copyTemp copies an open file into a new synced temporary file of another folder and gives its name.
func copyTemp(d disk, from io.Reader, dir string) (string, error) {
	out, err := d.CreateTemp(dir, tempPack)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, from)
	return out.Name(), errors.Join(err, out.Chmod(0o444), d.Sync(out), out.Close())
}

// Git knows these names as temporary: `git gc` removes files that killed processes left.
const (
	tempPack  = "tmp_pack_"
	tempIndex = "tmp_idx_"
	tempFetch = "tmp_fetch_"
	tempFile  = "tmp_file_"

	tempMirror = "tmp_mirror_"
)
