package pack

import (
	"errors"
	"path/filepath"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
)

// install renames a packfile and its index to their final names, so that a reader sees both or neither: Git and this
// package ignore a .pack without an .idx. It syncs both files before it renames them, and the names before it
// returns.
func install(d disk.Disk, base, packFile, indexFile string) error {
	if err := d.Rename(packFile, base+".pack"); err != nil {
		return err
	}
	if err := d.Rename(indexFile, base+".idx"); err != nil {
		return err
	}
	return disk.SyncFolder(d, filepath.Dir(base))
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
func removePack(d disk.Disk, base string) error {
	var errs []error
	for _, suffix := range []string{".idx", ".rev", ".bitmap", ".pack"} {
		errs = append(errs, d.RemoveAll(base+suffix))
	}
	return errors.Join(errs...)
}
