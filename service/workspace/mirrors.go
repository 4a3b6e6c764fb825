package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// Mirrors manages the clones of a service's repositories, one folder for each. When they exceed a size, it deletes
// the clones that were not used for the longest time. All of them can be deleted at any time, because the remote has
// their content. Mirrors is safe for concurrent use.
type Mirrors struct {
	dir   string
	limit int64 // bytes

	mu      sync.Mutex
	inUse   map[string]int         // folder → users
	damaged map[string]bool        // folders to delete before the next use
	known   map[string]mirrorState // by folder, measured after each use; nil until the first one ends
}

type mirrorState struct {
	used time.Time
	size int64
}

// NewMirrors returns the mirrors below a folder, with a limit of bytes for all of them.
func NewMirrors(dir string, limit int64) *Mirrors {
	return &Mirrors{dir: dir, limit: limit, inUse: map[string]int{}, damaged: map[string]bool{}}
}

// Discard marks the clone of a repository for deletion before its next use.
func (m *Mirrors) Discard(p hint.Place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.damaged[m.folder(p)] = true
}

func (m *Mirrors) folder(p hint.Place) string {
	sum := sha256.Sum256([]byte(p))
	return filepath.Join(m.dir, p.Forge(), strings.ReplaceAll(p.Repo().Path, "/", "_")+"-"+hex.EncodeToString(sum[:4]))
}

// acquire marks the folder of a repository as in use until release is called.
func (m *Mirrors) acquire(p hint.Place, now time.Time) (folder string, release func(), err error) {
	folder = m.folder(p)
	m.mu.Lock()
	if m.damaged[folder] && m.inUse[folder] == 0 && os.RemoveAll(folder) == nil {
		delete(m.damaged, folder)
	}
	m.inUse[folder]++
	m.mu.Unlock()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		m.mu.Lock()
		m.inUse[folder]--
		m.mu.Unlock()
		return "", nil, fmt.Errorf("mirror of %s: %w", p, err)
	}
	_ = os.Chtimes(folder, now, now) // a wrong time only changes the order of eviction after a restart
	return folder, func() { m.release(folder, now) }, nil
}

// release ends a use, and evicts other clones if all together exceed the limit.
func (m *Mirrors) release(folder string, used time.Time) {
	size := sizeOf(folder)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inUse[folder]--; m.inUse[folder] == 0 {
		delete(m.inUse, folder)
	}
	if m.known == nil {
		m.known = m.existing()
	}
	m.known[folder] = mirrorState{used, size}
	m.evict(folder)
}

// existing returns the clones of an earlier process.
func (m *Mirrors) existing() map[string]mirrorState {
	out := map[string]mirrorState{}
	folders, err := filepath.Glob(filepath.Join(m.dir, "*", "*"))
	if err != nil {
		return out // the pattern is valid, and a folder that cannot be read has no clones to evict
	}
	for _, folder := range folders {
		if info, err := os.Stat(folder); err == nil {
			out[folder] = mirrorState{info.ModTime(), sizeOf(folder)}
		}
	}
	return out
}

// evict deletes unused clones, the least recently used first, until the others are within the limit. It keeps the
// clone that was used last, whatever its size. The caller holds the lock.
func (m *Mirrors) evict(last string) {
	var total int64
	for _, k := range m.known {
		total += k.size
	}
	if total <= m.limit {
		return
	}
	for _, folder := range slices.SortedFunc(maps.Keys(m.known), func(a, b string) int { return m.known[a].used.Compare(m.known[b].used) }) {
		if total <= m.limit {
			return
		}
		if folder != last && m.inUse[folder] == 0 && os.RemoveAll(folder) == nil {
			total -= m.known[folder].size
			delete(m.known, folder)
		}
	}
}

func sizeOf(folder string) int64 {
	var total int64
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error { // the walk function returns no error
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // an unreadable file counts as 0 bytes
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}
