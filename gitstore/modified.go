package gitstore

import (
	"context"
	"errors"
	"os"
	"time"
)

// Modified reports whether the files of a folder of the working tree differ from a commit's tree, as `git status`
// does. A file under a filter, such as Git LFS or line ending conversion, differs from its blob. Such a file counts
// as unmodified if the index has the blob, and the size and time that Git recorded when it wrote the file. Modified
// does not run filters, because a filter may be any command. It keeps the names in folders in the repository for the next
// run; now is the time of the system's clock, not a later one.
func (s *Store) Modified(ctx context.Context, dir string, tree Hash, now time.Time) (bool, error) {
	names := openNames(s, now)
	same, err := asIndexed(ctx, s, dir, tree, names)
	names.save()
	if err != nil || same {
		return false, err
	}
	files, err := s.WorkingTree(ctx, dir)
	if err != nil || files == tree {
		return false, err
	}
	changes, err := s.Changes(ctx, tree, files)
	if err != nil {
		return false, err
	}
	w, err := newWalker(ctx, s, dir)
	if err != nil {
		return false, err
	}
	for _, c := range changes {
		if !w.unmodified(c) {
			return true, nil
		}
	}
	return false, nil
}

// asIndexed reports whether the files of a folder are those of a tree. It reads only files that changed since Git wrote the index, as
// `git status` does, and stores nothing.
func asIndexed(ctx context.Context, s *Store, dir string, tree Hash, names *keptNames) (bool, error) {
	indexed := indexedAt(s)
	if indexed.IsZero() {
		return false, nil // every file is read
	}
	w, err := newWalker(ctx, s, dir)
	if err != nil {
		return false, err
	}
	w.indexed, w.keep, w.names = indexed, hashObject, names
	if w.staged == tree { // the usual case costs half
		if same, err := w.sameAsIndex(); err != nil || same {
			return same, err
		}
	}
	now, err := w.tree()
	return now == tree, err
}

// unmodified reports whether the index has the recorded size and time of a file that differs from its blob.
func (w *walker) unmodified(c Change) bool {
	e := w.tracked[c.Path]
	if e == nil || c.Old.Hash.IsZero() || c.New.Hash.IsZero() || c.Old.Mode != c.New.Mode || e.hash != c.Old.Hash {
		return false
	}
	info, err := os.Lstat(w.onDisk(c.Path))
	if err != nil || e.size != info.Size() {
		return false
	}
	if e.modified.Nanosecond() == 0 { // some builds of Git record seconds
		return e.modified.Unix() == info.ModTime().Unix()
	}
	return e.modified.Equal(info.ModTime())
}

// errDiffers ends the walk of sameAsIndex.
var errDiffers = errors.New("the files differ from the index")

// sameAsIndex reports whether the files are those of the index. It needs neither trees nor hashes.
func (w *walker) sameAsIndex() (bool, error) {
	w.compare, w.matched = true, 0
	defer func() { w.compare = false }()
	if err := w.walk(nil); err != nil {
		if errors.Is(err, errDiffers) {
			err = nil
		}
		return false, err
	}
	return w.matched == len(w.tracked), nil
}

// matches compares a file with its entry in the index.
func (w *walker) matches(name string, e Entry) error {
	known := w.tracked[name]
	if known == nil || known.mode != e.Mode || known.hash != e.Hash {
		return errDiffers
	}
	w.matched++
	return nil
}
