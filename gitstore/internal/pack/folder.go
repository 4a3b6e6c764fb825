package pack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/cache"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
)

// Folder is one object directory: the repository's own, one that it borrows from, or the cache beside it. It is safe
// for concurrent use. The caller owns the bytes that it returns.
type Folder struct {
	dir   string // holds objects/
	cache bool   // all of it can be fetched again, so damaged packs are removed rather than reported
	disk  disk.Disk

	known     *cache.BufferLRU // by pack.key
	inflaters sync.Pool        // of *inflater

	mu     sync.RWMutex // readers hold it while they use packs
	packs  []*pack      // newest first
	broken map[string]error
	listed bool
	closed bool
	nextID int64
	seen   time.Time // modification time of objects/pack when packs was read
}

// OpenFolder opens the objects below dir.
func OpenFolder(dir string, d disk.Disk) *Folder {
	const cacheSize = 16 * cache.MiByte
	return &Folder{dir: dir, disk: d, known: cache.NewBufferLRU(cacheSize), broken: map[string]error{}}
}

// OpenCache opens a folder whose content can be fetched again.
func OpenCache(dir string, d disk.Disk) *Folder {
	f := OpenFolder(dir, d)
	f.cache = true
	return f
}

// Dir returns the folder that holds objects/.
func (f *Folder) Dir() string { return f.dir }

func (f *Folder) packDir() string { return filepath.Join(f.dir, "objects", "pack") }

func (f *Folder) packTime() time.Time {
	info, err := os.Stat(f.packDir())
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Read returns an object, or ErrNotFound. It notices packs that other processes add or remove.
func (f *Folder) Read(h Hash) (Object, error) {
	f.list(false)
	o, err := f.lookup(h)
	if err != nil && !errors.Is(err, ErrTooLarge) && f.refresh() {
		o, err = f.lookup(h)
	}
	return o, err
}

// ReadPacked returns an object of the packs that are open, or an error. A store tries it with all folders before Read:
// Read looks for a file and for new packs in a folder that does not have the object, which costs more than reading it
// from a pack of another folder.
func (f *Folder) ReadPacked(h Hash) (Object, error) {
	f.list(false)
	o, _, err := f.packed(h)
	return o, err
}

func (f *Folder) lookup(h Hash) (Object, error) {
	o, bad, err := f.packed(h)
	if bad != nil && f.cache {
		f.discard(bad) // another pack may have the object; otherwise it will be fetched again
		return f.lookup(h)
	}
	if err == nil || errors.Is(err, ErrTooLarge) {
		return o, err
	}
	loose, looseErr := f.loose(h)
	if looseErr == nil || errors.Is(err, ErrNotFound) {
		return loose, looseErr
	}
	return Object{}, err
}

// packed reads an object from the packs. bad is a pack whose index has the object, but whose data is damaged.
func (f *Folder) packed(h Hash) (o Object, bad *pack, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	err = ErrNotFound
	for _, p := range f.packs {
		offset, ok, findErr := p.index.find(h)
		if findErr == nil && !ok {
			continue
		}
		if findErr == nil {
			o, findErr = p.at(offset, f.known)
		}
		if findErr == nil && Sum(o.Kind, o.Data) != h {
			findErr = fmt.Errorf("object %s has other content", h)
		}
		if findErr == nil {
			o.Data = bytes.Clone(o.Data)
			return o, nil, nil
		}
		if err = Damage(p.base+".pack", findErr); errors.Is(err, ErrDamaged) {
			bad = p
			continue
		}
		return Object{}, nil, err
	}
	if err == ErrNotFound { //nolint:errorlint // set above
		err = f.missing()
	}
	return Object{}, bad, err
}

// missing returns the reason why an object is not found: a pack that cannot be opened may hold it.
func (f *Folder) missing() error {
	if f.cache {
		return ErrNotFound
	}
	for _, err := range f.broken {
		return err
	}
	return ErrNotFound
}

func (f *Folder) looseFile(h Hash) string {
	name := h.String()
	return filepath.Join(f.dir, "objects", name[:2], name[2:])
}

func (f *Folder) loose(h Hash) (Object, error) {
	name := f.looseFile(h)
	file, err := os.Open(name) //nolint:gosec // a repository's object
	if errors.Is(err, fs.ErrNotExist) {
		return Object{}, ErrNotFound
	}
	if err != nil {
		return Object{}, err
	}
	defer func() { _ = file.Close() }() // opened for reading only
	in, ok := f.inflaters.Get().(*inflater)
	if !ok {
		in = &inflater{in: bufio.NewReader(nil)}
	}
	defer f.inflaters.Put(in)
	o, err := in.loose(file)
	if err == nil && Sum(o.Kind, o.Data) != h {
		err = errors.New("its content is not what its name says")
	}
	return o, Damage(name, err)
}

// Has reports whether the folder has an object. It notices packs that other processes add.
func (f *Folder) Has(h Hash) bool {
	f.list(false)
	return f.hasNow(h) || f.refresh() && f.hasNow(h)
}

func (f *Folder) hasNow(h Hash) bool {
	if f.HasPacked(h) {
		return true
	}
	_, err := os.Stat(f.looseFile(h))
	return err == nil
}

// HasPacked reports whether one of the packs that are open has the object.
func (f *Folder) HasPacked(h Hash) bool {
	f.list(false)
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.ContainsFunc(f.packs, func(p *pack) bool {
		_, ok, err := p.index.find(h)
		return ok && err == nil
	})
}

// WithPrefix lists the objects whose names begin with hexadecimal digits, at least two.
func (f *Folder) WithPrefix(digits string) []Hash {
	f.refresh()
	f.list(false)
	f.mu.RLock()
	defer f.mu.RUnlock()
	var out []Hash
	for _, p := range f.packs {
		out = append(out, p.index.withPrefix(digits)...)
	}
	entries, err := os.ReadDir(filepath.Join(f.dir, "objects", digits[:2]))
	if err != nil {
		return out // most of these folders do not exist
	}
	for _, e := range entries {
		if h, err := ParseHash(digits[:2] + e.Name()); err == nil && strings.HasPrefix(h.String(), digits) {
			out = append(out, h)
		}
	}
	return out
}

// refresh finds packs that were added or removed since the last listing. It returns false if nothing changed.
func (f *Folder) refresh() bool {
	f.mu.RLock()
	seen := f.seen
	f.mu.RUnlock()
	if f.packTime().Equal(seen) {
		return false
	}
	f.list(true)
	return true
}

// list opens the packs of the folder. It ignores a .pack without an .idx: it is incomplete, or its writer was killed.
// Packs that still exist stay open.
func (f *Folder) list(again bool) {
	f.mu.RLock()
	listed := f.listed
	f.mu.RUnlock()
	if listed && !again {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.listed && !again {
		return
	}
	f.listed, f.seen = true, f.packTime() // set before the folder is read, so that later changes are noticed
	open := map[string]*pack{}
	for _, p := range f.packs {
		open[p.base] = p
	}
	f.packs = nil
	clear(f.broken)
	bases, err := packBases(f.packDir())
	if err != nil {
		f.broken[f.packDir()] = err
	}
	for _, base := range bases {
		p := open[base]
		delete(open, base)
		if p == nil {
			f.nextID++
			var err error
			if p, err = openPack(base, f.nextID); err != nil {
				f.fail(base, err)
				continue
			}
		}
		f.packs = append(f.packs, p)
	}
	for _, p := range open {
		_ = p.close() // opened for reading only
	}
}

// fail records a pack that cannot be opened. A cache removes the pack.
func (f *Folder) fail(base string, err error) {
	if _, statErr := os.Stat(base + ".idx"); errors.Is(statErr, fs.ErrNotExist) {
		return // removed meanwhile
	}
	err = Damage(base+".idx", err)
	if f.cache && errors.Is(err, ErrDamaged) {
		_ = removePack(f.disk, base) // in a read-only cache the files stay, without harm
		return
	}
	f.broken[base] = err
}

// discard closes a damaged pack of a cache and removes its files.
func (f *Folder) discard(p *pack) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.packs, p)
	if i < 0 {
		return // another reader was first
	}
	f.packs = slices.Delete(slices.Clone(f.packs), i, i+1)
	_ = p.close()                  // opened for reading only
	_ = removePack(f.disk, p.base) // in a read-only cache the files stay, but this process no longer uses them
}

// packBases lists the packs that have an index, newest first, as paths without suffix.
func packBases(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, disk.IgnoreMissing(err) // no packs yet
	}
	type found struct {
		base string
		at   time.Time
	}
	var packs []found
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), ".idx")
		if !ok || !strings.HasPrefix(base, "pack-") {
			continue
		}
		if info, err := e.Info(); err == nil { // otherwise it was removed meanwhile
			packs = append(packs, found{filepath.Join(dir, base), info.ModTime()})
		}
	}
	slices.SortStableFunc(packs, func(a, b found) int { return b.at.Compare(a.at) })
	out := make([]string, len(packs))
	for i, p := range packs {
		out[i] = p.base
	}
	return out, nil
}

// Close closes the packs.
func (f *Folder) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, p := range f.packs {
		errs = append(errs, p.close())
	}
	f.packs, f.closed = nil, true
	return errors.Join(errs...)
}
