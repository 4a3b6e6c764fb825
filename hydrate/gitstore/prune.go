package gitstore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
)

// Each fetch leaves a pack, and most are small: every one is an index to look into. So many small ones become one.
const (
	manySmall = 16
	smallPack = 1 << 20 // bytes; a pack that has grown beyond is left as it is
)

// manyPacks is when a folder of fetched objects begins to cost more than it saves: every pack is an index to look into.
const manyPacks = 200

// tidyPacks keeps a folder of fetched objects quick to look into, however many fetches there were. Others may read it meanwhile: a pack
// goes after what takes its place is there, and readers look for packs again when one is gone.
func tidyPacks(dir string) error {
	return errors.Join(mergePacks(dir), prunePacks(dir))
}

func packsOf(dir string) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "objects", "pack"))
	if err != nil {
		return nil, ignoreMissing(err)
	}
	var packs []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".pack") {
			packs = append(packs, info)
		}
	}
	return packs, nil
}

// mergePacks makes one pack of the small ones when they are many. Nothing is removed unless all of it is in the new one.
func mergePacks(dir string) error {
	packs, err := packsOf(dir)
	if err != nil {
		return err
	}
	packs = slices.DeleteFunc(packs, func(p fs.FileInfo) bool { return p.Size() > smallPack })
	if len(packs) < manySmall {
		return nil
	}
	from := openFolder(dir)
	defer func() { _ = from.close() }()
	s := newStore()
	s.dir = dir
	w, err := s.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
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
	return removePacks(dir, slices.DeleteFunc(packs, func(p fs.FileInfo) bool { return p.Name() == merged }))
}

// addPack adds all objects that a pack's index names.
func (w *Writer) addPack(from *folder, name string) error {
	at := filepath.Join(from.dir, "objects", "pack", strings.TrimSuffix(name, ".pack")+".idx")
	file, err := os.Open(at) //nolint:gosec // a cache's own file
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	index := idxfile.NewMemoryIndex()
	if err := idxfile.NewDecoder(bufio.NewReader(file)).Decode(index); err != nil {
		return err
	}
	entries, err := index.Entries()
	if err != nil {
		return err
	}
	defer func() { _ = entries.Close() }()
	for {
		e, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		o, err := from.read(Hash(e.Hash))
		if err != nil {
			return err
		}
		if h, err := w.add(o.kind, o.data); err != nil {
			return err
		} else if h != Hash(e.Hash) {
			return fmt.Errorf("%s reads as %s", e.Hash, h)
		}
	}
}

// prunePacks removes the older half of a cache's packs when they are many all the same. What is needed again is fetched again.
func prunePacks(dir string) error {
	packs, err := packsOf(dir)
	if err != nil || len(packs) < manyPacks {
		return err
	}
	slices.SortFunc(packs, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	return removePacks(dir, packs[:len(packs)/2])
}

func removePacks(dir string, packs []fs.FileInfo) error {
	var errs []error
	for _, pack := range packs {
		base := filepath.Join(dir, "objects", "pack", strings.TrimSuffix(pack.Name(), ".pack"))
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
