// Package fleettest has source repositories in memory, for the tests of fleet and of the packages below it.
package fleettest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// Tree is a tree of files with content ids, as in a Git commit. A lookup costs as much as in a map, so that benchmarks
// measure their package.
type Tree struct {
	nodes map[string]*memNode
	Fail  map[string]error // paths that cannot be read
}

type memNode struct {
	name  string
	data  []byte
	id    memID
	names []string
	dir   bool
	link  string // target
}

// LinkTo begins the text of a file that represents a symbolic link; the target follows.
const LinkTo = "→ "

type memID string

func (id memID) String() string { return string(id) }

func (n *memNode) Name() string               { return n.name }
func (n *memNode) Size() int64                { return int64(len(n.data)) }
func (n *memNode) ModTime() time.Time         { return time.Time{} }
func (n *memNode) IsDir() bool                { return n.dir }
func (n *memNode) Sys() any                   { return n.id }
func (n *memNode) Type() fs.FileMode          { return n.Mode().Type() }
func (n *memNode) Info() (fs.FileInfo, error) { return n, nil }
func (n *memNode) Mode() fs.FileMode {
	if n.dir {
		return fs.ModeDir | 0o755
	}
	if n.link != "" {
		return fs.ModeSymlink | 0o777
	}
	return 0o644
}

// NewTree returns a tree of files, by path.
func NewTree(files map[string]string) *Tree {
	t := &Tree{nodes: map[string]*memNode{".": {name: ".", dir: true}}, Fail: map[string]error{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256([]byte(files[name]))
		target, _ := strings.CutPrefix(files[name], LinkTo)
		if target == files[name] {
			target = ""
		}
		t.nodes[name] = &memNode{
			name: path.Base(name), data: []byte(files[name]),
			id: memID(hex.EncodeToString(sum[:])), link: target,
		}
		for child := name; child != "."; child = path.Dir(child) {
			parent := t.nodes[path.Dir(child)]
			if parent == nil {
				parent = &memNode{name: path.Base(path.Dir(child)), dir: true}
				t.nodes[path.Dir(child)] = parent
			}
			if slices.Contains(parent.names, path.Base(child)) {
				break
			}
			parent.names = append(parent.names, path.Base(child))
		}
	}
	t.identify(".")
	return t
}

// identify gives directories a hash of their content.
func (t *Tree) identify(name string) string {
	n := t.nodes[name]
	if !n.dir {
		return string(n.id)
	}
	slices.Sort(n.names)
	h := sha256.New()
	for _, child := range n.names {
		h.Write([]byte(child + "\x00" + t.identify(path.Join(name, child)) + "\n"))
	}
	n.id = memID(hex.EncodeToString(h.Sum(nil)))
	return string(n.id)
}

func (t *Tree) node(op, name string) (*memNode, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if err := t.Fail[name]; err != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	if n, ok := t.nodes[name]; ok {
		return n, nil
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// Stat describes a file, a folder or a link.
func (t *Tree) Stat(name string) (fs.FileInfo, error) {
	n, err := t.node("stat", name)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// ReadFile returns the text of a file, and fails for links.
func (t *Tree) ReadFile(name string) ([]byte, error) {
	n, err := t.node("read", name)
	if err != nil {
		return nil, err
	}
	if n.dir || n.link != "" {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("it is no file")}
	}
	return n.data, nil
}

// ReadLink returns the target of a link.
func (t *Tree) ReadLink(name string) (string, error) {
	n, err := t.node("readlink", name)
	if err != nil {
		return "", err
	}
	return n.link, nil
}

// ReadDir lists a folder.
func (t *Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := t.node("readdir", name)
	if err != nil {
		return nil, err
	}
	out := make([]fs.DirEntry, len(n.names))
	for i, child := range n.names {
		out[i] = t.nodes[path.Join(name, child)]
	}
	return out, nil
}

// Open opens a file or folder.
func (t *Tree) Open(name string) (fs.File, error) {
	n, err := t.node("open", name)
	if err != nil {
		return nil, err
	}
	return &memFile{n, bytes.NewReader(n.data)}, nil
}

type memFile struct {
	*memNode
	*bytes.Reader
}

func (f *memFile) Stat() (fs.FileInfo, error) { return f.memNode, nil }
func (f *memFile) Close() error               { return nil }
func (f *memFile) Size() int64                { return f.memNode.Size() }

var _ io.Reader = (*memFile)(nil)
