// Package disk changes the files of a repository, through an interface that tests replace.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Disk changes files other than refs. Tests replace it by one that stops after any step, as a killed process does.
type Disk interface {
	MkdirAll(dir string) error
	CreateTemp(dir, pattern string) (*os.File, error)
	// Sync makes a file or folder survive a power cut.
	Sync(f *os.File) error
	Rename(from, to string) error
	RemoveAll(name string) error
}

// OS is the disk of the operating system.
type OS struct{}

// MkdirAll makes a folder and those above it, with the rights of Git's own.
func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o755) } //nolint:gosec // as Git's own folders

// CreateTemp creates a file with a name of its own.
func (OS) CreateTemp(dir, pattern string) (*os.File, error) { return os.CreateTemp(dir, pattern) }

// Sync makes a file or folder survive a power cut.
func (OS) Sync(f *os.File) error { return f.Sync() }

// Rename replaces a file.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// RemoveAll removes a file or folder, if there is one.
func (OS) RemoveAll(name string) error { return os.RemoveAll(name) }

// SyncFolder makes renames survive a power cut: a branch must not be on disk before its objects.
func SyncFolder(d Disk, dir string) error {
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

// SyncFile makes a finished file read-only and syncs it.
func SyncFile(d Disk, name string) error {
	f, err := os.Open(name) //nolint:gosec // our own temporary file
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o444), d.Sync(f), f.Close())
}

// WriteFile replaces a file as a whole.
func WriteFile(d Disk, name, text string) error {
	f, err := d.CreateTemp(filepath.Dir(name), TempFile)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, d.Sync(f), f.Close()); err != nil {
		return err
	}
	return d.Rename(f.Name(), name)
}

// CopyTemp copies an open file into a new synced temporary file of another folder and gives its name.
func CopyTemp(d Disk, from io.Reader, dir string) (string, error) {
	out, err := d.CreateTemp(dir, TempPack)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, from)
	return out.Name(), errors.Join(err, out.Chmod(0o444), d.Sync(out), out.Close())
}

// Prefixes of temporary files. Git knows these names as temporary: `git gc` removes files that killed processes left.
const (
	TempPack  = "tmp_pack_"
	TempIndex = "tmp_idx_"
	TempFetch = "tmp_fetch_"
	TempFile  = "tmp_file_"

	TempMirror = "tmp_mirror_"
)

// IgnoreMissing returns nil for a file that does not exist, and the error otherwise.
func IgnoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
