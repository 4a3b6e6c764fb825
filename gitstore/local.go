package gitstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
)

// Local returns the branches of this repository. Its Push ignores PerPush.
func (s *Store) Local() Branches { return &localBranches{store: s} }

// IsLocal reports whether branches are those of a repository on this machine that Local returned, not of a remote.
func IsLocal(b Branches) bool {
	_, local := b.(*localBranches)
	return local
}

type localBranches struct{ store *Store }

func (l *localBranches) String() string { return l.store.dir }

func (l *localBranches) Fetch(ctx context.Context, commits ...Hash) error {
	return l.store.Ensure(ctx, commits...)
}

// List leaves out symbolic and broken refs, because they name no commit.
func (l *localBranches) List(ctx context.Context, prefixes ...string) (map[string]Hash, error) {
	refs, err := l.refs(ctx, "heads")
	if err != nil {
		return nil, fmt.Errorf("list the branches: %w", err)
	}
	return selected(refs, prefixes), nil
}

// RefNames returns the short names of this repository's branches, tags and remote branches (origin/main), in this
// order and each sorted. It leaves out symbolic and broken refs.
func (s *Store) RefNames(ctx context.Context) ([]string, error) {
	l := &localBranches{store: s}
	var out []string
	for _, folder := range []string{"heads", "tags", "remotes"} {
		refs, err := l.refs(ctx, folder)
		if err != nil {
			return nil, fmt.Errorf("list the refs: %w", err)
		}
		prefix := "refs/" + folder + "/"
		for _, name := range slices.Sorted(maps.Keys(refs)) {
			if short, ok := strings.CutPrefix(name, prefix); ok {
				out = append(out, short)
			}
		}
	}
	return out, nil
}

// DefaultBranch returns the name of the default branch of the remote origin as the clone knows it; without that, the first of
// main and master that the repository has; "" if it has neither.
func (s *Store) DefaultBranch(ctx context.Context) string {
	const head, prefix = "refs/remotes/origin/HEAD", "refs/remotes/origin/"
	if s.dir == "" {
		return ""
	}
	if data, err := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(head))); err == nil { // a symbolic ref is never packed
		if name, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "ref: "+prefix); ok {
			return name
		}
	}
	names, err := s.RefNames(ctx)
	if err != nil {
		return "" // reading a commit reports it
	}
	for _, name := range []string{"main", "master"} {
		if slices.Contains(names, name) || slices.Contains(names, "origin/"+name) {
			return name
		}
	}
	return ""
}

// refs reads the refs of a folder of refs/ and all packed refs, by their full names.
func (l *localBranches) refs(ctx context.Context, folder string) (map[string]Hash, error) {
	if l.store.dir == "" {
		return map[string]Hash{}, nil
	}
	loose := map[string]Hash{}
	root := filepath.Join(l.store.dir, "refs")
	err := filepath.WalkDir(filepath.Join(root, folder), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(p, ".lock") {
			return errors.Join(disk.IgnoreMissing(err), ctx.Err())
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		h, err := readRef(p)
		if err == nil {
			loose["refs/"+filepath.ToSlash(name)] = h
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Read packed refs after loose ones, because `git pack-refs` moves refs in this direction.
	out, err := l.packed()
	if err != nil {
		return nil, err
	}
	maps.Copy(out, loose)
	return out, nil
}

func (l *localBranches) packedFile() string { return filepath.Join(l.store.dir, "packed-refs") }

// packed reads packed-refs.
func (l *localBranches) packed() (map[string]Hash, error) {
	out := map[string]Hash{}
	data, err := os.ReadFile(l.packedFile())
	if err != nil {
		return out, disk.IgnoreMissing(err)
	}
	for line := range bytes.Lines(data) {
		hash, name, ok := strings.Cut(strings.TrimSpace(string(line)), " ")
		if h, err := ParseHash(hash); ok && err == nil {
			out[name] = h
		}
	}
	return out, nil
}

func (l *localBranches) loose(branch string) (Hash, error) { return readRef(l.refFile(branch)) }

func readRef(file string) (Hash, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the user's own repository
	if err != nil {
		return Hash{}, err
	}
	text := strings.TrimSpace(string(data))
	if strings.HasPrefix(text, "ref:") {
		return Hash{}, errors.New("it is a symbolic ref")
	}
	return ParseHash(text)
}

func (l *localBranches) refFile(branch string) string {
	return filepath.Join(l.store.dir, "refs", "heads", filepath.FromSlash(branch))
}

// Push stores the packfile and moves the branches in two steps, as Git's ref transactions do. It locks every ref with
// Git's own lock files and compares it with Old. It moves them only if all of them match.
func (l *localBranches) Push(ctx context.Context, w *Writer, moves []Move, o PushOptions) ([]MoveResult, error) {
	if l.store.dir == "" {
		return nil, errors.New("the store has no repository to write to")
	}
	if err := CheckMoves(moves); err != nil {
		return nil, err
	}
	if w != nil {
		if err := w.pack.StoreIn(l.store.own); err != nil {
			return nil, err
		}
	}
	busy, err := l.checkedOut()
	if err != nil {
		return nil, err
	}
	t := newTransaction(l)
	defer t.rollback()
	var bad []MoveResult
	for _, m := range moves {
		if at, ok := busy[heads+m.Branch]; ok {
			bad = append(bad, MoveResult{Move: m, State: Rejected, Reason: "it is checked out in " + at +
				": switch to another branch there"})
			continue
		}
		reason, err := t.prepare(ctx, m)
		if err != nil {
			return bad, fmt.Errorf("move the branch %q: %w", m.Branch, err)
		}
		if reason != "" {
			bad = append(bad, MoveResult{Move: m, State: Conflict, Reason: reason})
		}
	}
	if moved, err := l.moved(o.Unmoved); err != nil {
		return bad, err
	} else if bad = append(bad, moved...); len(bad) > 0 {
		return bad, nil
	}
	return t.commit(ctx)
}

// moved returns the branches that are not where the caller read them.
func (l *localBranches) moved(unmoved map[string]Hash) ([]MoveResult, error) {
	refs := make(map[string]Hash, len(unmoved))
	for name := range unmoved {
		have, err := l.store.ref(heads + name)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		refs[heads+name] = have
	}
	return outOfDate(refs, nil, unmoved), nil
}

// checkedOut maps checked-out refs to their working trees.
func (l *localBranches) checkedOut() (map[string]string, error) {
	out := map[string]string{}
	if ref := headRef(l.store.dir); ref != "" && !l.store.bare {
		out[ref] = strings.TrimSuffix(l.store.dir, string(filepath.Separator)+".git")
	}
	linked, err := filepath.Glob(filepath.Join(l.store.dir, "worktrees", "*"))
	for _, dir := range linked {
		at := dir
		//nolint:gosec // the user's own repository
		if data, err := os.ReadFile(filepath.Join(dir, "gitdir")); err == nil {
			at = filepath.Dir(strings.TrimSpace(string(data)))
		}
		if ref := headRef(dir); ref != "" {
			out[ref] = at
		}
	}
	return out, err
}

// headRef returns the branch that is checked out, or that a rebase in progress returns to.
func headRef(dir string) string {
	for _, name := range []string{"rebase-merge/head-name", "rebase-apply/head-name", "HEAD"} {
		//nolint:gosec // the user's own repository
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			continue
		}
		text := strings.TrimSpace(string(data))
		if ref, ok := strings.CutPrefix(text, "ref: "); ok || strings.HasPrefix(text, heads) {
			return ref
		}
	}
	return ""
}
