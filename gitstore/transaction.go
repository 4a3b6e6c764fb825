package gitstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/gitstore/internal/disk"
	"github.com/sluice-gitops/sluice/internal/retry"
)

// transaction moves refs as Git's files backend does, so that concurrent `git update-ref`, `git pack-refs` and `git
// gc` are safe.
type transaction struct {
	branches *localBranches
	locked   []lockedRef

	packed map[string]Hash
	stat   fs.FileInfo // of packed-refs when it was read; nil if it did not exist
	loaded bool
	names  []string // of packed, sorted
}

type lockedRef struct {
	move Move
	file string
	lock string
}

func newTransaction(l *localBranches) *transaction { return &transaction{branches: l} }

// prepare locks a ref and compares it with Old. If they differ, it returns the reason.
func (t *transaction) prepare(ctx context.Context, m Move) (string, error) {
	file := t.branches.refFile(m.Branch)
	if inTheWay := t.occupied(file, m); inTheWay != "" {
		return inTheWay, nil
	}
	lock, err := acquire(ctx, file)
	if err != nil {
		return "", err
	}
	t.locked = append(t.locked, lockedRef{m, file, lock})
	have, err := t.branches.loose(m.Branch)
	if errors.Is(err, fs.ErrNotExist) || isFolder(file) {
		// The lock is held, so the value in packed-refs cannot change.
		if err = t.load(); err == nil {
			have = t.packed[heads+m.Branch]
		}
	}
	switch {
	case err != nil:
		return "", err
	case have != m.Old:
		return movedReason(have), nil
	}
	if have.IsZero() {
		if other := t.packedInTheWay(m.Branch); other != "" {
			return fmt.Sprintf("the branch %q is in the way", other), nil
		}
	}
	if m.New.IsZero() {
		return "", nil
	}
	return "", writeSynced(lock, m.New.String()+"\n")
}

// writeSynced syncs the file, so that a power cut leaves no empty ref.
func writeSynced(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0) //nolint:gosec // a lock that acquire made
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// occupied returns the loose branch that conflicts with this one, as env/dev and env/dev/x do.
func (t *transaction) occupied(file string, m Move) string {
	for up := path.Dir(m.Branch); up != "."; up = path.Dir(up) {
		if info, err := os.Lstat(t.branches.refFile(up)); err == nil && !info.IsDir() {
			return fmt.Sprintf("the branch %q is in the way", up)
		}
	}
	if !isFolder(file) {
		return ""
	}
	found := ""
	// The function returns no error. A folder that cannot be read reports nothing here, and the move itself fails.
	_ = filepath.WalkDir(file, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(p, ".lock") {
			found = p
			return filepath.SkipAll
		}
		return nil
	})
	if found != "" {
		return fmt.Sprintf("branches below %q are in the way", m.Branch)
	}
	return ""
}

// packedInTheWay does the same as occupied for packed refs.
func (t *transaction) packedInTheWay(branch string) string {
	if err := t.load(); err != nil {
		return ""
	}
	for up := path.Dir(branch); up != "."; up = path.Dir(up) {
		if _, ok := t.packed[heads+up]; ok {
			return up
		}
	}
	below := heads + branch + "/"
	i, _ := slices.BinarySearch(t.names, below)
	if i < len(t.names) && strings.HasPrefix(t.names[i], below) {
		return strings.TrimPrefix(t.names[i], heads)
	}
	return ""
}

// load reads packed-refs, and again if it was replaced: only a value that was read after the ref was locked counts.
func (t *transaction) load() error {
	info, err := os.Stat(t.branches.packedFile())
	if disk.IgnoreMissing(err) != nil {
		return err
	}
	if t.loaded && sameFile(info, t.stat) {
		return nil
	}
	if t.packed, err = t.branches.packed(); err != nil {
		return err
	}
	t.loaded, t.stat, t.names = true, info, t.names[:0]
	for name := range t.packed {
		t.names = append(t.names, name)
	}
	slices.Sort(t.names)
	return nil
}

func sameFile(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// acquire creates file.lock. It waits about a second for another holder.
func acquire(ctx context.Context, file string) (string, error) {
	policy := retry.Policy{Tries: 50, First: 20 * time.Millisecond, Max: 20 * time.Millisecond}
	lock, err := retry.Do(ctx, policy, func(context.Context) (string, error) { return tryLock(file) })
	if errors.Is(err, fs.ErrExist) && ctx.Err() == nil {
		err = fmt.Errorf("another process holds the lock (if none runs, remove %s): %w", lock, err)
	}
	return lock, err
}

// tryLock creates file.lock. It marks temporary errors.
func tryLock(file string) (string, error) {
	lock := file + ".lock"
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // as Git's own folders
		return lock, err
	}
	f, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) //nolint:gosec // as Git's own refs
	switch {
	case err == nil:
		return lock, f.Close()
	case errors.Is(err, fs.ErrNotExist): // Git removed the empty folder meanwhile
		return lock, retry.Immediately(err)
	case errors.Is(err, fs.ErrExist):
		return lock, retry.Again(err)
	}
	return lock, err
}

// commit moves the prepared refs. It removes deleted refs from packed-refs first, so that no reader sees an old value
// again.
func (t *transaction) commit(ctx context.Context) ([]MoveResult, error) {
	var deleted []string
	for _, r := range t.locked {
		if r.move.New.IsZero() {
			deleted = append(deleted, heads+r.move.Branch)
		}
	}
	if len(deleted) > 0 {
		if err := t.unpack(ctx, deleted); err != nil {
			return nil, fmt.Errorf("delete branches: %w", err)
		}
	}
	out := make([]MoveResult, 0, len(t.locked))
	for len(t.locked) > 0 {
		r := t.locked[0]
		if err := r.move.apply(t.branches, r); err != nil {
			return out, fmt.Errorf("move the branch %q: %w", r.move.Branch, err)
		}
		t.locked = t.locked[1:]
		out = append(out, MoveResult{Move: r.move, State: Updated})
	}
	return out, nil
}

func (m Move) apply(l *localBranches, r lockedRef) error {
	if m.New.IsZero() {
		// the reflog may not exist
		_ = os.Remove(filepath.Join(l.store.dir, "logs", "refs", "heads", filepath.FromSlash(m.Branch)))
		return errors.Join(disk.IgnoreMissing(os.Remove(r.file)), os.Remove(r.lock))
	}
	if isFolder(r.file) { // empty folders of deleted or packed branches
		if err := removeEmpty(r.file); err != nil {
			return err
		}
	}
	return os.Rename(r.lock, r.file)
}

func removeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeEmpty(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(dir)
}

func (t *transaction) rollback() {
	for _, r := range t.locked {
		_ = os.Remove(r.lock) // the error that led here is returned; a lock that stays makes the next move name it
	}
}

// unpack removes refs from packed-refs, under its lock.
func (t *transaction) unpack(ctx context.Context, names []string) error {
	file := t.branches.packedFile()
	lock, err := acquire(ctx, file)
	if err != nil {
		return err
	}
	// After the rename the lock no longer exists.
	defer func() { _ = os.Remove(lock) }()
	data, err := os.ReadFile(file) //nolint:gosec // the user's own repository
	if err != nil {
		return disk.IgnoreMissing(err)
	}
	var remaining bytes.Buffer
	gone := make(map[string]bool, len(names))
	for _, name := range names {
		gone[name] = true
	}
	drop := false
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "^") { // otherwise the line is the object of the tag above
			_, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			drop = gone[name]
		}
		if !drop {
			remaining.WriteString(line)
		}
	}
	if remaining.Len() == len(data) {
		return nil
	}
	if err := os.WriteFile(lock, remaining.Bytes(), 0o644); err != nil { //nolint:gosec // as Git's own file
		return err
	}
	return os.Rename(lock, file)
}
