package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
)

// Raw is a Git object (blob, tree, commit or tag) as its bytes.
type Raw struct {
	Kind string
	Data []byte
}

// Supply reads objects for a store without a repository. It returns one object for each hash, in order.
type Supply func(ctx context.Context, hashes []Hash) ([]Raw, error)

// OpenSupplied returns a store in memory that gets missing objects from supply. The store checks the hash of each
// object, so a supplier cannot replace content. It uses no files, not even for Writers.
func OpenSupplied(supply Supply) *Store {
	s := newStore()
	s.supply, s.disk = supply, memoryDisk{}
	return s
}

// fromSupply adds missing objects to the store.
func (s *Store) fromSupply(ctx context.Context, hashes []Hash) error {
	missing := s.missing(hashes)
	if len(missing) == 0 {
		return nil
	}
	found, err := s.supply(ctx, missing)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNotFound, missing[0], err)
	}
	if len(found) != len(missing) {
		return fmt.Errorf("%w: %d objects were supplied, %d expected", ErrDamaged, len(found), len(missing))
	}
	for i, raw := range found {
		if hashObject(raw.Kind, raw.Data) != missing[i] {
			return fmt.Errorf("%w: %s was supplied with other content", ErrDamaged, missing[i])
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, raw := range found {
		s.overlay[missing[i]] = object{kind: raw.Kind, data: raw.Data}
	}
	return nil
}

// ReadRaw reads objects, and fetches missing ones. It fails if they have more than limit bytes together.
func (s *Store) ReadRaw(ctx context.Context, hashes []Hash, limit int) ([]Raw, error) {
	if err := s.Ensure(ctx, hashes...); err != nil {
		return nil, err
	}
	out := make([]Raw, len(hashes))
	for i, h := range hashes {
		o, err := s.read(ctx, h)
		if err != nil {
			return nil, err
		}
		if limit -= len(o.data); limit < 0 {
			return nil, fmt.Errorf("%d objects: %w", len(hashes), ErrTooLarge)
		}
		out[i] = Raw{o.kind, o.data}
	}
	return out, nil
}

// Raws calls f for each object of the Writer, in the order in which they were added.
func (w *Writer) Raws(f func(Raw) error) error {
	w.mu.RLock()
	order := slices.Clone(w.order)
	w.mu.RUnlock()
	for _, h := range order {
		o, ok, err := w.read(h)
		if err == nil && !ok {
			err = fmt.Errorf("%w: %s", ErrNotFound, h)
		}
		if err == nil {
			err = f(Raw{o.kind, o.data})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// AddRaw adds an object and returns its hash.
func (w *Writer) AddRaw(r Raw) (Hash, error) {
	if r.Kind != "blob" && r.Kind != "tree" && r.Kind != "commit" {
		return Hash{}, fmt.Errorf("an object of kind %q cannot be added", r.Kind)
	}
	return w.add(r.Kind, r.Data)
}

// packFile stores the objects of a Writer.
type packFile interface {
	io.Writer
	io.WriterAt
	io.ReaderAt
	io.Closer
	Name() string
}

// memoryFile is a packFile in memory.
type memoryFile struct {
	mu     sync.RWMutex
	data   []byte
	closed bool
}

// Name returns "", because there is no file.
func (m *memoryFile) Name() string { return "" }

// Write implements io.Writer.
func (m *memoryFile) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data = append(m.data, p...)
	return len(p), nil
}

// WriteAt implements io.WriterAt.
func (m *memoryFile) WriteAt(p []byte, at int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if end := int(at) + len(p); end > len(m.data) {
		m.data = append(m.data, make([]byte, end-len(m.data))...)
	}
	return copy(m.data[at:], p), nil
}

// ReadAt implements io.ReaderAt.
func (m *memoryFile) ReadAt(p []byte, at int64) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch {
	case m.closed:
		return 0, os.ErrClosed
	case at >= int64(len(m.data)):
		return 0, io.EOF
	}
	n := copy(p, m.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Close releases the memory.
func (m *memoryFile) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data, m.closed = nil, true
	return nil
}

// memoryDisk is the disk of a store without files: every operation on one fails.
type memoryDisk struct{}

var errNoDisk = fmt.Errorf("the store keeps no files: %w", errors.ErrUnsupported)

func (memoryDisk) MkdirAll(string) error { return errNoDisk }

func (memoryDisk) CreateTemp(string, string) (*os.File, error) { return nil, errNoDisk }

func (memoryDisk) Sync(*os.File) error { return errNoDisk }

func (memoryDisk) Rename(string, string) error { return errNoDisk }

func (memoryDisk) RemoveAll(name string) error {
	if name == "" {
		return nil // a memoryFile
	}
	return &fs.PathError{Op: "remove", Path: name, Err: errNoDisk}
}
