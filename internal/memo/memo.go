// Package memo keeps small results between the runs of a command, in one file. A result belongs to a key that names everything that it was
// computed from, so it never becomes wrong, and without the file everything is computed again.
package memo

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Key names a result.
type Key [16]byte

// KeyOf returns the key of everything that a result was computed from. Different lists of parts have different keys.
func KeyOf(parts ...string) Key {
	var buf [256]byte
	text := buf[:0]
	for _, p := range parts {
		text = binary.AppendUvarint(text, uint64(len(p)))
		text = append(text, p...)
	}
	sum := sha256.Sum256(text)
	return Key(sum[:])
}

// File is an open file of results. It is safe for concurrent use. A nil File keeps nothing.
type File struct {
	name  string
	build [sha256.Size]byte

	known []byte // the file
	count int    // of its entries
	used  []atomic.Bool
	first bool // the file did not exist

	mu       sync.Mutex
	fresh    map[Key][]byte
	size     int         // bytes of fresh
	replaced atomic.Bool // fresh has a key of the file
}

// The file is a magic text, a SHA-256 of all that follows it, a SHA-256 of the build, the number of entries, and for each entry, in the order
// of the keys, the key and the beginning and the length of its value in the rest of the file. Numbers are big-endian.
const (
	magic     = "sluice memo 1\n"
	hashed    = len(magic) + sha256.Size // where the text begins that the checksum covers
	header    = hashed + sha256.Size + 4 // where the entries begin
	entrySize = len(Key{}) + 2*4
	maxSize   = 64 << 20 // bytes of a file
	fewNew    = 16       // one new result for so many known ones, or a byte for so many bytes, is not worth writing the file
	largeNew  = 4 << 10  // bytes of new results that can be worth writing the file, however few they are
	temporary = ".new-*"
	private   = fs.FileMode(0o600) // as the index of a clone may be: only its owner reads it
	inFolder  = fs.FileMode(0o755)
	writing   = time.Hour // a file that is older is no longer being written
)

// Open reads a file. A file that does not exist, that is damaged, or that another build wrote has no results. build identifies the program:
// what another version computes from the same text may differ.
func Open(name, build string) *File {
	f := &File{name: name, build: sha256.Sum256([]byte(build)), fresh: map[Key][]byte{}}
	info, err := os.Stat(name)
	if err != nil {
		f.first = errors.Is(err, fs.ErrNotExist)
		return f
	}
	if !info.Mode().IsRegular() || info.Size() > maxSize {
		return f
	}
	data, err := os.ReadFile(name) //nolint:gosec // the caller names it
	if err != nil || !f.valid(data) {
		return f // it is computed again
	}
	f.known, f.count = data, int(binary.BigEndian.Uint32(data[header-4:]))
	f.used = make([]atomic.Bool, f.count)
	return f
}

// valid reports whether data is a whole file of this build.
func (f *File) valid(data []byte) bool {
	if len(data) < header || string(data[:len(magic)]) != magic || !bytes.Equal(data[hashed:hashed+sha256.Size], f.build[:]) {
		return false
	}
	if sum := sha256.Sum256(data[hashed:]); !bytes.Equal(sum[:], data[len(magic):hashed]) {
		return false
	}
	return int64(binary.BigEndian.Uint32(data[header-4:]))*int64(entrySize) <= int64(len(data)-header)
}

// key returns the key of an entry of the file.
func (f *File) key(i int) Key { return Key(f.known[header+i*entrySize:]) }

// value returns the value of an entry of the file; false if the file contradicts itself.
func (f *File) value(i int) ([]byte, bool) {
	at := f.known[header+i*entrySize+len(Key{}):]
	begin, length := uint64(binary.BigEndian.Uint32(at)), uint64(binary.BigEndian.Uint32(at[4:]))
	rest := f.known[header+f.count*entrySize:]
	if begin+length > uint64(len(rest)) {
		return nil, false
	}
	return rest[begin : begin+length : begin+length], true
}

// find returns the entry of a key in the file.
func (f *File) find(k Key) (int, bool) {
	low, high := 0, f.count
	for low < high {
		middle := int(uint(low+high) >> 1)
		here := f.key(middle)
		switch c := bytes.Compare(here[:], k[:]); {
		case c == 0:
			return middle, true
		case c < 0:
			low = middle + 1
		default:
			high = middle
		}
	}
	return 0, false
}

// Get returns the result of a key. The caller does not change it.
func (f *File) Get(k Key) ([]byte, bool) {
	if f == nil {
		return nil, false
	}
	i, known := f.find(k)
	if !known || f.replaced.Load() {
		f.mu.Lock()
		v, ok := f.fresh[k]
		f.mu.Unlock()
		if ok || !known {
			return v, ok
		}
	}
	f.used[i].Store(true)
	return f.value(i)
}

// Puts reports whether Put would keep a result. The first run in a place keeps none: most clones of a CI job are read once, and for them
// encoding and writing would cost more than it saves.
func (f *File) Puts() bool { return f != nil && !f.first }

// Put keeps a result for this run and, after Save, for later ones, in place of an earlier one with the key. The caller does not change it
// afterwards. It returns false if the results of this run would be too large.
func (f *File) Put(k Key, value []byte) bool {
	if !f.Puts() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size+len(value) > maxSize/4 {
		return false
	}
	if before, known := f.fresh[k]; known {
		f.size += len(value) - len(before)
	} else {
		f.size += len(value) + entrySize
	}
	f.fresh[k] = value
	if _, known := f.find(k); known {
		f.replaced.Store(true)
	}
	return true
}

// Save writes the file if enough is new. What this run did not use stays while it is less than what it used. Of two processes that save at
// the same time, the later one wins. An error means only that the next run computes more.
func (f *File) Save() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	entries := f.entries()
	if !f.first && entries == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.name), inFolder); err != nil {
		return err
	}
	f.removeLeft()
	out, err := os.CreateTemp(filepath.Dir(f.name), filepath.Base(f.name)+temporary)
	if err != nil {
		return err
	}
	_, err = out.Write(f.encode(entries))
	if err = errors.Join(err, out.Chmod(private), out.Close()); err == nil {
		err = os.Rename(out.Name(), f.name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(out.Name()))
	}
	return nil
}

// removeLeft removes what processes left that were killed while they wrote. An error leaves a file that does no harm.
func (f *File) removeLeft() {
	left, _ := filepath.Glob(f.name + temporary) // the only error is that of a wrong pattern, such as a folder with a bracket
	for _, name := range left {
		if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) > writing {
			_ = os.Remove(name)
		}
	}
}

type entry struct {
	key   Key
	value []byte
}

// entries returns what to write; nil if too little is new.
func (f *File) entries() []entry {
	var used, unused []entry
	size, left := 0, 0 // bytes of used and unused
	for i := range f.count {
		v, ok := f.value(i)
		if _, again := f.fresh[f.key(i)]; again {
			ok = false
		}
		switch {
		case !ok:
		case f.used[i].Load():
			used = append(used, entry{f.key(i), v})
			size += len(v)
		default:
			unused = append(unused, entry{f.key(i), v})
			left += len(v)
		}
	}
	if len(f.fresh) < max(fewNew, len(used)/fewNew) && f.size < max(largeNew, size/fewNew) {
		return nil
	}
	for k, v := range f.fresh {
		used = append(used, entry{k, v})
	}
	if len(unused) < len(used) || left+len(unused)*entrySize < size+f.size { // a list is one result, and has many
		used = append(used, unused...)
	}
	slices.SortStableFunc(used, func(a, b entry) int { return bytes.Compare(a.key[:], b.key[:]) })
	return used
}

func (f *File) encode(entries []entry) []byte {
	size := 0
	for _, e := range entries {
		size += len(e.value)
	}
	if header+len(entries)*entrySize+size > maxSize {
		entries = nil // Open would not read it
	}
	out := make([]byte, hashed, header+len(entries)*entrySize+size)
	copy(out, magic)
	out = append(out, f.build[:]...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(entries))) //nolint:gosec // at most maxSize/entrySize
	begin := 0
	for _, e := range entries {
		out = append(out, e.key[:]...)
		out = binary.BigEndian.AppendUint32(out, uint32(begin))
		out = binary.BigEndian.AppendUint32(out, uint32(len(e.value))) //nolint:gosec // at most maxSize
		begin += len(e.value)
	}
	for _, e := range entries {
		out = append(out, e.value...)
	}
	sum := sha256.Sum256(out[hashed:])
	copy(out[len(magic):], sum[:])
	return out
}
