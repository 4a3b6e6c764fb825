package kustomize

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// File is one file of a bundle, with its slash path from the bundle's root.
type File struct {
	Path string
	Data []byte
}

// Tree is what roots are read from; a commit's snapshot is one. Paths are slash-separated and relative.
type Tree interface {
	ReadFile(name string) ([]byte, error)
	Stat(name string) (fs.FileInfo, error)
}

// memory is a Tree of files.
type memory map[string][]byte

func newMemory(files []File) memory {
	m := make(memory, len(files))
	for _, f := range files {
		m[f.Path] = f.Data
	}
	return m
}

// ReadFile gives a file's bytes.
func (m memory) ReadFile(name string) ([]byte, error) {
	if data, ok := m[name]; ok {
		return data, nil
	}
	return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
}

// Stat says whether a path is a file or a directory above one.
func (m memory) Stat(name string) (fs.FileInfo, error) {
	if _, ok := m[name]; ok {
		return info{name: path.Base(name)}, nil
	}
	for file := range m {
		if name == "." || strings.HasPrefix(file, name+"/") {
			return info{name: path.Base(name), mode: fs.ModeDir}, nil
		}
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

type info struct {
	name string
	mode fs.FileMode
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return 0 }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

// place is where in a kustomization a reference stands, for messages.
type place struct {
	file, field string
	data        []byte
}

func (p place) errorf(ref, format string, args ...any) error {
	where := p.file
	if line := lineOf(p.data, ref); line > 0 {
		where = fmt.Sprintf("%s:%d", p.file, line)
	}
	return fmt.Errorf("%s: %s: %q %s", where, p.field, ref, fmt.Sprintf(format, args...))
}

func lineOf(data []byte, ref string) int {
	i := bytes.Index(data, []byte(ref))
	if i < 0 || ref == "" {
		return 0
	}
	return bytes.Count(data[:i], []byte("\n")) + 1
}

// locate finds what a reference names, from the directory of the kustomization that holds it.
func locate(tree Tree, dir, ref string, at place) (string, fs.FileInfo, error) {
	if why := remote(ref); why != "" {
		return "", nil, at.errorf(ref, "looks remote (%s): only paths inside the repository are taken; vendor it", why)
	}
	if path.IsAbs(ref) || strings.ContainsAny(ref, "\\\x00") {
		return "", nil, at.errorf(ref, "is no relative path with forward slashes")
	}
	full := path.Join(dir, ref)
	if full == ".." || strings.HasPrefix(full, "../") {
		return "", nil, at.errorf(ref, "leaves the repository")
	}
	for parent := full; parent != "."; parent = path.Dir(parent) {
		i, err := tree.Stat(parent)
		if err != nil {
			continue
		}
		switch {
		case i.Mode()&fs.ModeSymlink != 0:
			return "", nil, at.errorf(ref, "goes through the symbolic link %s: links are not followed; name the target", parent)
		case i.Mode()&fs.ModeIrregular != 0:
			return "", nil, at.errorf(ref, "goes into the submodule %s: submodules are not read; vendor the files", parent)
		}
	}
	found, err := tree.Stat(full)
	if err != nil {
		return "", nil, at.errorf(ref, "is not there (looked for %s)", full)
	}
	return full, found, nil
}

// remote says why the library could take a reference for a URL or a Git repository. It is wider than the library's own
// rule: a local path that looks like one has to be renamed.
func remote(ref string) string {
	lower := strings.ToLower(strings.TrimSpace(ref))
	switch {
	case strings.Contains(lower, "://"):
		return "a URL"
	case strings.HasPrefix(lower, "git::"), strings.HasPrefix(lower, "gh:"), strings.HasPrefix(lower, "file:"):
		return "a Git address"
	case strings.HasPrefix(lower, "github.com"), strings.Contains(lower, "@") && strings.Contains(lower, ":"):
		return "a Git host"
	case strings.Contains(lower, "?"):
		return "a query"
	case strings.HasPrefix(lower, "http:"), strings.HasPrefix(lower, "https:"), strings.HasPrefix(lower, "ssh:"):
		return "a URL"
	}
	if slices.ContainsFunc(strings.Split(lower, "/"), func(part string) bool { return strings.HasSuffix(part, ".git") }) {
		return "a Git repository"
	}
	return ""
}
