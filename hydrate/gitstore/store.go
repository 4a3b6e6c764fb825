package gitstore

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-git/go-billy/v5/osfs"
	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Errors that callers tell apart.
var (
	ErrNotFound = errors.New("there is no such object or revision")
	ErrShallow  = errors.New("the history is cut off here: fetch more of it with `git fetch --unshallow`")
)

// Options say which repository to open: Dir or URL.
type Options struct {
	Dir      string // an existing repository: a working tree, a folder in one, or a bare repository
	URL      string // a remote; it is mirrored
	CacheDir string // where mirrors are kept; "": in a temporary folder, removed by Close
	Remote   string // name of Dir's remote that missing objects come from. Default: origin
	Auth     Auth
}

// Store reads a repository. Safe for concurrent use.
type Store struct {
	dir      string // the .git folder; "" in memory
	worktree string // "" for a bare repository
	repo     *git.Repository
	storer   storage.Storer
	remote   string // URL that missing objects come from; may be ""
	auth     Auth
	temp     string

	mu      sync.Mutex // go-git's object storage is not safe for concurrent reads
	overlay map[Hash]object
	writers []*Writer

	trees sync.Map // Hash → []Entry
}

type object struct {
	kind string
	data []byte
}

// Open opens a repository.
func Open(ctx context.Context, o Options) (*Store, error) {
	if (o.Dir == "") == (o.URL == "") {
		return nil, errors.New("a repository is opened by a folder or by a URL")
	}
	if o.URL != "" {
		return openMirror(ctx, o)
	}
	return openDir(o)
}

// OpenMemory makes a store without a repository: for files that are not in Git.
func OpenMemory() *Store {
	return &Store{storer: memory.NewStorage(), overlay: map[Hash]object{}}
}

func openDir(o Options) (*Store, error) {
	dir, worktree, err := findGitDir(o.Dir)
	if err != nil {
		return nil, err
	}
	s, err := openGitDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open the repository %s: %w", o.Dir, err)
	}
	s.worktree, s.auth = worktree, o.Auth
	name := o.Remote
	if name == "" {
		name = "origin"
	}
	if remote, err := s.repo.Remote(name); err == nil && len(remote.Config().URLs) > 0 {
		s.remote = remote.Config().URLs[0]
		if !strings.Contains(s.remote, ":") && !filepath.IsAbs(s.remote) {
			base := worktree
			if base == "" {
				base = dir
			}
			s.remote = filepath.Join(base, s.remote)
		}
	}
	return s, nil
}

func openGitDir(dir string) (*Store, error) {
	common := dir
	if data, err := os.ReadFile(filepath.Join(dir, "commondir")); err == nil { //nolint:gosec // the user's own repository
		common = filepath.Join(dir, strings.TrimSpace(string(data)))
	}
	objects := cache.NewObjectLRU(32 * cache.MiByte)
	storer := filesystem.NewStorageWithOptions(osfs.New(common), objects, filesystem.Options{KeepDescriptors: true})
	repo, err := git.Open(storer, nil)
	if err != nil {
		return nil, err
	}
	return &Store{dir: common, repo: repo, storer: storer, overlay: map[Hash]object{}}, nil
}

// findGitDir looks for a repository in a folder and those above it.
func findGitDir(start string) (gitDir, worktree string, err error) {
	dir, err := filepath.Abs(start)
	if err != nil {
		return "", "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		dotGit := filepath.Join(at, ".git")
		if info, err := os.Stat(dotGit); err == nil {
			if info.IsDir() {
				return dotGit, at, nil
			}
			linked, err := readGitFile(dotGit)
			return linked, at, err
		}
		if isGitDir(at) {
			return at, "", nil
		}
		if at == filepath.Dir(at) {
			return "", "", fmt.Errorf("%w: %s is in no Git repository", ErrNotFound, start)
		}
	}
}

func isGitDir(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

func readGitFile(name string) (string, error) {
	data, err := os.ReadFile(name) //nolint:gosec // the user's own repository
	if err != nil {
		return "", err
	}
	target, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "gitdir: ")
	if !ok {
		return "", fmt.Errorf("%s does not name a Git folder", name)
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(name), target)
	}
	return target, nil
}

// Close frees the store's files, and removes a temporary mirror.
func (s *Store) Close() error {
	var err error
	if closer, ok := s.storer.(io.Closer); ok {
		err = closer.Close()
	}
	if s.temp != "" {
		err = errors.Join(err, os.RemoveAll(s.temp))
	}
	return err
}

// Worktree is the working tree's folder, "" if there is none.
func (s *Store) Worktree() string { return s.worktree }

// RemoteURL is where the repository came from, without credentials; "" if nowhere.
func (s *Store) RemoteURL() string { return redactURL(s.remote) }

// read gives an object's kind and bytes, from the repository, from objects made since, or from the remote.
func (s *Store) read(ctx context.Context, h Hash) (object, error) {
	o, err := s.readLocal(h)
	if !errors.Is(err, ErrNotFound) || s.remote == "" {
		return o, err
	}
	if ferr := s.Ensure(ctx, h); ferr != nil {
		return object{}, fmt.Errorf("%w, and it could not be fetched: %w", err, ferr)
	}
	return s.readLocal(h)
}

func (s *Store) readLocal(h Hash) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.overlay[h]; ok {
		return o, nil
	}
	for _, w := range s.writers {
		if o, ok, err := w.read(h); ok || err != nil {
			return o, err
		}
	}
	encoded, err := s.storer.EncodedObject(plumbing.AnyObject, plumbing.Hash(h))
	if err != nil {
		return object{}, fmt.Errorf("%w: %s (%w)", ErrNotFound, h, err)
	}
	reader, err := encoded.Reader()
	if err != nil {
		return object{}, fmt.Errorf("object %s: %w", h, err)
	}
	defer func() { _ = reader.Close() }()
	data := make([]byte, encoded.Size())
	if _, err := io.ReadFull(reader, data); err != nil {
		return object{}, fmt.Errorf("object %s: %w", h, err)
	}
	return object{kind: encoded.Type().String(), data: data}, nil
}

// Has says whether the object is in the repository already, without asking the remote.
func (s *Store) Has(h Hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.storer.HasEncodedObject(plumbing.Hash(h)) == nil
}

func (s *Store) typed(ctx context.Context, h Hash, kind string) ([]byte, error) {
	o, err := s.read(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind, h, err)
	}
	if o.kind != kind {
		return nil, fmt.Errorf("%s is a %s, not a %s", h, o.kind, kind)
	}
	return o.data, nil
}

// Blob gives a blob's bytes.
func (s *Store) Blob(ctx context.Context, h Hash) ([]byte, error) { return s.typed(ctx, h, "blob") }

// Tree gives a tree's entries, which must not be changed.
func (s *Store) Tree(ctx context.Context, h Hash) ([]Entry, error) {
	if known, ok := s.trees.Load(h); ok {
		return known.([]Entry), nil //nolint:forcetypeassert // only this function stores here
	}
	data, err := s.typed(ctx, h, "tree")
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(data)
	if err != nil {
		return nil, fmt.Errorf("tree %s: %w", h, err)
	}
	s.trees.Store(h, entries)
	return entries, nil
}

// Commit gives a commit.
func (s *Store) Commit(ctx context.Context, h Hash) (Commit, error) {
	data, err := s.typed(ctx, h, "commit")
	if err != nil {
		return Commit{}, err
	}
	return parseCommit(h, data)
}

// Resolve finds a commit by anything that `git rev-parse` takes and go-git knows: a branch, a tag, a hash, HEAD~2.
func (s *Store) Resolve(ctx context.Context, rev string) (Commit, error) {
	if h, err := ParseHash(rev); err == nil {
		return s.Commit(ctx, h)
	}
	s.mu.Lock()
	h, err := s.repo.ResolveRevision(plumbing.Revision(rev))
	s.mu.Unlock()
	if err != nil {
		return Commit{}, fmt.Errorf("%w: %q: name a branch, a tag or a commit", ErrNotFound, rev)
	}
	return s.Commit(ctx, Hash(*h))
}

// IsAncestor says whether new comes after old, or is it. It is ErrShallow where the history that is here does not tell
// and more cannot be fetched.
func (s *Store) IsAncestor(ctx context.Context, old, new Hash) (bool, error) { //nolint:revive,predeclared // the words of git merge-base
	if old == new {
		return true, nil
	}
	queue := &byTime{}
	seen := map[Hash]bool{new: true}
	cut := false
	push := func(h Hash) error {
		c, err := s.Commit(ctx, h)
		if errors.Is(err, ErrNotFound) {
			cut = true
			return nil
		}
		if err == nil {
			heap.Push(queue, c)
		}
		return err
	}
	if err := push(new); err != nil {
		return false, err
	}
	for queue.Len() > 0 {
		c, _ := heap.Pop(queue).(Commit)
		for _, p := range c.Parents {
			if p == old {
				return true, nil
			}
			if seen[p] {
				continue
			}
			seen[p] = true
			if err := push(p); err != nil {
				return false, err
			}
		}
	}
	if cut {
		return false, ErrShallow
	}
	return false, nil
}

// byTime is a heap of commits, the newest first.
type byTime []Commit

func (b byTime) Len() int           { return len(b) }
func (b byTime) Less(i, j int) bool { return b[i].Committer.When.After(b[j].Committer.When) }
func (b byTime) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

// Push adds a commit.
func (b *byTime) Push(x any) { *b = append(*b, x.(Commit)) } //nolint:forcetypeassert // only commits are pushed

// Pop takes the last.
func (b *byTime) Pop() any {
	old := *b
	last := old[len(old)-1]
	*b = old[:len(old)-1]
	return last
}

// Change is a path whose entry differs between two trees; a zero Hash means that it is not there.
type Change struct {
	Path     string
	Old, New Entry
}

// Changes lists the files that differ between two trees, by path. Equal subtrees are not looked into; a zero hash is an
// empty tree.
func (s *Store) Changes(ctx context.Context, a, b Hash) ([]Change, error) {
	var out []Change
	err := s.changes(ctx, "", a, b, &out)
	return out, err
}

func (s *Store) changes(ctx context.Context, prefix string, a, b Hash, out *[]Change) error {
	if a == b {
		return nil
	}
	before, err := s.entries(ctx, a)
	if err != nil {
		return err
	}
	after, err := s.entries(ctx, b)
	if err != nil {
		return err
	}
	for i, j := 0, 0; i < len(before) || j < len(after); {
		var x, y Entry
		switch {
		case j == len(after) || i < len(before) && before[i].sortKey() < after[j].sortKey():
			x, i = before[i], i+1
		case i == len(before) || after[j].sortKey() < before[i].sortKey():
			y, j = after[j], j+1
		default:
			x, y, i, j = before[i], after[j], i+1, j+1
		}
		if x == y {
			continue
		}
		if err := s.change(ctx, prefix, x, y, out); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) change(ctx context.Context, prefix string, x, y Entry, out *[]Change) error {
	name := prefix + x.Name
	if x.Name == "" {
		name = prefix + y.Name
	}
	var below, above Hash
	if x.Mode == ModeTree {
		below = x.Hash
	}
	if y.Mode == ModeTree {
		above = y.Hash
	}
	if err := s.changes(ctx, name+"/", below, above, out); err != nil {
		return err
	}
	if x.Mode == ModeTree {
		x = Entry{}
	}
	if y.Mode == ModeTree {
		y = Entry{}
	}
	if x != y {
		*out = append(*out, Change{Path: name, Old: x, New: y})
	}
	return nil
}

func (s *Store) entries(ctx context.Context, h Hash) ([]Entry, error) {
	if h.IsZero() {
		return nil, nil
	}
	return s.Tree(ctx, h)
}
