package gitstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// manyPacks is when a folder of fetched objects begins to cost more than it saves: every pack is an index to look into.
const manyPacks = 200

// prunePacks removes the older half of a cache's packs when they are many. What is needed again is fetched again.
func prunePacks(dir string) error {
	at := filepath.Join(dir, "objects", "pack")
	entries, err := os.ReadDir(at)
	if err != nil {
		return ignoreMissing(err)
	}
	var packs []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".pack") {
			packs = append(packs, info)
		}
	}
	if len(packs) < manyPacks {
		return nil
	}
	slices.SortFunc(packs, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	var errs []error
	for _, pack := range packs[:len(packs)/2] {
		base := filepath.Join(at, strings.TrimSuffix(pack.Name(), ".pack"))
		for _, suffix := range []string{".idx", ".rev", ".pack"} { // the index first: without it, Git sees no pack
			errs = append(errs, ignoreMissing(os.Remove(base+suffix)))
		}
	}
	return errors.Join(errs...)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
