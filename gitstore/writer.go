package gitstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sluice-gitops/sluice/gitstore/internal/pack"
)

// Writer collects new objects in one packfile on disk, so that memory stays small. It is safe for concurrent use and
// stores equal objects once. Its Store can read the objects before they are pushed. Close removes the packfile unless
// it was stored.
type Writer struct {
	store *Store
	pack  *pack.Writer
}

// NewWriter returns a Writer without objects.
func (s *Store) NewWriter() (*Writer, error) {
	p, err := s.packWriter()
	if err != nil {
		return nil, fmt.Errorf("start a packfile: %w", err)
	}
	w := &Writer{store: s, pack: p}
	s.mu.Lock()
	s.writers = append(slices.Clone(s.writers), w) // readers hold the old list
	s.mu.Unlock()
	return w, nil
}

func (s *Store) packWriter() (*pack.Writer, error) {
	if s.supply != nil {
		return pack.NewMemoryWriter()
	}
	dir := ""
	if s.dir != "" {
		if dir = filepath.Join(s.dir, "objects", "pack"); s.disk.MkdirAll(dir) != nil {
			dir = "" // the repository is read-only
		}
	}
	return pack.NewWriter(s.disk, dir)
}

// Len returns the number of objects so far.
func (w *Writer) Len() int { return w.pack.Len() }

// Has reports whether the object is among the new ones.
func (w *Writer) Has(h Hash) bool { return w.pack.Has(h) }

// Blob adds a file's bytes.
func (w *Writer) Blob(data []byte) (Hash, error) { return w.pack.Add("blob", data) }

// Tree adds a directory. It refuses names that are unsafe in a checkout and duplicate names.
func (w *Writer) Tree(entries []Entry) (Hash, error) {
	data, err := encodeTree(entries)
	if err != nil {
		return Hash{}, err
	}
	return w.pack.Add("tree", data)
}

// Commit adds a commit.
func (w *Writer) Commit(c CommitSpec) (Hash, error) {
	data, err := encodeCommit(c)
	if err != nil {
		return Hash{}, err
	}
	return w.pack.Add("commit", data)
}

// Raws calls f for each object of the Writer, in the order in which they were added.
func (w *Writer) Raws(f func(Raw) error) error {
	for _, h := range w.pack.Hashes() {
		o, ok, err := w.pack.Read(h)
		if err == nil && !ok {
			err = fmt.Errorf("%w: %s", ErrNotFound, h)
		}
		if err == nil {
			err = f(o)
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
	return w.pack.Add(r.Kind, r.Data)
}

// Keep stores the objects in the Writer's Store, which must be a cache; see OpenCache. No branch moves.
func (w *Writer) Keep() error {
	if w.store.own == nil || w.store.own != w.store.side {
		return errors.New("only a cache keeps objects that no branch has")
	}
	return w.pack.StoreIn(w.store.own)
}

// Close removes the temporary file. Objects that were stored in a repository stay.
func (w *Writer) Close() error {
	w.store.mu.Lock()
	w.store.writers = slices.DeleteFunc(slices.Clone(w.store.writers), func(other *Writer) bool { return other == w })
	w.store.mu.Unlock()
	return w.pack.Close()
}
