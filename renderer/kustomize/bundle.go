package kustomize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/sluice-gitops/sluice/internal/treefs"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// File is one file of a bundle, with its slash path from the bundle's root.
type File struct {
	Path string
	Data []byte
}

// Tree is a read-only file tree, such as the snapshot of a commit. Paths are slash-separated and relative; `.` is the
// root. Stat must not follow symbolic links; a tree whose Stat does must have Lstat (fs.ReadLinkFS). A submodule has
// the mode fs.ModeIrregular.
type Tree = treefs.Tree

// EditedTree is a tree in which a tool has edited kustomizations. Messages have the lines of the text that people
// wrote.
type EditedTree interface {
	Tree
	// Written returns a file as it was before the edit.
	Written(name string) ([]byte, error)
}

// written returns the text of a file whose lines messages have. data is the content of the file.
func (w *Walker) written(name string, data []byte) []byte {
	if edited, ok := w.tree.(EditedTree); ok {
		if text, err := edited.Written(name); err == nil && manifest.Check(text, w.budget) == nil {
			return text
		}
	}
	return data
}

func lstat(tree Tree, name string) (fs.FileInfo, error) {
	if links, ok := tree.(fs.ReadLinkFS); ok {
		return links.Lstat(name)
	}
	return tree.Stat(name)
}

// memory is a Tree in memory.
type memory struct {
	files map[string][]byte
	dirs  map[string]bool
}

func newMemory(files []File) (*memory, error) {
	m := &memory{files: make(map[string][]byte, len(files)), dirs: map[string]bool{".": true}}
	for _, f := range files {
		if !fs.ValidPath(f.Path) || f.Path == "." || strings.ContainsAny(f.Path, "\\\x00") {
			return nil, fmt.Errorf("%q is not a valid path inside a bundle", f.Path)
		}
		if _, twice := m.files[f.Path]; twice {
			return nil, fmt.Errorf("the bundle has %s twice", f.Path)
		}
		m.files[f.Path] = f.Data
		for dir := path.Dir(f.Path); !m.dirs[dir]; dir = path.Dir(dir) {
			m.dirs[dir] = true
		}
	}
	for name := range m.files {
		if m.dirs[name] {
			return nil, fmt.Errorf("%s is both a file and a directory in the bundle", name)
		}
	}
	return m, nil
}

// ReadFile implements Tree.
func (m *memory) ReadFile(name string) ([]byte, error) {
	if data, ok := m.files[name]; ok {
		return data, nil
	}
	return nil, treefs.Missing("read", name)
}

// Stat implements Tree.
func (m *memory) Stat(name string) (fs.FileInfo, error) {
	if data, ok := m.files[name]; ok {
		return treefs.File(name, len(data)), nil
	}
	if m.dirs[name] {
		return treefs.Dir(name), nil
	}
	return nil, treefs.Missing("stat", name)
}

// mount is the directory at which the library sees the bundle.
const mount = "/.bundle"

var errReadOnly = errors.New("a bundle is read-only")

// disk is the bundle as a read-only file system of the library. Unlike the library's own file system in memory, it
// accepts every file name that Git accepts. Reads fail when the context ends, which ends the build.
type disk struct {
	ctx    context.Context // the library's interface takes no context
	memory *memory
}

func (d disk) inner(name string) (string, bool) {
	if filepath.Separator != '/' {
		name = filepath.ToSlash(strings.TrimPrefix(name, filepath.VolumeName(name)))
	}
	name = path.Clean(name)
	if name == mount {
		return ".", true
	}
	return strings.CutPrefix(name, mount+"/")
}

// ReadFile returns a copy, because the library may change it.
func (d disk) ReadFile(name string) ([]byte, error) {
	if err := d.ctx.Err(); err != nil {
		return nil, err
	}
	inner, ok := d.inner(name)
	if !ok {
		return nil, treefs.Missing("read", name)
	}
	data, err := d.memory.ReadFile(inner)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(data), nil
}

// CleanedAbs splits a path into directory and file.
func (d disk) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	inner, ok := d.inner(name)
	if ok && d.memory.dirs[inner] {
		return filesys.ConfirmedDir(path.Join(mount, inner)), "", nil
	}
	if _, is := d.memory.files[inner]; ok && is {
		return filesys.ConfirmedDir(path.Join(mount, path.Dir(inner))), path.Base(inner), nil
	}
	return "", "", treefs.Missing("find", name)
}

// Exists reports whether the bundle has a file or directory of that name.
func (d disk) Exists(name string) bool {
	_, _, err := d.CleanedAbs(name)
	return err == nil
}

// IsDir reports whether the bundle has a directory of that name.
func (d disk) IsDir(name string) bool {
	inner, ok := d.inner(name)
	return ok && d.memory.dirs[inner]
}

// Create fails: a bundle is read-only.
func (disk) Create(string) (filesys.File, error) { return nil, errReadOnly }

// Mkdir fails: a bundle is read-only.
func (disk) Mkdir(string) error { return errReadOnly }

// MkdirAll fails: a bundle is read-only.
func (disk) MkdirAll(string) error { return errReadOnly }

// RemoveAll fails: a bundle is read-only.
func (disk) RemoveAll(string) error { return errReadOnly }

// Open fails: a build reads whole files.
func (disk) Open(string) (filesys.File, error) { return nil, errReadOnly }

// ReadDir fails: a build does not list directories.
func (disk) ReadDir(string) ([]string, error) { return nil, errReadOnly }

// Glob fails: a build does not list directories.
func (disk) Glob(string) ([]string, error) { return nil, errReadOnly }

// WriteFile fails: a bundle is read-only.
func (disk) WriteFile(string, []byte) error { return errReadOnly }

// Walk fails: a build does not list directories.
func (disk) Walk(string, filepath.WalkFunc) error { return errReadOnly }
