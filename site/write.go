package site

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Write writes all pages and the files that they share into a folder. Files of an earlier run that no longer belong to
// the pages are removed only below apps/, clusters/, labels/ and versions/; other files of the folder stay. Each file
// is replaced as a whole.
func Write(dir string, p *Pages) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a web server reads the pages as another user
		return fmt.Errorf("pages: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("pages: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only used to open files
	keep := map[string]bool{}
	for name, data := range Assets() {
		if err := replace(root, name, data); err != nil {
			return err
		}
	}
	for path := range p.All() {
		data, _, err := p.Render(path)
		if err != nil {
			return err
		}
		keep[filepath.ToSlash(path)] = true
		if err := replace(root, path, data); err != nil {
			return err
		}
	}
	return prune(root, keep)
}

// replace writes a file beside its place and renames it, so that a web server never serves a part.
func replace(root *os.Root, name string, data []byte) error {
	name = filepath.FromSlash(name)
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("pages: %w", err)
		}
	}
	next := name + ".new"
	if err := root.WriteFile(next, data, 0o644); err != nil {
		return fmt.Errorf("pages: %w", err)
	}
	if err := root.Rename(next, name); err != nil {
		return fmt.Errorf("pages: %w", err)
	}
	return nil
}

// prune removes the pages of apps, clusters, labels and versions that no longer exist.
func prune(root *os.Root, keep map[string]bool) error {
	for _, dir := range []string{"apps", "clusters", "labels", "versions"} {
		var gone []string
		err := fs.WalkDir(root.FS(), dir, func(name string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && path.Ext(name) == ".html" && !keep[name] {
				gone = append(gone, name)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("pages: %w", err)
		}
		for _, name := range gone {
			if err := root.Remove(filepath.FromSlash(name)); err != nil {
				return fmt.Errorf("pages: %w", err)
			}
		}
	}
	return nil
}
