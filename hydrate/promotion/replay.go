package promotion

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// requireNewer refuses the records of environments if the state branch has lost commits since the mirror saw it: an earlier tip is
// signed too, and lacks the holds, halts and freezes that came later. Otherwise it notes the tip. seen is the tip that was noted before
// the branches were listed, so that a tip that another process pushes meanwhile is not taken for a lost one.
func (s *snapshot) requireNewer(ctx context.Context, seen gitstore.Hash, environments []string) error {
	tip := s.refs[promote.StateBranch]
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
	return s.hydrator.Store.NoteSeen(s.hydrator.Branches, promote.StateBranch, seen, tip)
}

// lostSince returns a *LostRecordsError if the state branch does not contain the tip that was noted for it. A zero seen is no note.
func lostSince(ctx context.Context, h *hydrate.Hydrator, seen, tip gitstore.Hash) error {
	if seen.IsZero() {
		return nil
	}
	if tip.IsZero() {
		return &LostRecordsError{Seen: seen}
	}
	newer, err := h.Store.IsAncestor(ctx, seen, tip)
	if lost := errors.Is(err, gitstore.ErrShallow) && !h.Store.Has(seen); err != nil && !lost {
		return fmt.Errorf("branch %s: %w", promote.StateBranch, err)
	}
	if !newer {
		return &LostRecordsError{Seen: seen, Tip: tip}
	}
	return nil
}

// LostRecordsError is a state branch that does not contain the tip that it had when this mirror accepted it.
type LostRecordsError struct {
	Seen gitstore.Hash
	Tip  gitstore.Hash // zero: the branch is gone
}

// Error names both commits and the way out.
func (e *LostRecordsError) Error() string {
	is, accept := "is gone", "delete the service's clone of the repository"
	if !e.Tip.IsZero() {
		is = "is at " + e.Tip.String()
		accept = fmt.Sprintf("push a merge of both (`git commit-tree -S -p %s -p %s %s^{tree}`)", e.Tip, e.Seen, e.Tip)
	}
	return fmt.Sprintf("branch %s %s and does not contain %s, which it had before, so nothing is promoted: somebody has removed approvals, holds, halts or freezes: "+
		"restore it with `git push --force origin %s:refs/heads/%s`, or %s to accept the loss", promote.StateBranch, is, e.Seen, e.Seen, promote.StateBranch, accept)
}

// refuseRecords makes an error that of all records that can be read otherwise.
func (s *snapshot) refuseRecords(environments []string, err error) {
	for _, name := range environments {
		if s.records.broken[name] == nil {
			s.records.broken[name] = err
		}
	}
}
