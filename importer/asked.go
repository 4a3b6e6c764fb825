package importer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// dirEntry is an entry of a directory. ID identifies the content of a file; it is empty if the tree has no ids.
type dirEntry struct {
	Name string
	Mode fs.FileMode
	Size int64
	ID   string
}

// fileAnswer is a file that the parent sends.
type fileAnswer struct {
	Name string
	Data []byte
}

// Limits of one answer. What does not fit is asked for separately.
const (
	maxListed   = 10_000  // entries of directories
	maxNames    = 8 << 20 // bytes of the paths and names; folders in folders have long paths
	maxTogether = 1 << 20 // bytes of the files behind the one that was asked for
)

// listDirs answers askDirs. A question costs more than many entries, and most imports read every directory.
func listDirs(tree fleet.Tree, name string) ([]byte, error) {
	out := map[string][]dirEntry{}
	queue, total, bytes := []string{name}, 0, 0
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		entries, err := tree.ReadDir(at)
		if err != nil && at == name {
			return nil, err
		}
		if err != nil {
			continue // the child asks for it, and gets the error
		}
		list := make([]dirEntry, len(entries))
		for i, e := range entries {
			info, err := e.Info()
			if err != nil {
				return nil, err
			}
			encodable := utf8.ValidString(e.Name()) // other names do not pass through JSON unchanged
			list[i] = dirEntry{Name: strings.ToValidUTF8(e.Name(), "\ufffd"), Mode: info.Mode(), Size: info.Size()}
			// Without an id, a file is read by its name. The changed name names no file, whatever the process keeps.
			if id, ok := info.Sys().(fmt.Stringer); ok && encodable && info.Mode().IsRegular() {
				list[i].ID = id.String()
			}
			bytes += len(e.Name())
			if e.IsDir() && encodable && bytes < maxNames && !mounted(at, e.Name()) {
				queue = append(queue, path.Join(at, e.Name()))
				bytes += len(at)
			}
		}
		out[at] = list
		if total += len(list); total >= maxListed || bytes >= maxNames {
			break
		}
	}
	return json.Marshal(out)
}

// mounted reports whether an entry of a directory leads to another repository. Most imports read few of them.
func mounted(dir, name string) bool {
	return dir == fleet.MountDir || dir == "." && name == fleet.MountDir
}

// readFiles answers askFiles.
func readFiles(tree fleet.Tree, name string) ([]byte, error) {
	data, err := tree.ReadFile(name)
	if err != nil {
		return nil, err
	}
	out, total := []fileAnswer{{name, data}}, 0
	entries, err := tree.ReadDir(path.Dir(name))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		full := path.Join(path.Dir(name), e.Name())
		if full <= name || !e.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml", ".json"},
			path.Ext(full)) {
			continue
		}
		next, err := tree.ReadFile(full)
		if err != nil {
			continue // the child asks for it, and gets the error
		}
		if total += len(next); total > maxTogether {
			break
		}
		out = append(out, fileAnswer{full, next})
	}
	return json.Marshal(out)
}

// contents keeps files by their ids for the calls of one process, which all have the same owner. It is safe for
// concurrent use.
type contents struct {
	mu    sync.Mutex
	byID  map[string][]byte
	bytes int
}

const maxContents = 64 << 20 // bytes of the files that a process keeps

func (c *contents) get(id string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	data, ok := c.byID[id]
	return data, ok
}

func (c *contents) add(id string, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.byID[id]; known || id == "" || len(data) > maxContents {
		return
	}
	if c.bytes += added(c.byID, id, data); c.bytes > maxContents {
		c.byID, c.bytes = map[string][]byte{}, len(data)
	}
	c.byID[id] = data
}

// listing keeps the directories of the tree that was listed last. It is safe for concurrent use.
type listing struct {
	mu   sync.Mutex
	tree string
	dirs map[string][]dirEntry
}

// of returns the known directories of a tree. The caller may add to them.
func (l *listing) of(tree string) map[string][]dirEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if tree == "" || l.tree != tree {
		l.tree, l.dirs = "", nil // two large trees are never held at once
		return map[string][]dirEntry{}
	}
	return maps.Clone(l.dirs)
}

// maxEntries bounds the directories and their entries that a process keeps between jobs.
const maxEntries = 200_000

// keep replaces what is known. It must not be changed afterwards.
func (l *listing) keep(tree string, dirs map[string][]dirEntry) {
	n := len(dirs)
	for _, entries := range dirs {
		n += len(entries)
	}
	if n > maxEntries {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tree, l.dirs = tree, dirs
}

// askedTree is the tree of the commit, which the parent reads.
type askedTree struct {
	ctx   context.Context //nolint:containedctx // io/fs has no room for one; the tree lives as long as the job
	ask   worker.Ask
	files *contents

	mu   sync.Mutex
	dirs map[string][]dirEntry
}

func (t *askedTree) entries(name string) ([]dirEntry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.dirs[name]; ok {
		return known, nil
	}
	data, err := t.ask(t.ctx, askDirs, []byte(name))
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	var found map[string][]dirEntry
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, err
	}
	for dir, entries := range found { // JSON replaces what is not UTF-8, which can change the order
		slices.SortStableFunc(entries, func(a, b dirEntry) int { return cmp.Compare(a.Name, b.Name) })
		t.dirs[dir] = entries
	}
	return t.dirs[name], nil
}

func (t *askedTree) find(op, name string) (dirEntry, error) {
	at := dirEntry{Name: ".", Mode: fs.ModeDir}
	if name == "." {
		return at, nil
	}
	if !fs.ValidPath(name) {
		return at, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if dir := path.Dir(name); dir != "." {
		parent, err := t.find(op, dir)
		if err != nil {
			return at, err
		}
		if !parent.Mode.IsDir() {
			return at, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
	}
	entries, err := t.entries(path.Dir(name))
	if err != nil {
		return at, err
	}
	i, ok := slices.BinarySearchFunc(entries, path.Base(name),
		func(e dirEntry, base string) int { return cmp.Compare(e.Name, base) })
	if !ok {
		return at, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return entries[i], nil
}

// Open implements fs.FS. Nothing reads files in parts.
func (t *askedTree) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
}

// ReadFile implements fs.ReadFileFS.
func (t *askedTree) ReadFile(name string) ([]byte, error) {
	e, err := t.find("read", name)
	if err != nil {
		return nil, err
	}
	if data, ok := t.files.get(e.ID); ok {
		return slices.Clone(data), nil
	}
	question := askFiles
	if e.ID == "" || !e.Mode.IsRegular() { // what comes beside it could not be kept
		question = askFile
	}
	data, err := t.ask(t.ctx, question, []byte(name))
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	if question == askFile {
		return data, nil
	}
	var files []fileAnswer
	if err := json.Unmarshal(data, &files); err != nil {
		return nil, err
	}
	for _, f := range files {
		if one, err := t.find("read", f.Name); err == nil {
			t.files.add(one.ID, f.Data)
		}
	}
	return slices.Clone(files[0].Data), nil
}

// Stat implements fs.StatFS.
func (t *askedTree) Stat(name string) (fs.FileInfo, error) {
	e, err := t.find("stat", name)
	if err != nil {
		return nil, err
	}
	return entryInfo{e}, nil
}

// ReadDir implements fs.ReadDirFS.
func (t *askedTree) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := t.find("readdir", name)
	if err != nil {
		return nil, err
	}
	if !e.Mode.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	entries, err := t.entries(name)
	if err != nil {
		return nil, err
	}
	out := make([]fs.DirEntry, len(entries))
	for i, e := range entries {
		out[i] = fs.FileInfoToDirEntry(entryInfo{e})
	}
	return out, nil
}

type entryInfo struct{ e dirEntry }

func (i entryInfo) Name() string       { return i.e.Name }
func (i entryInfo) Size() int64        { return i.e.Size }
func (i entryInfo) Mode() fs.FileMode  { return i.e.Mode }
func (i entryInfo) ModTime() time.Time { return time.Time{} }
func (i entryInfo) IsDir() bool        { return i.e.Mode.IsDir() }

// Sys returns the id of the content, as the tree of the commit does: what is known by the id need not be read.
func (i entryInfo) Sys() any {
	if i.e.ID == "" {
		return nil
	}
	return fileID(i.e.ID)
}

// fileID is the id of a file's content in the tree of a commit.
type fileID string

// String implements fmt.Stringer.
func (id fileID) String() string { return string(id) }

// askedArchives are locked archives that the parent gives.
type askedArchives struct{ ask worker.Ask }

// Archive implements Archives.
func (a askedArchives) Archive(ctx context.Context, r fetch.Ref, l fetch.Locked) ([]byte, error) {
	question, err := json.Marshal(archiveQuestion{r, l})
	if err != nil {
		return nil, err
	}
	return a.ask(ctx, askArchive, question)
}
