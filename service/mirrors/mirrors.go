// Package mirrors manages the clones of the repositories of a service.
//
// The package is not API: it can change in every release.
package mirrors

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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

// Mirrors manages the clones of a service's repositories, one folder for each. When they exceed a size, it deletes the
// clones that were not used for the longest time. All of them can be deleted at any time, because the remote has their
// content. Mirrors is safe for concurrent use. It neither deletes nor measures folders while it holds its lock, because
// a task of another repository, such as a command, would wait.
type Mirrors struct {
	dir    string
	limit  int64 // bytes
	remove func(folder string) error

	mu      sync.Mutex
	inUse   map[string]int         // folder → users
	damaged map[string]bool        // folders to delete before the next use
	known   map[string]mirrorState // by folder, measured after each use; nil until the first one ends
}

type mirrorState struct {
	used time.Time
	size int64
}

// New returns the mirrors below a folder, with a limit of bytes for all of them.
func New(dir string, limit int64) *Mirrors {
	return &Mirrors{dir: dir, limit: limit, remove: os.RemoveAll, inUse: map[string]int{}, damaged: map[string]bool{}}
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

// Acquire marks the folder of a repository as in use until release is called.
func (m *Mirrors) Acquire(p hint.Place, now time.Time) (folder string, release func(), err error) {
	folder = m.folder(p)
	m.mu.Lock()
	var gone []string
	if m.damaged[folder] && m.inUse[folder] == 0 && m.discard(folder, &gone) {
		delete(m.damaged, folder)
	}
	m.inUse[folder]++
	m.mu.Unlock()
	m.clear(gone)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		m.mu.Lock()
		m.inUse[folder]--
		m.mu.Unlock()
		return "", nil, fmt.Errorf("mirror of %s: %w", p, err)
	}
	_ = os.Chtimes(folder, now, now) // a wrong time only changes the order of eviction after a restart
	return folder, func() { m.release(folder, now) }, nil
}

// trash is the folder that clones are moved to before they are deleted. A process that was killed leaves clones there.
const trash = ".trash"

// discard moves a clone out of the way and adds its new place to a list for clear. The caller holds the lock.
func (m *Mirrors) discard(folder string, gone *[]string) bool {
	dir := filepath.Join(m.dir, trash)
	if os.MkdirAll(dir, 0o700) != nil {
		return false
	}
	to := filepath.Join(dir, rand.Text())
	if err := os.Rename(folder, to); err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	*gone = append(*gone, to)
	return true
}

// clear deletes what discard moved. What cannot be deleted stays until the next process starts.
func (m *Mirrors) clear(gone []string) {
	for _, folder := range gone {
		_ = m.remove(folder) // see above
	}
}

// release ends a use, and evicts other clones if all together exceed the limit.
func (m *Mirrors) release(folder string, used time.Time) {
	size := sizeOf(folder)
	earlier := m.earlier()
	m.mu.Lock()
	if m.inUse[folder]--; m.inUse[folder] == 0 {
		delete(m.inUse, folder)
	}
	if m.known == nil {
		m.known = earlier
	}
	m.known[folder] = mirrorState{used, size}
	gone := m.evict(folder)
	m.mu.Unlock()
	m.clear(gone)
}

// earlier returns the clones of an earlier process, and deletes what that did not. After the first use of a clone it
// returns nil.
func (m *Mirrors) earlier() map[string]mirrorState {
	m.mu.Lock()
	known := m.known != nil
	m.mu.Unlock()
	if known {
		return nil
	}
	out := map[string]mirrorState{}
	folders, err := filepath.Glob(filepath.Join(m.dir, "*", "*"))
	if err != nil {
		return out // the pattern is valid, and a folder that cannot be read has no clones to evict
	}
	for _, folder := range folders {
		info, err := os.Stat(folder)
		switch {
		case err != nil:
		case filepath.Base(filepath.Dir(folder)) == trash:
			_ = m.remove(folder) // the next process tries again
		default:
			out[folder] = mirrorState{info.ModTime(), sizeOf(folder)}
		}
	}
	return out
}

// evict discards unused clones, the least recently used first, until the others are within the limit, and returns what
// to clear. It keeps the clone that was used last, whatever its size. The caller holds the lock.
func (m *Mirrors) evict(last string) []string {
	var gone []string
	var total int64
	for _, k := range m.known {
		total += k.size
	}
	if total <= m.limit {
		return nil
	}
	for _, folder := range slices.SortedFunc(maps.Keys(m.known),
		func(a, b string) int { return m.known[a].used.Compare(m.known[b].used) }) {
		if total <= m.limit {
			break
		}
		if folder != last && m.inUse[folder] == 0 && m.discard(folder, &gone) {
			total -= m.known[folder].size
			delete(m.known, folder)
		}
	}
	return gone
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
