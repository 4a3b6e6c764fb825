package promote

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/internal/signers"
	"github.com/sluice-gitops/sluice/rollout"
)

// recordsDir is the folder of the records on the state branch.
const recordsDir = "environments"

// records has the records of all environments on the state branch. Only a file that does not exist is an empty record.
// A record that cannot be read is an error of its environment: it may contain a halt.
type records struct {
	store  *gitstore.Store
	tip    gitstore.Commit           // of the state branch; zero if it does not exist
	files  map[string]gitstore.Entry // of recordsDir, by name
	known  map[string]rollout.Record
	broken map[string]error
}

// RecordsError means that a record on the state branch must not be believed: its branch is not signed as it must be,
// has lost commits, or its file is not a record. Every pass ends with it until somebody mends the branch.
type RecordsError struct{ Err error }

// Error returns the text of the cause, which names the branch and the next step.
func (e *RecordsError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RecordsError) Unwrap() error { return e.Err }

// readRecords reads the records of environments from a commit of the state branch.
func readRecords(ctx context.Context, store *gitstore.Store, tip gitstore.Hash, environments []string) (*records,
	error,
) {
	r := &records{
		store: store, files: map[string]gitstore.Entry{}, known: map[string]rollout.Record{},
		broken: map[string]error{},
	}
	if !tip.IsZero() {
		if err := r.open(ctx, tip); err != nil {
			return nil, fmt.Errorf("branch %s: %w", rollout.StateBranch, err)
		}
	}
	for _, name := range environments {
		record, err := r.read(ctx, name)
		if err != nil {
			r.broken[name], record = err, rollout.NewRecord(name)
		}
		r.known[name] = record
	}
	return r, nil
}

func (r *records) open(ctx context.Context, tip gitstore.Hash) error {
	commit, err := r.store.Commit(ctx, tip)
	if err != nil {
		return err
	}
	root, err := r.store.Tree(ctx, commit.Tree)
	if err != nil {
		return err
	}
	r.tip = commit
	i := slices.IndexFunc(root, func(e gitstore.Entry) bool { return e.Name == recordsDir })
	if i < 0 {
		return nil
	}
	files, err := r.store.Tree(ctx, root[i].Hash)
	if err != nil {
		return err
	}
	for _, e := range files {
		r.files[e.Name] = e
	}
	return nil
}

func (r *records) read(ctx context.Context, environment string) (rollout.Record, error) {
	e, ok := r.files[environment+".yaml"]
	if !ok {
		return rollout.NewRecord(environment), nil
	}
	data, err := r.store.Blob(ctx, e.Hash)
	if err != nil {
		return rollout.Record{}, fmt.Errorf("%s on branch %s cannot be read, so nothing is promoted: %w",
			rollout.RecordPath(environment), rollout.StateBranch, err)
	}
	record, err := rollout.DecodeRecord(environment, data)
	if err != nil {
		return rollout.Record{}, &RecordsError{err}
	}
	return record, nil
}

// write adds environments' records to w, and returns the tree of the state branch with them.
func (r *records) write(w *gitstore.Writer, list ...rollout.Record) (tree gitstore.Hash, err error) {
	files := maps.Clone(r.files)
	for _, record := range list {
		data, err := record.Encode()
		if err != nil {
			return tree, err
		}
		blob, err := w.Blob(data)
		if err != nil {
			return tree, err
		}
		name := record.Environment + ".yaml"
		files[name] = gitstore.Entry{Name: name, Mode: gitstore.ModeFile, Hash: blob}
	}
	dir, err := w.Tree(slices.Collect(maps.Values(files)))
	if err != nil {
		return tree, err
	}
	return w.Tree([]gitstore.Entry{{Name: recordsDir, Mode: gitstore.ModeTree, Hash: dir}})
}

// same reports whether two records are equal.
func same(a, b rollout.Record) (bool, error) {
	left, err := a.Encode()
	if err != nil {
		return false, err
	}
	right, err := b.Encode()
	return bytes.Equal(left, right), err
}

// ReadRecord reads the record of one environment from the state branch. Without a record it returns an empty one. If
// allowed is not empty, a branch whose tip none of these signers signed is a *gitstore.SignatureError, and a branch
// that lost commits since the mirror accepted it is a *LostRecordsError.
func ReadRecord(ctx context.Context, h *hydrate.Hydrator, environment string, allowed signers.List) (record rollout.Record,
	err error,
) {
	seen, err := h.Store.Seen(h.Branches, rollout.StateBranch) // before the list: another process may push meanwhile
	if err != nil {
		return record, err
	}
	refs, err := listSince(ctx, h, seen, rollout.StateBranch)
	if err != nil {
		return record, err
	}
	tip := refs[rollout.StateBranch]
	if !tip.IsZero() {
		if err := h.Branches.Fetch(ctx, tip); err != nil {
			return record, err
		}
		if !allowed.Empty() {
			if _, err := h.Store.VerifySignature(ctx, tip, allowed); err != nil {
				return record, err
			}
		}
	}
	if !allowed.Empty() {
		if err := lostSince(ctx, h, seen, tip); err != nil {
			return record, err
		}
	}
	r, err := readRecords(ctx, h.Store, tip, []string{environment})
	if err != nil {
		return record, err
	}
	return r.known[environment], r.broken[environment]
}
