package gitstore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Local is the place in this repository itself.
func (s *Store) Local() Branches { return &localBranches{store: s} }

type localBranches struct{ store *Store }

func (l *localBranches) String() string { return l.store.dir }

func (l *localBranches) Fetch(ctx context.Context, commits ...Hash) error {
	return l.store.Ensure(ctx, commits...)
}

func (l *localBranches) List(_ context.Context, prefixes ...string) (map[string]Hash, error) {
	out, err := l.packed()
	if err != nil {
		return nil, err
	}
	root := filepath.Join(l.store.dir, "refs", "heads")
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(p, ".lock") {
			return ignoreMissing(err)
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		h, err := l.loose(filepath.ToSlash(name))
		if err == nil && !h.IsZero() {
			out[heads+filepath.ToSlash(name)] = h
		}
		return ignoreMissing(err)
	})
	return selected(out, prefixes), err
}

// packed reads packed-refs.
func (l *localBranches) packed() (map[string]Hash, error) {
	out := map[string]Hash{}
	data, err := os.ReadFile(filepath.Join(l.store.dir, "packed-refs"))
	if err != nil {
		return out, ignoreMissing(err)
	}
	scanner := bufio.NewScanner(bytes.NewReader(data))
	for scanner.Scan() {
		hash, name, ok := strings.Cut(scanner.Text(), " ")
		if h, err := ParseHash(hash); ok && err == nil {
			out[name] = h
		}
	}
	return out, scanner.Err()
}

func (l *localBranches) loose(branch string) (Hash, error) {
	data, err := os.ReadFile(l.refFile(branch))
	if err != nil {
		return Hash{}, err
	}
	return ParseHash(strings.TrimSpace(string(data)))
}

func (l *localBranches) refFile(branch string) string {
	return filepath.Join(l.store.dir, "refs", "heads", filepath.FromSlash(branch))
}

// Push stores the packfile and moves the branches in two steps, as Git's own ref transactions do: first every ref is
// locked, under the names that Git itself locks, and compared; only if all are where the caller read them are they moved.
func (l *localBranches) Push(ctx context.Context, w *Writer, moves []Move, _ PushOptions) ([]MoveResult, error) {
	if err := w.storePack(l.store.own); err != nil {
		return nil, err
	}
	busy, err := l.checkedOut()
	if err != nil {
		return nil, err
	}
	t := &transaction{branches: l}
	defer t.rollback()
	out := make([]MoveResult, len(moves))
	failed := false
	for i, m := range moves {
		out[i] = MoveResult{Move: m, State: Updated}
		switch at, ok := busy[heads+m.Branch]; {
		case ok:
			out[i].State, out[i].Reason = Rejected, "it is checked out in "+at
		default:
			if reason := t.prepare(ctx, m); reason != "" {
				out[i].State, out[i].Reason = Conflict, reason
			}
		}
		failed = failed || out[i].State != Updated
	}
	if failed {
		return slices.DeleteFunc(out, func(m MoveResult) bool { return m.State == Updated }), nil
	}
	return out, t.commit()
}

// transaction holds the locks of some refs.
type transaction struct {
	branches *localBranches
	locked   []lockedRef
	packed   map[string]Hash
}

type lockedRef struct {
	move Move
	file string
	lock string
}

// prepare locks a ref and compares it; a reason says why that did not do.
func (t *transaction) prepare(ctx context.Context, m Move) string {
	file := t.branches.refFile(m.Branch)
	lock, err := acquire(ctx, file)
	if err != nil {
		return err.Error()
	}
	t.locked = append(t.locked, lockedRef{m, file, lock})
	have, err := t.branches.loose(m.Branch)
	if errors.Is(err, fs.ErrNotExist) {
		if t.packed == nil {
			t.packed, err = t.branches.packed()
		} else {
			err = nil
		}
		have = t.packed[heads+m.Branch]
	}
	switch {
	case err != nil:
		return err.Error()
	case have != m.Old:
		return movedReason(have)
	case m.New.IsZero():
		return ""
	}
	if err := os.WriteFile(lock, []byte(m.New.String()+"\n"), 0o644); err != nil { //nolint:gosec // as Git's own refs
		return err.Error()
	}
	return ""
}

// acquire creates file.lock, waiting a moment for whoever holds it.
func acquire(ctx context.Context, file string) (string, error) {
	const wait, tries = 20 * time.Millisecond, 50
	lock := file + ".lock"
	for i := 0; ; i++ {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // as Git's own folders
			return "", fmt.Errorf("another branch is in the way: %w", err)
		}
		f, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) //nolint:gosec // as Git's own refs
		if err == nil {
			return lock, f.Close()
		}
		if errors.Is(err, fs.ErrNotExist) && i < tries { // Git removed the empty folder meanwhile
			continue
		}
		if !errors.Is(err, fs.ErrExist) || i >= tries {
			return "", fmt.Errorf("the ref is locked: %w", err)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (t *transaction) commit() error {
	var deleted []string
	for _, r := range t.locked {
		if r.move.New.IsZero() {
			deleted = append(deleted, heads+r.move.Branch)
		}
	}
	if len(deleted) > 0 {
		if err := t.branches.unpack(deleted); err != nil {
			return err
		}
	}
	for i, r := range t.locked {
		var err error
		if r.move.New.IsZero() {
			err = errors.Join(ignoreMissing(os.Remove(r.file)), os.Remove(r.lock))
		} else {
			err = os.Rename(r.lock, r.file)
		}
		if err != nil {
			return fmt.Errorf("%d of %d branches were moved, then: %w", i, len(t.locked), err)
		}
	}
	t.locked = nil
	return nil
}

func (t *transaction) rollback() {
	for _, r := range t.locked {
		_ = os.Remove(r.lock)
	}
}

// unpack removes refs from packed-refs, under its lock.
func (l *localBranches) unpack(names []string) error {
	file := filepath.Join(l.store.dir, "packed-refs")
	data, err := os.ReadFile(file) //nolint:gosec // the user's own repository
	if err != nil {
		return ignoreMissing(err)
	}
	lock, err := acquire(context.Background(), file)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(lock) }()
	var kept bytes.Buffer
	drop := false
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "^") { // the object of the tag above
			if !drop {
				kept.WriteString(line)
			}
			continue
		}
		_, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if drop = slices.Contains(names, name); !drop {
			kept.WriteString(line)
		}
	}
	if err := os.WriteFile(lock, kept.Bytes(), 0o644); err != nil { //nolint:gosec // as Git's own file
		return err
	}
	return os.Rename(lock, file)
}

// checkedOut maps the refs that a working tree stands on to that tree.
func (l *localBranches) checkedOut() (map[string]string, error) {
	out := map[string]string{}
	if l.store.worktree != "" {
		if ref := headRef(l.store.dir); ref != "" {
			out[ref] = l.store.worktree
		}
	}
	linked, err := filepath.Glob(filepath.Join(l.store.dir, "worktrees", "*"))
	for _, dir := range linked {
		if ref := headRef(dir); ref != "" {
			out[ref] = dir
		}
	}
	return out, err
}

func headRef(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, "HEAD")) //nolint:gosec // the user's own repository
	if err != nil {
		return ""
	}
	ref, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "ref: ")
	if !ok {
		return ""
	}
	return ref
}
