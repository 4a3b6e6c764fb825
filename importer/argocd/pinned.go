package argocd

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/importer/internal/pinned"
	"github.com/sluice-gitops/sluice/internal/treefs"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
)

// contentOf returns an importer of the files that a source names, of the commit under review or of another one. Its
// paths are relative to its dir.
func (i *importer) contentOf(url, revision string) (*importer, error) {
	i = cmp.Or(i.commit, i)
	err := i.thisCommit(url, revision)
	if err == nil || !pinned.Whole(revision) {
		return i, err
	}
	url = asURL(url)
	for n := range i.Pinned {
		p := &i.Pinned[n]
		switch {
		case p.URL != url || p.Commit != revision:
		case p.Missing != "":
			return nil, fmt.Errorf("the content of %s at %.7s is missing: %s", url, revision, p.Missing)
		default:
			return i.other(p.Dir)
		}
	}
	return nil, &pinned.LackError{URL: url, Commit: revision, Err: err}
}

// asURL returns an address in the form that git writes as user@host:path as a URL.
func asURL(address string) string {
	host, inner, ok := strings.Cut(address, ":")
	if !ok || strings.Contains(address, "://") || strings.Contains(host, "/") || !strings.Contains(host, "@") {
		return address
	}
	return "ssh://" + host + "/" + strings.TrimPrefix(inner, "/")
}

// other returns an importer of the files in a directory of the tree.
func (i *importer) other(dir string) (*importer, error) {
	if known, ok := i.others[dir]; ok {
		return known, nil
	}
	out := *i
	out.Tree, out.dir, out.files, out.Pinned, out.commit = below{i.Tree, dir}, dir, nil, nil, i
	if err := out.list("."); err != nil {
		return nil, err
	}
	i.others[dir] = &out
	return &out, nil
}

// mountDir is the directory with the content of other repositories; "" if there are none.
func (i *importer) mountDir() string {
	if len(i.Pinned) == 0 {
		return ""
	}
	return path.Dir(i.Pinned[0].Dir)
}

// mounted reports whether a directory has the content of other repositories.
func (i *importer) mounted(dir string) bool { return dir != "" && dir == i.mountDir() }

// redirected is the tree, in which kustomizations find the commits of other repositories that they name by their whole
// ids.
func (i *importer) redirected() *kustomize.Redirected {
	commit := cmp.Or(i.commit, i)
	if len(commit.Pinned) == 0 {
		return kustomize.Redirect(i.Tree, pinned.Bases(nil))
	}
	return kustomize.Redirect(treefs.Graft{Tree: i.Tree, Dir: commit.mountDir(), From: commit.Tree}, pinned.Bases(commit.Pinned))
}

// placed returns a source with the paths of the tree that Import got.
func (i *importer) placed(s Source) Source {
	if i.dir == "" {
		return s
	}
	if s.Chart != nil && s.Chart.Path != "" {
		s.Chart.Path = path.Join(i.dir, s.Chart.Path)
	}
	if s.Root != nil {
		s.Root.Path = path.Join(i.dir, s.Root.Path)
	}
	s.reads = slices.Clone(s.reads)
	for n := range s.reads {
		s.reads[n] = path.Join(i.dir, s.reads[n])
	}
	return s
}

// holding returns the importer of a path of the tree that Import got, and the path in it.
func (i *importer) holding(name string) (*importer, string) {
	for dir, other := range i.others {
		if inner, ok := relativeTo(dir, name); ok {
			return other, inner
		}
	}
	return i, name
}

// below is a directory of a tree. Nothing in it leads out of it.
type below struct {
	tree Tree
	dir  string
}

func (b below) at(name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return path.Join(b.dir, name), nil
}

// ReadFile implements Tree.
func (b below) ReadFile(name string) ([]byte, error) {
	full, err := b.at(name)
	if err != nil {
		return nil, err
	}
	return b.tree.ReadFile(full)
}

// Stat implements Tree.
func (b below) Stat(name string) (fs.FileInfo, error) {
	full, err := b.at(name)
	if err != nil {
		return nil, err
	}
	return b.tree.Stat(full)
}

// ReadDir implements Tree.
func (b below) ReadDir(name string) ([]fs.DirEntry, error) {
	full, err := b.at(name)
	if err != nil {
		return nil, err
	}
	return b.tree.ReadDir(full)
}
