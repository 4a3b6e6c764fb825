package gitstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// maxObject bounds what is read of one object, whatever its declared size.
const maxObject = 32 << 20

// ErrTooLarge is an object that is larger than the store reads.
var ErrTooLarge = fmt.Errorf("it is larger than %d MiB", maxObject>>20)

// folder is one place of objects: the repository's own, one that it borrows from, or the store's own beside it. go-git's
// storage is not safe for concurrent use, so each folder has a lock; what is decoded is handed out as a copy.
type folder struct {
	dir string // holds objects/

	mu     sync.Mutex
	storer *filesystem.Storage
	seen   time.Time // when objects/pack was last changed, as the index of packs knows it
}

// openFolder opens the objects below dir.
func openFolder(dir string) *folder {
	f := &folder{dir: dir}
	f.storer = filesystem.NewStorageWithOptions(osfs.New(dir), cache.NewObjectLRU(16*cache.MiByte), filesystem.Options{
		KeepDescriptors:      true,
		LargeObjectThreshold: maxObject,
		// go-git would open borrowed folders anew for each object; see alternates.
		AlternatesFS: memfs.New(),
	})
	f.seen = f.packTime()
	return f
}

func (f *folder) packTime() time.Time {
	info, err := os.Stat(filepath.Join(f.dir, "objects", "pack"))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// read gives an object; ErrNotFound if it is not here. Packs that others wrote or removed meanwhile are looked for once.
func (f *folder) read(h Hash) (object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, err := f.decode(h)
	if err != nil && !errors.Is(err, ErrTooLarge) && f.refresh() {
		o, err = f.decode(h)
	}
	return o, err
}

func (f *folder) decode(h Hash) (object, error) {
	encoded, err := f.storer.EncodedObject(plumbing.AnyObject, plumbing.Hash(h))
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return object{}, ErrNotFound
	}
	if err != nil {
		return object{}, err
	}
	if encoded.Size() > maxObject {
		return object{}, ErrTooLarge
	}
	reader, err := encoded.Reader()
	if err != nil {
		return object{}, err
	}
	defer func() { _ = reader.Close() }()
	data := make([]byte, encoded.Size())
	if _, err := io.ReadFull(reader, data); err != nil {
		return object{}, err
	}
	return object{kind: encoded.Type().String(), data: data}, nil
}

func (f *folder) has(h Hash) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.storer.HasEncodedObject(plumbing.Hash(h)) == nil {
		return true
	}
	return f.refresh() && f.storer.HasEncodedObject(plumbing.Hash(h)) == nil
}

// refresh makes go-git see packs that came since it looked; false if there are none.
func (f *folder) refresh() bool {
	now := f.packTime()
	if now.Equal(f.seen) {
		return false
	}
	f.seen = now
	f.storer.Reindex()
	return true
}

func (f *folder) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.storer.Close()
}

// alternates lists the folders that a repository borrows objects from, as `git clone --shared` and --reference set up.
func alternates(dir string, depth int) []string {
	const deepest = 5                                                             // as Git
	data, err := os.ReadFile(filepath.Join(dir, "objects", "info", "alternates")) //nolint:gosec // the user's own repository
	if err != nil || depth > deepest {
		return nil
	}
	var out []string
	for line := range strings.SplitSeq(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || filepath.Base(line) != "objects" {
			continue
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(dir, "objects", line)
		}
		out = append(out, filepath.Dir(line))
		out = append(out, alternates(filepath.Dir(line), depth+1)...)
	}
	return out
}
