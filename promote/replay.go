package promote

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/rollout"
)

// requireNewer refuses the records of environments if the state branch no longer contains the tip that the mirror stored. A
// signature does not reveal this: an earlier tip is signed too, but lacks later holds, halts and freezes. Otherwise requireNewer
// stores the new tip. The caller reads seen before it lists the branches; otherwise a concurrent push would look like a loss.
func (s *snapshot) requireNewer(ctx context.Context, seen gitstore.Hash, environments []string) error {
	tip := s.refs[rollout.StateBranch]
	err := lostSince(ctx, s.hydrator, seen, tip)
	if lost, ok := errors.AsType[*LostRecordsError](err); ok {
		s.refuseRecords(environments, lost)
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range environments {
		if s.records.broken[name] != nil {
			return nil //nolint:nilerr // nobody has accepted this tip; refuseRecords has noted why
		}
	}
	return s.hydrator.Store.NoteSeen(s.hydrator.Branches, rollout.StateBranch, seen, tip)
}

// lostSince returns a *LostRecordsError if the state branch does not contain the stored tip seen. A zero seen means that none is stored.
func lostSince(ctx context.Context, h *hydrate.Hydrator, seen, tip gitstore.Hash) error {
	if seen.IsZero() {
		return nil
	}
	if tip.IsZero() {
		return &LostRecordsError{Seen: seen}
	}
	newer, err := h.Store.IsAncestor(ctx, seen, tip)
	if lost := errors.Is(err, gitstore.ErrShallow) && !h.Store.Has(seen); err != nil && !lost {
		return fmt.Errorf("branch %s: %w", rollout.StateBranch, err)
	}
	if !newer {
		return &LostRecordsError{Seen: seen, Tip: tip}
	}
	return nil
}

// LostRecordsError means that the state branch does not contain the tip that this mirror accepted before.
type LostRecordsError struct {
	Seen gitstore.Hash
	Tip  gitstore.Hash // zero: the branch is gone
}

// Error names both commits and the next step.
func (e *LostRecordsError) Error() string {
	is, accept := "is gone", "delete the service's clone of the repository"
	if !e.Tip.IsZero() {
		is = "is at " + e.Tip.String()
		accept = fmt.Sprintf("push a merge of both (`git commit-tree -S -p %s -p %s %s^{tree}`)", e.Tip, e.Seen, e.Tip)
	}
	return fmt.Sprintf("branch %s %s and does not contain %s, which it had before, so nothing is promoted: somebody has removed approvals, holds, halts or freezes: "+
		"restore it with `git push --force origin %s:refs/heads/%s`, or %s to accept the loss", rollout.StateBranch, is, e.Seen, e.Seen, rollout.StateBranch, accept)
}

// refuseRecords marks all records as unreadable with an error.
func (s *snapshot) refuseRecords(environments []string, err error) {
	for _, name := range environments {
		if s.records.broken[name] == nil {
			s.records.broken[name] = &RecordsError{err}
		}
	}
}
