// Package bare reads bare Git repositories on disk and merges in them, for the fakes of forges. It must not be part
// of a released binary.
//
// The package is not API: it can change in every release.
package bare

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Repository is a bare repository on disk that other processes push to. Each call opens it again, because another
// process may have repacked it.
type Repository struct{ Dir string }

func (g *Repository) open() (*git.Repository, error) {
	r, err := git.PlainOpen(g.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the Git repository %s: %w", g.Dir, err)
	}
	return r, nil
}

// Tip returns a branch's commit; "" if the branch does not exist.
func (g *Repository) Tip(branch string) string {
	r, err := g.open()
	if err != nil {
		return ""
	}
	ref, err := r.Reference(plumbing.NewBranchReferenceName(branch), true)
	if err != nil {
		return ""
	}
	return ref.Hash().String()
}

// Has reports whether the repository has a commit.
func (g *Repository) Has(sha string) bool {
	r, err := g.open()
	if err != nil {
		return false
	}
	_, err = r.CommitObject(plumbing.NewHash(sha))
	return err == nil
}

// Keep sets a ref. It copies objects of a fork, because forges share objects between forks.
func (g *Repository) Keep(from *Repository, ref, sha string) {
	r, err := g.open()
	if err != nil {
		return
	}
	hash := plumbing.NewHash(sha)
	if from != nil && from.Dir != g.Dir {
		if err := copyCommits(r, from, hash); err != nil {
			return
		}
	}
	// A lost update leaves a stale ref, which the next call repairs.
	_ = r.Storer.SetReference(plumbing.NewHashReference(plumbing.ReferenceName(ref), hash))
}

func copyCommits(to *git.Repository, from *Repository, hash plumbing.Hash) error {
	src, err := from.open()
	if err != nil {
		return err
	}
	all, err := src.Storer.IterEncodedObjects(plumbing.AnyObject)
	if err != nil {
		return fmt.Errorf("list the fork's objects: %w", err)
	}
	err = all.ForEach(func(o plumbing.EncodedObject) error {
		if to.Storer.HasEncodedObject(o.Hash()) == nil {
			return nil
		}
		_, err := to.Storer.SetEncodedObject(o)
		return err
	})
	if err != nil {
		return fmt.Errorf("copy the fork's commit %s: %w", hash, err)
	}
	return nil
}

// Merge creates a merge commit on a branch. If both sides changed a file differently, it returns a conflict.
func (g *Repository) Merge(branch, head, message, login string, at time.Time) (string, error) {
	r, err := g.open()
	if err != nil {
		return "", err
	}
	name := plumbing.NewBranchReferenceName(branch)
	old, err := r.Reference(name, true)
	if err != nil {
		return "", fmt.Errorf("branch %s: %w", branch, err)
	}
	ours, err := r.CommitObject(old.Hash())
	if err != nil {
		return "", fmt.Errorf("read the target's commit: %w", err)
	}
	theirs, err := r.CommitObject(plumbing.NewHash(head))
	if err != nil {
		return "", fmt.Errorf("read the head's commit: %w", err)
	}
	tree, err := mergedTree(r, ours, theirs)
	if err != nil {
		return "", err
	}
	by := object.Signature{Name: login, Email: login + "@users.noreply.example.com", When: at}
	c := &object.Commit{
		Author: by, Committer: by, Message: message, TreeHash: tree,
		ParentHashes: []plumbing.Hash{ours.Hash, theirs.Hash},
	}
	o := r.Storer.NewEncodedObject()
	if err := c.Encode(o); err != nil {
		return "", fmt.Errorf("encode the merge: %w", err)
	}
	hash, err := r.Storer.SetEncodedObject(o)
	if err != nil {
		return "", fmt.Errorf("write the merge: %w", err)
	}
	if err := r.Storer.CheckAndSetReference(plumbing.NewHashReference(name, hash), old); err != nil {
		return "", fmt.Errorf("move %s: %w", branch, err)
	}
	return hash.String(), nil
}

func mergedTree(r *git.Repository, ours, theirs *object.Commit) (plumbing.Hash, error) {
	bases, err := ours.MergeBase(theirs)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("find the merge base: %w", err)
	}
	if len(bases) == 0 {
		return plumbing.ZeroHash, errors.New("the branches have no common commit")
	}
	base, err := files(bases[0])
	if err != nil {
		return plumbing.ZeroHash, err
	}
	a, err := files(ours)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	b, err := files(theirs)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	for name := range union(base, b) {
		was, wanted, have := base[name], b[name], a[name]
		if was == wanted || wanted == have {
			continue
		}
		if have != was {
			return plumbing.ZeroHash, fmt.Errorf("conflict in %s", name)
		}
		if wanted == (leaf{}) {
			delete(a, name)
		} else {
			a[name] = wanted
		}
	}
	return writeTree(r, a)
}

type leaf struct {
	hash plumbing.Hash
	mode filemode.FileMode
}

func union(a, b map[string]leaf) map[string]bool {
	all := map[string]bool{}
	for name := range a {
		all[name] = true
	}
	for name := range b {
		all[name] = true
	}
	return all
}

func files(c *object.Commit) (map[string]leaf, error) {
	tree, err := c.Tree()
	if err != nil {
		return nil, fmt.Errorf("read the tree of %s: %w", c.Hash, err)
	}
	all := map[string]leaf{}
	err = tree.Files().ForEach(func(f *object.File) error {
		all[f.Name] = leaf{hash: f.Hash, mode: f.Mode}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", c.Hash, err)
	}
	return all, nil
}

// writeTree writes the trees of files, starting with the innermost ones.
func writeTree(r *git.Repository, all map[string]leaf) (plumbing.Hash, error) {
	entries := map[string]leaf{}
	below := map[string]map[string]leaf{}
	for name, f := range all {
		dir, rest, deep := strings.Cut(name, "/")
		if !deep {
			entries[name] = f
			continue
		}
		if below[dir] == nil {
			below[dir] = map[string]leaf{}
		}
		below[dir][rest] = f
	}
	for dir, some := range below {
		hash, err := writeTree(r, some)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		entries[path.Clean(dir)] = leaf{hash: hash, mode: filemode.Dir}
	}
	t := &object.Tree{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		t.Entries = append(t.Entries, object.TreeEntry{Name: name, Mode: entries[name].mode, Hash: entries[name].hash})
	}
	slices.SortFunc(t.Entries, func(a, b object.TreeEntry) int { return strings.Compare(sortKey(a), sortKey(b)) })
	o := r.Storer.NewEncodedObject()
	if err := t.Encode(o); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("encode a tree: %w", err)
	}
	hash, err := r.Storer.SetEncodedObject(o)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write a tree: %w", err)
	}
	return hash, nil
}

// sortKey returns the key for Git's order: folders sort as if their names ended in a slash.
func sortKey(e object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}
