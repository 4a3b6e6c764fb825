package importer

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/importer/internal/wire"
)

// Memory keeps imports of one repository in files of a folder, between runs of the command line: whole imports by the
// tree of the commit, and parts of them by a digest of everything that they were computed from. What it holds was
// computed in worker processes from content that may be hostile, so only verbs that show something use a Memory, and no
// verb that writes branches. Without its files everything is computed again. It is safe for concurrent use, and several
// processes may use one folder.
type Memory struct {
	dir, scope string
	now        func() time.Time

	mu    sync.Mutex
	parts []byte // the file of parts, encoded; nil before it was read
}

// Limits of the folder.
const (
	maxFile    = 64 << 20            // bytes of one file
	maxFiles   = 256 << 20           // bytes of all files
	maxAge     = 30 * 24 * time.Hour // since a file was used
	maxPartAge = maxAge / dayHour    // in days
	dayHour    = 24 * time.Hour
)

// NewMemory returns the memory of a repository in a folder. What another version of Sluice stored is not used.
func NewMemory(dir, repository, version string, now func() time.Time) *Memory {
	return &Memory{dir: dir, scope: format + "\x00" + version + "\x00" + repository, now: now}
}

// format changes with the encoding of the files.
const format = "CBOR 1"

func (m *Memory) file(parts ...string) string {
	h := sha256.New()
	for _, p := range append([]string{m.scope}, parts...) {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return filepath.Join(m.dir, hex.EncodeToString(h.Sum(nil)))
}

// read returns the content of a file; nil if it does not exist, or is damaged.
func (m *Memory) read(file string) []byte {
	data, err := os.ReadFile(file) //nolint:gosec // in Sluice's own cache
	if err != nil || len(data) < sha256.Size {
		return nil
	}
	sum, body := data[:sha256.Size], data[sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(sum, got[:]) {
		return nil
	}
	_ = os.Chtimes(file, m.now(), m.now()) // a wrong time only makes it go earlier
	return body
}

// write replaces a file atomically, and removes files that were not used for long. An error makes the next run compute
// again.
func (m *Memory) write(file string, body []byte) error {
	if len(body) > maxFile {
		return nil
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(m.dir, ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it is gone after the rename
	sum := sha256.Sum256(body)
	_, err = f.Write(append(sum[:], body...))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := errors.Join(os.Chtimes(f.Name(), m.now(), m.now()), os.Rename(f.Name(), file)); err != nil {
		return err
	}
	return m.prune()
}

func (m *Memory) prune() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	var files []os.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() { // another process may have removed it
			files = append(files, info)
		}
	}
	slices.SortStableFunc(files, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	total := int64(0)
	for _, f := range files {
		if total += f.Size(); total > maxFiles || m.now().Sub(f.ModTime()) > maxAge {
			_ = os.Remove(filepath.Join(m.dir, f.Name())) // the next run tries again
		}
	}
	return nil
}

// answer returns the answer of a job on a tree; nil if it is not known.
func (m *Memory) answer(input []byte, tree string) []byte {
	if tree == "" {
		return nil
	}
	return m.read(m.file("answer", string(input), tree))
}

func (m *Memory) storeAnswer(input []byte, tree string, answer []byte) {
	if tree != "" {
		_ = m.write(m.file("answer", string(input), tree), answer) // the next run computes it again
	}
}

// known returns all parts, for a worker process.
func (m *Memory) known() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parts == nil {
		if m.parts = m.read(m.file("parts")); m.parts == nil {
			m.parts = []byte{}
		}
	}
	return m.parts
}

// learn stores parts that a worker process computed. used are the keys of those that it took.
func (m *Memory) learn(learned map[string][]byte, used []string) {
	if len(learned) == 0 {
		return
	}
	m.known()
	m.mu.Lock()
	defer m.mu.Unlock()
	all, err := decodeParts(m.parts)
	if err != nil {
		all = parts{}
	}
	today := uint32(m.now().Unix() / int64(dayHour/time.Second)) //nolint:gosec // days since 1970
	for key, data := range learned {
		all[key] = part{day: today, data: data}
	}
	for _, key := range used {
		if p, ok := all[key]; ok {
			p.day = today
			all[key] = p
		}
	}
	if m.parts, err = all.encode(today); err == nil {
		_ = m.write(m.file("parts"), m.parts) // the next run computes them again
	}
}

// part is a value that a worker process computed, with the day of its last use.
type part struct {
	day  uint32
	data []byte
}

type parts map[string]part

// storedPart is a part in the file, which is a list of them.
type storedPart struct {
	_    struct{} `cbor:",toarray"`
	Key  string
	Day  uint32
	Data []byte
}

// encode leaves out old parts, and the oldest that do not fit.
func (p parts) encode(today uint32) ([]byte, error) {
	all := make([]storedPart, 0, len(p))
	for key, one := range p {
		all = append(all, storedPart{Key: key, Day: one.day, Data: one.data})
	}
	slices.SortStableFunc(all, func(a, b storedPart) int {
		return cmp.Or(cmp.Compare(b.Day, a.Day),
			cmp.Compare(a.Key, b.Key))
	})
	size := maxHead
	for n, one := range all {
		size += len(one.Key) + len(one.Data) + maxHead
		if size > maxFile || today > one.Day+uint32(maxPartAge) {
			all = all[:n]
			break
		}
	}
	return wire.Marshal(all)
}

// maxHead is more than the numbers of a part take.
const maxHead = 64

func decodeParts(data []byte) (parts, error) {
	out := parts{}
	if len(data) == 0 {
		return out, nil
	}
	var all []storedPart
	if err := wire.Unmarshal(data, &all); err != nil {
		return out, err
	}
	for _, one := range all {
		out[one.Key] = part{day: one.Day, data: one.Data}
	}
	return out, nil
}

// workerMemory is the memory of a worker process, which works for one owner. It is safe for concurrent use.
type workerMemory struct {
	mu      sync.Mutex
	values  map[string][]byte
	bytes   int
	loaded  bool
	learned map[string][]byte // by the current job; nil if its parent keeps nothing
	used    map[string]bool
	room    int // bytes that may still go into learned
}

const (
	maxWorkerMemory = 64 << 20     // bytes
	maxLearned      = maxFile >> 1 // bytes that an answer has beside its targets, so that it stays below importOutput
)

func newWorkerMemory() *workerMemory { return &workerMemory{values: map[string][]byte{}} }

// entryBytes is about what an entry of a map costs beside its key and its value. Many values are tiny.
const entryBytes = 100

// added returns the bytes that a map grows by.
func added(to map[string][]byte, key string, value []byte) int {
	if old, ok := to[key]; ok {
		return len(value) - len(old)
	}
	return len(value) + len(key) + entryBytes
}

// begin starts a job. It forgets what a job learned that failed.
func (r *workerMemory) begin(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.learned, r.used, r.room = nil, nil, maxLearned; j.Recall {
		r.learned, r.used = map[string][]byte{}, map[string]bool{}
	}
}

// load adds the parts of a file, once.
func (r *workerMemory) load(read func() ([]byte, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded {
		return nil
	}
	data, err := read()
	if err != nil {
		return err
	}
	r.loaded = true
	all, err := decodeParts(data)
	if err != nil {
		return nil // everything is computed again
	}
	for key, p := range all {
		r.bytes += added(r.values, key, p.data)
		r.values[key] = p.data
	}
	return nil
}

// Get implements flux.Memory.
func (r *workerMemory) Get(key string) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	data, ok := r.values[key]
	if ok && r.used != nil {
		r.used[key] = true
	}
	return data
}

// Put implements flux.Memory.
func (r *workerMemory) Put(key string, value []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes += added(r.values, key, value); r.bytes > maxWorkerMemory {
		r.values, r.bytes = map[string][]byte{}, len(value)
	}
	r.values[key] = value
	if size := added(r.learned, key, value); r.learned != nil && size <= r.room {
		r.learned[key] = value
		r.room -= size
	}
}

// report returns what the job learned, for the parent to keep, and begins a new list.
func (r *workerMemory) report() *memoryUpdate {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &memoryUpdate{}
	if len(r.learned) > 0 {
		out.Learned, out.Used = r.learned, slices.Collect(maps.Keys(r.used))
	}
	r.learned, r.used = nil, nil
	return out
}
