package pack

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
)

// Receive indexes a packfile while it arrives and stores it in the folder. Other goroutines can read the folder
// meanwhile.
func (f *Folder) Receive(stream io.Reader) error {
	if err := f.disk.MkdirAll(f.packDir()); err != nil {
		return err
	}
	// go-git writes an index under its final name from the start, so a killed process would leave half of it.
	// Therefore go-git writes to a temporary folder.
	temp, err := os.MkdirTemp(f.packDir(), disk.TempFetch)
	if err != nil {
		return err
	}
	err = f.index(stream, temp)
	if err = errors.Join(err, f.disk.RemoveAll(temp)); err != nil {
		return err
	}
	f.list(true)
	return nil
}

// index indexes a packfile in a temporary folder, and moves both files into this one.
func (f *Folder) index(stream io.Reader, temp string) error {
	into := filesystem.NewStorage(osfs.New(temp), cache.NewObjectLRU(cache.MiByte))
	err := packfile.UpdateObjectStorage(into, stream)
	if err = errors.Join(err, into.Close()); err != nil && !errors.Is(err, packfile.ErrEmptyPackfile) {
		return err
	}
	bases, err := packBases(filepath.Join(temp, "objects", "pack"))
	if err != nil {
		return err
	}
	for _, base := range bases {
		final := filepath.Join(f.packDir(), filepath.Base(base))
		if installed(final) {
			continue
		}
		if err := errors.Join(disk.SyncFile(f.disk, base+".pack"), disk.SyncFile(f.disk, base+".idx")); err != nil {
			return err
		}
		if err := install(f.disk, final, base+".pack", base+".idx"); err != nil {
			return err
		}
	}
	return nil
}
