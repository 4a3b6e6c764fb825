// Package treefs has decorators of read-only trees of files, such as the snapshot of a commit: Overlay, Edit, Graft
// and Record. Paths are slash-separated and relative to the root, which is `.`.
//
// A decorator is as safe for concurrent use as the tree and the function that it wraps.
package treefs

import (
	"bytes"
	"io/fs"
	"maps"
	"path"
	"strings"
	"time"
)

// Tree is a tree of files.
type Tree interface {
	ReadFile(name string) ([]byte, error)
	Stat(name string) (fs.FileInfo, error)
}

// Overlay is a tree in which some files have another content, or are added.
type Overlay struct {
	tree  Tree
	files map[string][]byte
}

// NewOverlay returns a tree with files in place of those of the tree. Folders of added files are not added.
func NewOverlay(tree Tree, files map[string][]byte) *Overlay {
	return &Overlay{tree, maps.Clone(files)}
}

// ReadFile returns the content of a file, of the overlay a copy.
func (o *Overlay) ReadFile(name string) ([]byte, error) {
	if data, ok := o.files[name]; ok {
		return bytes.Clone(data), nil
	}
	return o.tree.ReadFile(name)
}

// Stat describes a file. The description of a file of the overlay has no Sys, because an id in it would be that of
// another content.
func (o *Overlay) Stat(name string) (fs.FileInfo, error) {
	if data, ok := o.files[name]; ok {
		return File(name, len(data)), nil
	}
	return o.tree.Stat(name)
}

// Written returns the content of a file in the tree below.
func (o *Overlay) Written(name string) ([]byte, error) { return o.tree.ReadFile(name) }

// Edit is a tree whose files change when they are read. What Stat says is that of the file before.
type Edit struct {
	Tree

	Change func(name string, data []byte) []byte // returns data, or a new slice
}

// ReadFile returns the changed content of a file.
func (e Edit) ReadFile(name string) ([]byte, error) {
	data, err := e.Tree.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return e.Change(name, data), nil
}

// Graft is a tree in which a folder has the content of the same folder of another tree.
type Graft struct {
	Tree

	Dir  string // hides what Tree has there
	From Tree
}

// ReadFile returns the content of a file.
func (g Graft) ReadFile(name string) ([]byte, error) { return g.of(name).ReadFile(name) }

// Stat describes a file or folder.
func (g Graft) Stat(name string) (fs.FileInfo, error) { return g.of(name).Stat(name) }

func (g Graft) of(name string) Tree {
	if name == g.Dir || strings.HasPrefix(name, g.Dir+"/") {
		return g.From
	}
	return g.Tree
}

// FS is a tree of files whose folders can be listed.
type FS interface {
	fs.ReadDirFS
	fs.ReadFileFS
	fs.StatFS
}

// Record is a tree that tells what is asked of it.
type Record struct {
	FS

	// Asked gets the path and the result of each question, and returns the error that the caller gets; nil only for
	// nil.
	Asked func(name string, err error) error
}

// Open implements fs.FS.
func (r Record) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	return f, r.Asked(name, err)
}

// ReadFile implements fs.ReadFileFS.
func (r Record) ReadFile(name string) ([]byte, error) {
	data, err := r.FS.ReadFile(name)
	return data, r.Asked(name, err)
}

// ReadDir implements fs.ReadDirFS.
func (r Record) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := r.FS.ReadDir(name)
	return entries, r.Asked(name, err)
}

// Stat implements fs.StatFS.
func (r Record) Stat(name string) (fs.FileInfo, error) {
	info, err := r.FS.Stat(name)
	return info, r.Asked(name, err)
}

// Missing returns the error for a path that a tree does not have. It wraps fs.ErrNotExist.
func Missing(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

// File describes a file that exists only in memory.
func File(name string, size int) fs.FileInfo { return info{name: path.Base(name), size: int64(size)} }

// Dir describes a folder that exists only in memory.
func Dir(name string) fs.FileInfo { return info{name: path.Base(name), mode: fs.ModeDir} }

type info struct {
	name string
	size int64
	mode fs.FileMode
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }
