package gitstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Snapshot is one tree as a read-only file system: an fs.FS with ReadDir, ReadFile and Stat, safe for concurrent use.
// It lists links and submodules as such and never follows them. FileInfo.Sys returns the Hash; Size is 0, because trees
// do not contain it. Reading a file of more than 32 MiB returns ErrTooLarge. Who lists many folders of a tree that has
// more paths than anybody can list gets ErrTooManyPaths.
type Snapshot struct {
	ctx   context.Context //nolint:containedctx // io/fs has no context parameter; a snapshot lives as long as one task
	store *Store
	root  Hash
	lacks func(name string, err error) error // see OnLack; nil keeps errors
	trail atomic.Pointer[[]step]             // to the folder of the last path: the next path is often near

	listed   atomic.Int64 // entries of folders
	counting sync.Mutex
	counted  bool
	tooMany  error // an ErrTooManyPaths, after counted
}

// step is a folder on the way to a path.
type step struct {
	name    string
	entries []Entry
}

// Snapshot opens a tree. ctx applies to all reads, including fetches of missing objects.
func (s *Store) Snapshot(ctx context.Context, tree Hash) *Snapshot {
	return &Snapshot{ctx: ctx, store: s, root: tree}
}

// OnLack makes the snapshot call lacks when the store cannot give the content of a path, and return the error of lacks
// in place of err, which is that of the store. Several goroutines may call lacks. A path that the tree does not have is
// no such error. OnLack returns the snapshot; call it before any read.
func (s *Snapshot) OnLack(lacks func(name string, err error) error) *Snapshot {
	s.lacks = lacks
	return s
}

// lack returns the error for content that the store cannot give.
func (s *Snapshot) lack(name string, err error) error {
	if s.lacks == nil {
		return err
	}
	return s.lacks(name, err)
}

// tree reads the tree of a directory.
func (s *Snapshot) tree(dir string, h Hash) ([]Entry, error) {
	entries, err := s.store.Tree(s.ctx, h)
	if err != nil {
		return nil, s.lack(dir, err)
	}
	return entries, nil
}

// Root returns the tree's hash.
func (s *Snapshot) Root() Hash { return s.root }

// Entry returns the tree entry at a path; "." is the tree itself.
func (s *Snapshot) Entry(name string) (Entry, error) {
	if !fs.ValidPath(name) {
		return Entry{}, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrInvalid}
	}
	at := Entry{Name: ".", Mode: ModeTree, Hash: s.root}
	if name == "." {
		return at, nil
	}
	var steps []step // the trail, and below it what this call reads
	if trail := s.trail.Load(); trail != nil {
		steps = *trail
	}
	depth, read := 0, false
	for part := range strings.SplitSeq(name, "/") {
		if at.Mode != ModeTree {
			return Entry{}, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
		}
		if read || depth == len(steps) || steps[depth].name != at.Name {
			entries, err := s.tree(name, at.Hash)
			if err != nil {
				return Entry{}, &fs.PathError{Op: "stat", Path: name, Err: err}
			}
			steps, read = append(slices.Clip(steps[:depth]), step{at.Name, entries}), true
		}
		found, ok := find(steps[depth].entries, part)
		if !ok {
			at = Entry{}
			break
		}
		at, depth = found, depth+1
	}
	if read {
		s.trail.Store(&steps)
	}
	if at.Name == "" {
		return Entry{}, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return at, nil
}

// find searches a tree's entries. Git sorts folders as if their names ended with a slash.
func find(entries []Entry, name string) (Entry, bool) {
	for _, mode := range []Mode{ModeTree, ModeFile} {
		i, ok := slices.BinarySearchFunc(entries, Entry{Name: name, Mode: mode}, compareEntries)
		if ok && entries[i].Name == name {
			return entries[i], true
		}
	}
	return Entry{}, false
}

// compareEntries compares entries in the order of a tree.
func compareEntries(x, y Entry) int {
	n := min(len(x.Name), len(y.Name))
	if c := strings.Compare(x.Name[:n], y.Name[:n]); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(x.after(n), y.after(n)), cmp.Compare(len(x.Name), len(y.Name)))
}

// after returns the byte of the sort key at an index, which is at most the length of the name; 0 at the end.
func (e Entry) after(n int) byte {
	switch {
	case n < len(e.Name):
		return e.Name[n]
	case e.Mode == ModeTree:
		return '/'
	}
	return 0
}

// Entries returns a directory in the order of the tree.
func (s *Snapshot) Entries(dir string) ([]Entry, error) {
	e, err := s.Entry(dir)
	if err != nil {
		return nil, err
	}
	if e.Mode != ModeTree {
		return nil, &fs.PathError{Op: "readdir", Path: dir, Err: fs.ErrInvalid}
	}
	entries, err := s.tree(dir, e.Hash)
	if err != nil {
		return nil, err
	}
	if err := s.list(dir, len(entries)); err != nil {
		return nil, err
	}
	return entries, nil
}

// Stat implements fs.StatFS.
func (s *Snapshot) Stat(name string) (fs.FileInfo, error) {
	e, err := s.Entry(name)
	if err != nil {
		return nil, err
	}
	return info{e}, nil
}

// ReadFile implements fs.ReadFileFS. It refuses links.
func (s *Snapshot) ReadFile(name string) ([]byte, error) {
	e, err := s.Entry(name)
	if err != nil {
		return nil, err
	}
	if e.Mode != ModeFile && e.Mode != ModeExecutable {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: it is no file", fs.ErrInvalid)}
	}
	data, err := s.blob(name, e.Hash)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: s.lack(name, err)}
	}
	return data, nil
}

// ReadLink implements fs.ReadLinkFS: it returns the target of a symbolic link without following it.
func (s *Snapshot) ReadLink(name string) (string, error) {
	e, err := s.Entry(name)
	if err != nil {
		return "", err
	}
	if e.Mode != ModeSymlink {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	data, err := s.blob(name, e.Hash)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: s.lack(name, err)}
	}
	return string(data), nil
}

// Lstat implements fs.ReadLinkFS. It equals Stat, which does not follow links either.
func (s *Snapshot) Lstat(name string) (fs.FileInfo, error) { return s.Stat(name) }

// blob reads a file. If a partial clone lacks it, blob fetches all files of the directory, because callers usually
// read them next.
func (s *Snapshot) blob(name string, h Hash) ([]byte, error) {
	o, err := s.store.readLocal(h)
	if err == nil && o.Kind == "blob" {
		return o.Data, nil
	}
	if errors.Is(err, ErrNotFound) {
		const together = 2000
		siblings, err := s.Entries(path.Dir(name))
		if err != nil {
			return nil, err
		}
		wanted := []Hash{h}
		for _, e := range siblings {
			if e.Hash != h && (e.Mode == ModeFile || e.Mode == ModeExecutable) && len(wanted) < together {
				wanted = append(wanted, e.Hash)
			}
		}
		_ = s.store.Ensure(s.ctx, wanted...) // if this fails, the next line fetches only this file
	}
	return s.store.Blob(s.ctx, h)
}

// ReadDir implements fs.ReadDirFS.
func (s *Snapshot) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := s.Entries(name)
	if err != nil {
		return nil, err
	}
	byName := func(a, b Entry) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(entries, byName) { // Git sorts a folder as if its name ended with a slash
		entries = slices.SortedFunc(slices.Values(entries), byName)
	}
	out := make([]fs.DirEntry, len(entries))
	for i, e := range entries {
		out[i] = info{e}
	}
	return out, nil
}

// Open implements fs.FS.
func (s *Snapshot) Open(name string) (fs.File, error) {
	e, err := s.Entry(name)
	if err != nil {
		return nil, err
	}
	if e.Mode == ModeTree {
		entries, err := s.ReadDir(name)
		if err != nil {
			return nil, err
		}
		return &file{info: info{e}, Reader: bytes.NewReader(nil), entries: entries}, nil
	}
	data, err := s.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &file{info: info{e}, Reader: bytes.NewReader(data)}, nil
}

// info is an entry as fs.FileInfo and fs.DirEntry.
type info struct{ entry Entry }

func (i info) Name() string               { return path.Base(i.entry.Name) }
func (i info) Size() int64                { return 0 }
func (i info) Mode() fs.FileMode          { return i.entry.Mode.FileMode() }
func (i info) Type() fs.FileMode          { return i.Mode().Type() }
func (i info) ModTime() time.Time         { return time.Time{} }
func (i info) IsDir() bool                { return i.entry.Mode == ModeTree }
func (i info) Sys() any                   { return i.entry.Hash }
func (i info) Info() (fs.FileInfo, error) { return i, nil }

type file struct {
	info info
	*bytes.Reader
	entries []fs.DirEntry
}

// Stat implements fs.File.
func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }

// Close implements fs.File.
func (f *file) Close() error { return nil }

// ReadDir implements fs.ReadDirFile.
func (f *file) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 || n >= len(f.entries) {
		out := f.entries
		f.entries = nil
		if n > 0 && len(out) == 0 {
			return nil, io.EOF
		}
		return out, nil
	}
	out := f.entries[:n]
	f.entries = f.entries[n:]
	return out, nil
}
