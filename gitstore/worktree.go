package gitstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// WorkingTree reads the files of a folder as `git add --all` does, and returns the hash of the tree. It skips ignored
// files that Git does not track, takes files that a sparse checkout omits from the index, and skips nested
// repositories that are not submodules. Like Git, it reads only files that changed since Git wrote the index; the others
// have the content that the index names. It runs no filters, such as Git LFS and line ending conversion, on what it
// reads. It does not change the repository; new objects stay in memory.
func (s *Store) WorkingTree(ctx context.Context, dir string) (Hash, error) {
	indexed := indexedAt(s)
	w, err := newWalker(ctx, s, dir)
	if err != nil {
		return Hash{}, err
	}
	w.indexed, w.keep, w.stored = indexed, w.keepMissing, s.Has
	return w.tree()
}

// indexedAt is the time of the index: zero if there is none, so that every file is read. Take it before the index is read.
func indexedAt(s *Store) time.Time {
	info, err := os.Stat(filepath.Join(s.gitDir, "index"))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func newWalker(ctx context.Context, s *Store, dir string) (*walker, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	w := &walker{store: s, ctx: ctx, root: root, tracked: map[string]*stagedFile{}}
	return w, w.readIndex()
}

// walk looks at all files of the folder, from its top.
func (w *walker) walk(into *node) error {
	rules, err := w.excludes()
	if err != nil {
		return err
	}
	if w.disk, err = openTree(w.root); err != nil {
		return err
	}
	defer w.disk.close()
	if w.names != nil {
		w.disk.identify()
	}
	return w.dir("", into, ignoring{rules: rules})
}

// tree walks the folder and returns the hash of its tree.
func (w *walker) tree() (Hash, error) {
	if err := w.walk(&w.top); err != nil {
		return Hash{}, err
	}
	for name, e := range w.tracked {
		if e.skip && !w.seen(name) {
			w.add(strings.Split(name, "/"), Entry{Mode: e.mode, Hash: e.hash})
		}
	}
	return w.build(&w.top)
}

// node is a directory of the tree under construction.
type node struct {
	files map[string]Entry
	dirs  map[string]*node
}

type walker struct {
	store   *Store
	ctx     context.Context //nolint:containedctx // one walk
	root    string
	disk    *treeOnDisk            // root, while it is walked
	prefix  []string               // from the repository's working tree to root
	tracked map[string]*stagedFile // by path from root
	folders map[string]bool        // folders with tracked files
	top     node
	staged  Hash // the tree of the index, if root has all of its files; zero if that is not known
	// indexed is the time before which files of the recorded size and time have the content that the index names. It is zero for a walk that
	// reads every file.
	indexed time.Time
	keep    func(kind string, data []byte) Hash // hashes an object, and stores it if somebody may read it
	stored  func(Hash) bool                     // reports whether an object can be read; nil if nobody reads it
	names   *keptNames                          // nil: every folder is listed
	listed  int                                 // folders
	compare bool                                // build no tree; see sameAsIndex
	matched int                                 // tracked files that sameAsIndex found
}

// readIndex reads the tracked files, if root is in the repository's working tree.
func (w *walker) readIndex() error {
	w.folders = map[string]bool{}
	if w.store.worktree == "" || w.store.repo == nil {
		return nil
	}
	below, err := filepath.Rel(w.store.worktree, w.root)
	if err != nil || below == ".." || strings.HasPrefix(below, ".."+string(filepath.Separator)) {
		return nil //nolint:nilerr // the folder is outside the repository's working tree
	}
	prefix := ""
	if below != "." {
		prefix = filepath.ToSlash(below) + "/"
		w.prefix = strings.Split(filepath.ToSlash(below), "/")
	}
	files, tree, err := stagedFiles(w.store)
	if err != nil {
		return err
	}
	if prefix == "" {
		w.staged = tree
	}
	w.tracked = make(map[string]*stagedFile, len(files))
	for i := range files {
		e := &files[i]
		name, ok := strings.CutPrefix(e.name, prefix)
		if !ok || e.intended {
			continue
		}
		if e.skip {
			w.staged = Hash{} // the files of a sparse checkout are not those of the index
		}
		w.tracked[name] = e
		for at := name; strings.Contains(at, "/"); {
			if at = at[:strings.LastIndexByte(at, '/')]; w.folders[at] {
				break // with those above it
			}
			w.folders[at] = true
		}
	}
	return nil
}

// excludes returns the rules for root: those of .git/info/exclude, then those of parent folders, which override them.
func (w *walker) excludes() ([]ignoreRule, error) {
	var out []ignoreRule
	if w.store.dir != "" {
		rules, err := readIgnore(filepath.Join(w.store.dir, "info", "exclude"), nil)
		if err != nil {
			return nil, err
		}
		out = rules
	}
	for i := range w.prefix {
		dir := filepath.Join(w.store.worktree, filepath.Join(w.prefix[:i]...))
		rules, err := readIgnore(filepath.Join(dir, ".gitignore"), w.prefix[:i])
		if err != nil {
			return nil, err
		}
		out = append(out, rules...)
	}
	return out, nil
}

// ignoring holds the ignore rules of a folder.
type ignoring struct {
	rules []ignoreRule
	all   bool // the folder is ignored, so only its tracked files count
}

// dir walks one directory into a node; at is its path from root, above the rules of its parent.
func (w *walker) dir(at string, into *node, above ignoring) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	list, err := w.list(at)
	if err != nil {
		return err
	}
	here := above
	for _, item := range list {
		switch {
		case item.name == ".git" && at != "":
			return nil // another repository
		case strings.EqualFold(item.name, ".gitignore"): // on a file system that folds case, Git reads this one too
			own, err := readIgnore(w.onDisk(inFolder(at, ".gitignore")), w.fromTop(at))
			if err != nil {
				return err
			}
			here.rules = append(slices.Clip(above.rules), own...)
		}
	}
	below := "" // for the rules, which begin at the top
	if len(here.rules) > 0 {
		below = strings.Join(w.fromTop(at), "/")
	}
	for _, item := range list {
		if strings.EqualFold(item.name, ".git") {
			continue
		}
		name := inFolder(at, item.name)
		out := here.all || len(here.rules) > 0 && ignored(here.rules, inFolder(below, item.name), item.isDir)
		if out && w.tracked[name] == nil && !w.folders[name] {
			continue
		}
		if err := w.item(name, into, item, ignoring{rules: here.rules, all: out}); err != nil {
			return err
		}
	}
	return nil
}

// inFolder is the path of a name in a folder; "" is the folder at the beginning.
func inFolder(folder, name string) string {
	if folder == "" {
		return name
	}
	return folder + "/" + name
}

// fromTop is the path of a folder from the top of the working tree; at is its path from root.
func (w *walker) fromTop(at string) []string {
	if at == "" {
		return w.prefix
	}
	return slices.Concat(w.prefix, strings.Split(at, "/"))
}

// item adds an item of a directory to the directory's node; name is its path from root.
func (w *walker) item(name string, into *node, item dirItem, above ignoring) error {
	if item.isDir {
		return w.subdir(name, into, item.name, above)
	}
	e, err := w.file(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && e.Hash.IsZero():
		return nil // removed meanwhile, or a socket or device
	case err != nil:
		return err
	case w.compare:
		return w.matches(name, e)
	}
	into.put(item.name, e)
	return nil
}

func (w *walker) subdir(name string, into *node, last string, above ignoring) error {
	if known := w.tracked[name]; known != nil && known.mode == ModeSubmodule {
		if w.compare {
			return w.matches(name, Entry{Mode: ModeSubmodule, Hash: known.hash})
		}
		into.put(last, Entry{Mode: ModeSubmodule, Hash: known.hash})
		return nil
	}
	if w.compare {
		return w.dir(name, nil, above)
	}
	below := &node{}
	if err := w.dir(name, below, above); err != nil {
		return err
	}
	if len(below.files)+len(below.dirs) > 0 { // Git has no empty folders
		if into.dirs == nil {
			into.dirs = map[string]*node{}
		}
		into.dirs[last] = below
	}
	return nil
}

// file returns the entry of a file; path is its path from root.
func (w *walker) file(path string) (Entry, error) {
	info, err := w.disk.stat(path)
	if err != nil {
		return Entry{}, err
	}
	switch {
	case info.mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(w.onDisk(path))
		if err != nil {
			return Entry{}, err
		}
		return Entry{Mode: ModeSymlink, Hash: w.keep("blob", []byte(filepath.ToSlash(target)))}, nil
	case !info.mode.IsRegular():
		return Entry{}, nil
	case info.size > maxObject:
		return Entry{}, fmt.Errorf("%s: %w: ignore it in .gitignore", w.onDisk(path), ErrTooLarge)
	}
	e := Entry{Mode: ModeFile}
	if info.mode&0o100 != 0 {
		e.Mode = ModeExecutable
	}
	if known := w.tracked[path]; known != nil && w.unchanged(known, info) && (w.stored == nil || w.stored(known.hash)) {
		e.Hash = known.hash
		return e, nil
	}
	data, err := os.ReadFile(w.onDisk(path))
	if err != nil {
		return Entry{}, err
	}
	e.Hash = w.keep("blob", data)
	return e, nil
}

// onDisk is the name of a file; path is its path from root.
func (w *walker) onDisk(path string) string { return filepath.Join(w.root, filepath.FromSlash(path)) }

// unchanged reports whether Git wrote or read a file with the size and time that it has now, and no later change can have the same time: the
// time is before that of the index. It needs times of nanoseconds.
func (w *walker) unchanged(e *stagedFile, info fileStat) bool {
	isFile := e.mode == ModeFile || e.mode == ModeExecutable
	return isFile && !w.indexed.IsZero() && e.size == info.size && e.modified.Nanosecond() != 0 &&
		e.modified.Equal(info.modified) && info.modified.Before(w.indexed)
}

// keepMissing stores an object in memory if the repository does not have it.
func (w *walker) keepMissing(kind string, data []byte) Hash {
	if h := hashObject(kind, data); w.store.Has(h) {
		return h
	}
	return w.store.keep(kind, data)
}

func (w *walker) add(where []string, e Entry) {
	at := &w.top
	for _, part := range where[:len(where)-1] {
		if at.dirs == nil {
			at.dirs = map[string]*node{}
		}
		if at.dirs[part] == nil {
			at.dirs[part] = &node{}
		}
		at = at.dirs[part]
	}
	at.put(where[len(where)-1], e)
}

// put adds an entry with a name.
func (n *node) put(name string, e Entry) {
	if n.files == nil {
		n.files = map[string]Entry{}
	}
	e.Name = name
	n.files[name] = e
}

// seen reports whether the walk found a file at a path or at one of its parents.
func (w *walker) seen(name string) bool {
	at := &w.top
	parts := strings.Split(name, "/")
	for _, part := range parts[:len(parts)-1] {
		if _, ok := at.files[part]; ok {
			return true
		}
		if at = at.dirs[part]; at == nil {
			return false
		}
	}
	_, file := at.files[parts[len(parts)-1]]
	return file || at.dirs[parts[len(parts)-1]] != nil
}

func (w *walker) build(n *node) (Hash, error) {
	entries := make([]Entry, 0, len(n.files)+len(n.dirs))
	for _, e := range n.files {
		entries = append(entries, e)
	}
	for name, below := range n.dirs {
		h, err := w.build(below)
		if err != nil {
			return Hash{}, err
		}
		entries = append(entries, Entry{Name: name, Mode: ModeTree, Hash: h})
	}
	data, err := encodeTree(entries)
	if err != nil {
		return Hash{}, err
	}
	return w.keep("tree", data), nil
}
