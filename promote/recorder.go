package promote

import (
	"context"
	"fmt"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/rollout"
)

// recorder stores records on the state branch.
type recorder struct {
	*snapshot
	pusher *pusher
}

// store writes an environment's record as its next version, if it changed.
func (r *recorder) store(ctx context.Context, record rollout.Record) error {
	before := r.records.known[record.Environment]
	record.Sequence = before.Sequence
	equal, err := same(before, record)
	if err != nil {
		return err
	}
	if equal {
		r.records.known[record.Environment] = record
		return nil
	}
	record.Sequence++
	r.records.known[record.Environment] = record
	w, err := r.hydrator.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // what was pushed is on the branch
	tree, err := r.records.write(w, record)
	if err != nil {
		return err
	}
	hash, err := r.pusher.commit(w, tree, r.records.tip.Hash, r.request.Trunk,
		message{subject: "Record of " + record.Environment})
	if err != nil {
		return err
	}
	if allowed := r.fleet.Signers(); !allowed.Empty() {
		if _, err := r.hydrator.Store.VerifySignature(ctx, hash, allowed); err != nil {
			r.records.known[record.Environment] = before
			return fmt.Errorf("nothing is promoted, because spec.signers of sluice.yaml does not allow the record of this run: sign with an allowed key: %w", err)
		}
	}
	if err := r.pusher.push(ctx, w, []gitstore.Move{{
		Branch: rollout.StateBranch, Old: r.records.tip.Hash,
		New: hash,
	}}); err != nil {
		r.records.known[record.Environment] = before
		return err
	}
	r.refs[rollout.StateBranch] = hash
	if err := r.hydrator.Store.NoteSeen(r.hydrator.Branches, rollout.StateBranch, r.records.tip.Hash,
		hash); err != nil {
		return err
	}
	return r.records.open(ctx, hash)
}

// apply applies an event to a record, and stores it.
func (r *recorder) apply(ctx context.Context, environment string, e rollout.Event) error {
	if e.At.IsZero() {
		e.At = r.request.Now
	}
	next, err := rollout.Apply(r.records.known[environment], e)
	if err != nil {
		return err
	}
	return r.store(ctx, next)
}
