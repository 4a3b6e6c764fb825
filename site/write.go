package site

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/bot/report/page"
)

// Write writes all pages and the files that they share into a folder. Files of an earlier run that no longer belong to the pages
// are removed only below apps/ and clusters/; other files of the folder stay. Each file is replaced as a whole.
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

// Reports makes the reports of changes.
type Reports struct {
	// Make makes one of them.
	Make func(Change) (*report.Review, error)
	// Version and Key are what Make works with; Key is nil if it is a random one. Reports of others are made again.
	Version string
	Key     []byte
}

// identity returns a digest of everything except the two commits that determines the page of a change. It is short, because the file is
// published and must not help to guess the key.
func (r Reports) identity(f *Fleet) (string, error) {
	policy, err := page.Policy() // it names the style and the scripts of the pages
	if err != nil {
		return "", err
	}
	sum := hmac.New(sha256.New, r.Key)
	fmt.Fprintf(sum, "%q %q %q %q", f.Name, r.Version, policy, f.registry)
	const published = 4 // bytes
	return hex.EncodeToString(sum.Sum(nil)[:published]), nil
}

// identityFile of the folder of changes has the identity of its reports.
const identityFile = changesFolder + "/made-with.txt"

// WriteChanges writes the reports of the changes that the pages link to, and removes others. The report of two commits that an earlier run
// wrote stays if its identity is the same.
func WriteChanges(dir string, p *Pages, r Reports) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("pages: %w", err)
	}
	defer func() { _ = root.Close() }() // it was only used to open files
	identity, err := r.identity(p.fleet)
	if err != nil {
		return err
	}
	if have, err := root.ReadFile(filepath.FromSlash(identityFile)); err != nil || string(have) != identity {
		if err := root.RemoveAll(changesFolder); err != nil {
			return fmt.Errorf("pages: %w", err)
		}
	}
	if err := replace(root, identityFile, []byte(identity)); err != nil {
		return err
	}
	keep := map[string]bool{identityFile: true}
	for _, c := range p.written {
		keep[c.Path()] = true
		if _, err := root.Stat(filepath.FromSlash(c.Path())); err == nil && c.After != "" {
			continue
		}
		if err := writeChange(root, c, r.Make); err != nil {
			return err
		}
	}
	return pruneChanges(root, keep)
}

func writeChange(root *os.Root, c Change, make func(Change) (*report.Review, error)) error {
	r, err := make(c)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := page.Write(&out, r); err != nil {
		return err
	}
	return replace(root, c.Path(), out.Bytes())
}

// pruneChanges removes the files in the folder of changes that are not to be kept.
func pruneChanges(root *os.Root, keep map[string]bool) error {
	var gone []string
	err := fs.WalkDir(root.FS(), changesFolder, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !keep[name] {
			gone = append(gone, name)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("pages: %w", err)
	}
	for _, name := range gone {
		if err := root.Remove(filepath.FromSlash(name)); err != nil {
			return fmt.Errorf("pages: %w", err)
		}
	}
	return nil
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

// prune removes the pages of apps and clusters that no longer exist.
func prune(root *os.Root, keep map[string]bool) error {
	for _, dir := range []string{"apps", "clusters"} {
		f, err := root.Open(dir)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("pages: %w", err)
		}
		names, err := f.Readdirnames(-1)
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return fmt.Errorf("pages: %w", err)
		}
		for _, name := range names {
			if filepath.Ext(name) == ".html" && !keep[dir+"/"+name] {
				if err := root.Remove(filepath.Join(dir, name)); err != nil {
					return fmt.Errorf("pages: %w", err)
				}
			}
		}
	}
	return nil
}
