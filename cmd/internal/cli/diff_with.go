package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/gitstore/worktree"
	"github.com/sluice-gitops/sluice/hydrate/source"
)

// withCompanions returns head as if sluice.lock pinned other repositories to local commits. Each value of --with is
// NAME=FOLDER for the files of a working tree, or NAME=FOLDER@REVISION. The commit has no hash.
func (d *diffOptions) withCompanions(ctx context.Context, s *app.Session, head gitstore.Commit) (gitstore.Commit,
	error,
) {
	if len(d.with) == 0 {
		return head, nil
	}
	v, err := s.Open(ctx, head.Tree)
	if err != nil {
		return head, err
	}
	var names []string
	for _, r := range v.Fleet.Repositories {
		names = append(names, r.Name)
	}
	lock := v.Lock()
	for _, text := range d.with {
		name, place, ok := strings.Cut(text, "=")
		if !ok || place == "" {
			return head, usagef("--with %q is not NAME=FOLDER or NAME=FOLDER@REVISION, such as components=../components@feature", text)
		}
		if err := mustKnow("repository", name, names); err != nil {
			return head, err
		}
		repository, _ := v.Fleet.Repository(name) // it exists: mustKnow found it
		commit, err := borrow(ctx, s.Store, place)
		if err != nil {
			return head, fmt.Errorf("--with %s: %w", text, err)
		}
		lock.SetPin(name, v.PinTo(repository, commit))
	}
	tree, err := source.ReplaceLock(ctx, s.Store, head.Tree, lock)
	if err != nil {
		return head, err
	}
	parents := head.Parents
	if !head.Hash.IsZero() {
		parents = []gitstore.Hash{head.Hash}
	}
	return gitstore.Commit{Tree: tree, Parents: parents}, nil
}

// borrow lets a store read a commit of a local repository: a revision, or the files of its working tree.
func borrow(ctx context.Context, s *gitstore.Store, place string) (gitstore.Hash, error) {
	dir, rev := place, ""
	if at := strings.LastIndexByte(place, '@'); at > 0 {
		dir, rev = place[:at], place[at+1:]
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return gitstore.Hash{}, err
	}
	other, err := gitstore.Open(ctx, gitstore.Options{Dir: dir})
	if err != nil {
		return gitstore.Hash{}, err
	}
	s.Borrow(other)
	if rev != "" || other.Worktree() == "" {
		if rev == "" {
			rev = "HEAD"
		}
		c, err := other.Resolve(ctx, rev)
		return c.Hash, err
	}
	tree, err := worktree.Tree(ctx, other, other.Worktree())
	if err != nil {
		return gitstore.Hash{}, err
	}
	return s.KeepCommit(gitstore.CommitSpec{Tree: tree, Message: "files of " + dir})
}
