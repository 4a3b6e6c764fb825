package gitstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Each fetch leaves a pack, and every pack is an index to search. tidyPacks merges small packs when there are manySmall.
const (
	manySmall = 16
	smallPack = 1 << 20 // bytes; larger packs stay as they are
)

// manyPacks is the number of packs from which a cache of fetched objects costs more than it saves.
const manyPacks = 200

// abandoned is the age from which a temporary file belongs to a process that was killed.
const abandoned = 24 * time.Hour

// tidyPacks keeps a cache of fetched objects quick to search, however many fetches there were. Other processes may read it
// meanwhile: a pack goes after the one that replaces it is there, and readers look for packs again when one is gone.
func tidyPacks(dir string, d disk) error {
	return errors.Join(removeAbandoned(filepath.Join(dir, "objects", "pack"), d), mergePacks(dir, d), prunePacks(dir, d))
}

// removeAbandoned removes what killed processes left in a folder: temporary files and packs without an index.
func removeAbandoned(at string, d disk) error {
	entries, err := os.ReadDir(at)
	if err != nil {
		return ignoreMissing(err)
	}
	var errs []error
	for _, e := range entries {
		base, isPack := strings.CutSuffix(e.Name(), ".pack")
		if isPack {
			_, err := os.Stat(filepath.Join(at, base+".idx"))
			isPack = errors.Is(err, fs.ErrNotExist)
		}
		info, err := e.Info()
		if err != nil || !isPack && !strings.HasPrefix(e.Name(), "tmp_") || time.Since(info.ModTime()) < abandoned {
			continue // removed meanwhile, in use, or possibly being written
		}
		errs = append(errs, d.RemoveAll(filepath.Join(at, e.Name())))
	}
	return errors.Join(errs...)
}

// packsOf lists the packs that have an index.
func packsOf(dir string) ([]fs.FileInfo, error) {
	bases, err := packBases(filepath.Join(dir, "objects", "pack"))
	if err != nil {
		return nil, err
	}
	var packs []fs.FileInfo
	for _, base := range bases {
		if info, err := os.Stat(base + ".pack"); err == nil { // else removed meanwhile
			packs = append(packs, info)
		}
	}
	return packs, nil
}

// mergePacks makes one pack of the small ones when they are many. It removes nothing unless the new pack has all of it.
func mergePacks(dir string, d disk) error {
	packs, err := packsOf(dir)
	if err != nil {
		return err
	}
	packs = slices.DeleteFunc(packs, func(p fs.FileInfo) bool { return p.Size() > smallPack })
	if len(packs) < manySmall {
		return nil
	}
	from := openCache(dir, d)
	defer func() { _ = from.close() }() // opened for reading
	s := newStore()
	s.dir, s.disk = dir, d
	w, err := s.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // a temporary file that stays is removed later
	for _, p := range packs {
		if err := w.addPack(from, p.Name()); err != nil {
			return fmt.Errorf("merge %s: %w", p.Name(), err)
		}
	}
	if err := w.storePack(from); err != nil {
		return err
	}
	checksum, err := w.checksum()
	if err != nil {
		return err
	}
	merged := "pack-" + checksum.String() + ".pack"
	return removePacks(dir, d, slices.DeleteFunc(packs, func(p fs.FileInfo) bool { return p.Name() == merged }))
}

// addPack adds all objects that a pack's index names.
func (w *Writer) addPack(from *folder, name string) error {
	index, err := openIndex(filepath.Join(from.packDir(), strings.TrimSuffix(name, ".pack")+".idx"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process removed it, or the folder did because it is damaged
	}
	if err != nil {
		return err
	}
	defer func() { _ = index.close() }() // opened for reading
	for i := range index.count {
		h := index.name(i)
		o, err := from.read(h)
		if errors.Is(err, ErrNotFound) {
			continue // the pack is damaged; what is needed again is fetched again
		}
		if err != nil {
			return err
		}
		if _, err := w.add(o.kind, o.data); err != nil {
			return err
		}
	}
	return nil
}

// prunePacks removes the older half of a cache's packs when there are manyPacks. Objects that are needed again are fetched
// again.
func prunePacks(dir string, d disk) error {
	packs, err := packsOf(dir)
	if err != nil || len(packs) < manyPacks {
		return err
	}
	slices.SortFunc(packs, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	return removePacks(dir, d, packs[:len(packs)/2])
}

func removePacks(dir string, d disk, packs []fs.FileInfo) error {
	var errs []error
	for _, pack := range packs {
		errs = append(errs, removePack(d, filepath.Join(dir, "objects", "pack", strings.TrimSuffix(pack.Name(), ".pack"))))
	}
	return errors.Join(errs...)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
