package pack

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
)

// ManySmall is the number of small packs at which Tidy merges them. Each fetch adds a pack, and a search must look into
// the index of every pack.
const ManySmall = 16

// smallPack is the size in bytes above which Tidy leaves a pack as it is.
const smallPack = 1 << 20

// manyPacks is the number of packs above which a cache of fetched objects costs more time than it saves.
const manyPacks = 200

// abandoned is the age at which a temporary file must belong to a killed process.
const abandoned = 24 * time.Hour

// Tidy keeps a cache of fetched objects, which dir holds as objects/, fast to search after many fetches. Other
// processes may read it meanwhile: a pack is removed after its replacement exists, and readers list the packs again
// when one has disappeared.
func Tidy(dir string, d disk.Disk) error {
	return errors.Join(RemoveAbandoned(filepath.Join(dir, "objects", "pack"), d), mergePacks(dir, d),
		prunePacks(dir, d))
}

// RemoveAbandoned removes files of killed processes from a folder: temporary files and packs without an index.
func RemoveAbandoned(at string, d disk.Disk) error {
	entries, err := os.ReadDir(at)
	if err != nil {
		return disk.IgnoreMissing(err)
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
			continue // removed meanwhile, in use, or possibly still being written
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
		if info, err := os.Stat(base + ".pack"); err == nil { // otherwise it was removed meanwhile
			packs = append(packs, info)
		}
	}
	return packs, nil
}

// mergePacks merges the small packs into one when there are many. It removes them only after the new pack has all of
// their objects.
func mergePacks(dir string, d disk.Disk) error {
	packs, err := packsOf(dir)
	if err != nil {
		return err
	}
	packs = slices.DeleteFunc(packs, func(p fs.FileInfo) bool { return p.Size() > smallPack })
	if len(packs) < ManySmall {
		return nil
	}
	from := OpenCache(dir, d)
	defer func() { _ = from.Close() }() // opened for reading only
	w, err := NewWriter(d, from.packDir())
	if err != nil {
		return fmt.Errorf("start a packfile: %w", err)
	}
	defer func() { _ = w.Close() }() // if the temporary file stays, a later call removes it
	for _, p := range packs {
		if err := w.addPack(from, p.Name()); err != nil {
			return fmt.Errorf("merge %s: %w", p.Name(), err)
		}
	}
	if err := w.StoreIn(from); err != nil {
		return err
	}
	checksum, err := w.checksum()
	if err != nil {
		return err
	}
	merged := "pack-" + checksum.String() + ".pack"
	return removePacks(dir, d, slices.DeleteFunc(packs, func(p fs.FileInfo) bool { return p.Name() == merged }))
}

// addPack adds all objects in a pack's index. It copies those that are stored as a whole as they were compressed, if
// their checksum is the index's: compressing the large trees of a fleet again took most of the time. Whoever reads an
// object compares its name.
func (w *Writer) addPack(from *Folder, name string) error {
	base := filepath.Join(from.packDir(), strings.TrimSuffix(name, ".pack"))
	index, err := openIndex(base + ".idx")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process removed it, or the folder removed it as damaged
	}
	if _, unread := errors.AsType[*fs.PathError](err); unread {
		return err
	}
	if err != nil {
		return nil // the index is damaged: the pack is removed with the merged ones, and its objects are fetched again
	}
	defer func() { _ = index.close() }() // opened for reading only
	//nolint:gosec // a cache's pack of at most smallPack bytes; without them, from reads each object
	data, _ := os.ReadFile(base + ".pack")
	places := packedPlaces(index, len(data)-hashSize)
	for i := range index.count {
		h := index.name(i)
		if place := &places[i]; place.end > 0 {
			if copied, err := w.addPacked(h, data[place.begin:place.end], place.crc); copied || err != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		o, err := from.Read(h)
		if errors.Is(err, ErrNotFound) {
			continue // the pack is damaged; its objects are fetched again when they are needed
		}
		if err != nil {
			return err
		}
		if _, err := w.Add(o.Kind, o.Data); err != nil {
			return err
		}
	}
	return nil
}

// packedPlace is where a packfile has an object, and the checksum of these bytes.
type packedPlace struct {
	begin, end int // end is 0 if the place is not known
	crc        uint32
}

// packedPlaces returns the place of each object of an index. end is where the last object ends.
func packedPlaces(index *packIndex, end int) []packedPlace {
	out, order := make([]packedPlace, index.count), make([]*packedPlace, 0, index.count)
	for i := range out {
		offset, err := index.offset(i)
		crc, crcErr := index.checksum(i)
		if err != nil || crcErr != nil || offset < packHeader || offset >= int64(end) {
			return make([]packedPlace, index.count) // damaged: an object would end at a wrong place
		}
		out[i].begin, out[i].crc = int(offset), crc
		order = append(order, &out[i])
	}
	slices.SortFunc(order, func(a, b *packedPlace) int { return cmp.Compare(a.begin, b.begin) })
	for n, place := range order {
		place.end = end
		if n+1 < len(order) {
			place.end = order[n+1].begin
		}
	}
	return out
}

// prunePacks removes the older half of a cache's packs when there are manyPacks. Their objects are fetched again when
// they are needed.
func prunePacks(dir string, d disk.Disk) error {
	packs, err := packsOf(dir)
	if err != nil || len(packs) < manyPacks {
		return err
	}
	slices.SortStableFunc(packs, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	return removePacks(dir, d, packs[:len(packs)/2])
}

func removePacks(dir string, d disk.Disk, packs []fs.FileInfo) error {
	var errs []error
	for _, pack := range packs {
		errs = append(errs, removePack(d, filepath.Join(dir, "objects", "pack",
			strings.TrimSuffix(pack.Name(), ".pack"))))
	}
	return errors.Join(errs...)
}
