// Package objects reads rendered objects from the trees of targets, with secrets masked.
//
// A Reader registers the values of Secrets before it returns an object, and masks these values wherever they occur.
// An Inventory finds objects on clusters. Both read Git objects and write nothing. KeepFields and WithNamespace change
// objects in memory, given as YAML.
//
// The package is not API: it can change in every release.
package objects

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/parallel"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Object is an object and the file that holds it.
type Object struct {
	diff.Object
	File string
}

// File is a file of a target's tree.
type File struct {
	Name string
	Hash gitstore.Hash
}

// Difference holds the files that only one of two trees has.
type Difference struct {
	Before, After []File
	Unchanged     int // number of files that both have
}

// Reader reads objects by blob. It keeps the objects that were read last, some 100 MB, so that most changes are read
// once. It is safe for concurrent use, apart from LimitTo.
type Reader struct {
	store *gitstore.Store
	mask  *diff.Masker
	limit int64 // bytes of all files; 0 is no limit

	mu     sync.Mutex
	blobs  map[gitstore.Hash]*diff.Object // masked
	cached int64                          // bytes of the files of blobs
	// files that Sluice did not write, with the first of their paths; "" if none is compared
	foreign map[gitstore.Hash]string
	learned map[gitstore.Hash]bool
	read    int64 // bytes so far
}

// ErrTooMuch means that the files are larger than the limit of a Reader.
var ErrTooMuch = errors.New("the files are larger than the limit of their reader")

// LimitTo sets how many bytes of files the Reader reads. It then keeps the objects of all of them, which take several
// times as much memory.
func (r *Reader) LimitTo(bytes int64) { r.limit = bytes }

func (r *Reader) blob(ctx context.Context, h gitstore.Hash) ([]byte, error) {
	data, err := r.store.Blob(ctx, h)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read += int64(len(data)); r.limit > 0 && r.read > r.limit {
		return nil, ErrTooMuch
	}
	return data, nil
}

// cacheBytes is the number of bytes of the files whose objects a Reader keeps. Objects in memory take several times as
// much.
const cacheBytes = 16 << 20

// NewReader returns a Reader that masks with mask.
func NewReader(store *gitstore.Store, mask *diff.Masker) *Reader {
	return &Reader{
		store: store, mask: mask, blobs: map[gitstore.Hash]*diff.Object{},
		foreign: map[gitstore.Hash]string{}, learned: map[gitstore.Hash]bool{},
	}
}

// Notes lists the files that were skipped because Sluice did not write them, by path. Of equal files it names the
// first.
func (r *Reader) Notes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, at := range slices.Sorted(maps.Values(r.foreign)) {
		if at != "" {
			out = append(out, at+" on the branch was not written by Sluice: it is not compared")
		}
	}
	return out
}

// CompareAll compares pairs of trees as Compare does, on all processors. The result has each pair once.
func (r *Reader) CompareAll(ctx context.Context, pairs [][2]gitstore.Hash) (map[[2]gitstore.Hash]*Difference, error) {
	out := make(map[[2]gitstore.Hash]*Difference, len(pairs))
	var distinct [][2]gitstore.Hash
	for _, trees := range pairs {
		if _, ok := out[trees]; !ok {
			out[trees], distinct = nil, append(distinct, trees)
		}
	}
	list := make([]*Difference, len(distinct))
	err := parallel.Each(ctx, len(distinct), func(ctx context.Context, i int) (err error) {
		list[i], err = r.Compare(ctx, distinct[i])
		return err
	})
	for i, trees := range distinct {
		out[trees] = list[i]
	}
	return out, err
}

// Compare compares the files of two trees by content, and registers the Secrets of both. A zero hash is an empty
// tree.
func (r *Reader) Compare(ctx context.Context, trees [2]gitstore.Hash) (*Difference, error) {
	lists, err := r.lists(ctx, trees)
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		for _, e := range list {
			if err := r.learn(ctx, e); err != nil {
				return nil, err
			}
		}
	}
	if trees[0].IsZero() { // a new target, as all are at first
		return &Difference{After: files(lists[1])}, nil
	}
	before, after, same := divided(lists)
	return &Difference{Before: files(before), After: files(after), Unchanged: len(same)}, nil
}

// Unchanged returns the files that two trees have in common.
func (r *Reader) Unchanged(ctx context.Context, trees [2]gitstore.Hash) ([]File, error) {
	lists, err := r.lists(ctx, trees)
	if err != nil {
		return nil, err
	}
	_, _, same := divided(lists)
	return files(same), nil
}

func (r *Reader) lists(ctx context.Context, trees [2]gitstore.Hash) (lists [2][]gitstore.Entry, err error) {
	for i, tree := range trees {
		if tree.IsZero() {
			continue
		}
		if lists[i], err = r.store.Tree(ctx, tree); err != nil {
			return lists, err
		}
	}
	return lists, nil
}

// divided divides the files of two trees into those that one of them has, and those of the second that both have.
func divided(lists [2][]gitstore.Entry) (before, after, same []gitstore.Entry) {
	for i, list := range lists {
		have := map[gitstore.Hash]int{}
		for _, e := range lists[1-i] {
			have[e.Hash]++
		}
		for _, e := range list {
			switch {
			case have[e.Hash] > 0:
				have[e.Hash]--
				if i == 1 {
					same = append(same, e)
				}
			case i == 0:
				before = append(before, e)
			default:
				after = append(after, e)
			}
		}
	}
	return before, after, same
}

// files returns entries as files. The names are copies: those of an entry would keep all names of its tree in memory.
func files(list []gitstore.Entry) []File {
	if len(list) == 0 {
		return nil
	}
	out := make([]File, len(list))
	for i, e := range list {
		out[i] = File{strings.Clone(e.Name), e.Hash}
	}
	return out
}

// IsSecret reports whether a file may hold a Secret, by its name.
func IsSecret(name string) bool {
	return strings.Contains(name, "secret-") || strings.Contains(name, "secretlist-")
}

// learn registers the values of a Secret with the masker.
func (r *Reader) learn(ctx context.Context, e gitstore.Entry) error {
	if !IsSecret(e.Name) {
		return nil
	}
	r.mu.Lock()
	known := r.learned[e.Hash]
	r.learned[e.Hash] = true
	r.mu.Unlock()
	if known {
		return nil
	}
	data, err := r.blob(ctx, e.Hash)
	if err != nil {
		return err
	}
	list, err := manifest.Decode(data, manifest.DefaultBudget())
	if err != nil {
		return nil //nolint:nilerr // Sluice did not write this file; Read adds a note
	}
	for _, o := range list {
		r.mask.Learn(o)
	}
	return nil
}

// Read reads files of a target, which notes name. Call Compare for all trees first, so that all Secrets are known.
func (r *Reader) Read(ctx context.Context, cluster, app string, files []File) ([]Object, error) {
	return r.each(ctx, files, func(f File) string { return path.Join(cluster, app, f.Name) })
}

// look reads files that are not compared, so that Notes does not name them.
func (r *Reader) look(ctx context.Context, files []File) ([]Object, error) {
	return r.each(ctx, files, func(File) string { return "" })
}

func (r *Reader) each(ctx context.Context, files []File, at func(File) string) ([]Object, error) {
	out := make([]Object, 0, len(files))
	for _, f := range files {
		o, err := r.object(ctx, f.Hash, at(f))
		if err != nil {
			return nil, err
		}
		if o != nil {
			out = append(out, Object{Object: *o, File: f.Name})
		}
	}
	return out, nil
}

// object reads one object; nil if Sluice did not write the file. at is the path for Notes.
func (r *Reader) object(ctx context.Context, hash gitstore.Hash, at string) (*diff.Object, error) {
	r.mu.Lock()
	known, foreign := r.blobs[hash], r.isForeign(hash, at)
	r.mu.Unlock()
	if known != nil || foreign {
		return known, nil
	}
	data, err := r.blob(ctx, hash)
	if err != nil {
		return nil, err
	}
	list, err := manifest.Decode(data, manifest.DefaultBudget())
	if err != nil || len(list) != 1 {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.isForeign(hash, at) {
			r.foreign[hash] = at
		}
		return nil, nil //nolint:nilnil // Notes says so
	}
	out := &diff.Object{Key: hash.String(), Object: r.mask.Mask(list[0])}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cached += int64(len(data)); r.limit == 0 && r.cached > cacheBytes {
		clear(r.blobs)
		r.cached = int64(len(data))
	}
	r.blobs[hash] = out
	return out, nil
}

// isForeign reports whether a file is known not to be Sluice's, and keeps the first of its paths. The caller holds mu.
func (r *Reader) isForeign(hash gitstore.Hash, at string) bool {
	first, ok := r.foreign[hash]
	if ok && at != "" && (first == "" || at < first) {
		r.foreign[hash] = at
	}
	return ok
}
