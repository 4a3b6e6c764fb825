package promotion

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// requireNewer refuses the records of environments if the state branch has lost commits since the mirror saw it: an earlier tip is
// signed too, and lacks the holds, halts and freezes that came later. Otherwise it notes the tip. seen is the tip that was noted before
// the branches were listed, so that a tip that another process pushes meanwhile is not taken for a lost one.
func (s *snapshot) requireNewer(ctx context.Context, seen gitstore.Hash, environments []string) error {
	tip := s.refs[promote.StateBranch]
	if !seen.IsZero() {
		newer := false
		if !tip.IsZero() {
			var err error
			newer, err = s.hydrator.Store.IsAncestor(ctx, seen, tip)
			if lost := errors.Is(err, gitstore.ErrShallow) && !s.hydrator.Store.Has(seen); err != nil && !lost {
				return fmt.Errorf("branch %s: %w", promote.StateBranch, err)
			}
		}
		if !newer {
			s.refuseRecords(environments, lostRecords(seen, tip))
			return nil
		}
	}
	for _, name := range environments {
		if s.records.broken[name] != nil {
			return nil //nolint:nilerr // nobody has accepted this tip; refuseRecords has noted why
		}
	}
	return s.hydrator.Store.NoteSeen(s.hydrator.Branches, promote.StateBranch, seen, tip)
}

// lostRecords describes a state branch that does not contain the tip that it had, with the way out.
func lostRecords(seen, tip gitstore.Hash) error {
	is, accept := "is gone", "delete the service's clone of the repository"
	if !tip.IsZero() {
		is = "is at " + tip.String()
		accept = fmt.Sprintf("push a merge of both (`git commit-tree -S -p %s -p %s %s^{tree}`)", tip, seen, tip)
	}
	return fmt.Errorf("branch %s %s and does not contain %s, which it had before, so nothing is promoted: somebody has removed approvals, holds, halts or freezes: "+
		"restore it with `git push --force origin %s:refs/heads/%s`, or %s to accept the loss", promote.StateBranch, is, seen, seen, promote.StateBranch, accept)
}

// refuseRecords makes an error that of all records that can be read otherwise.
func (s *snapshot) refuseRecords(environments []string, err error) {
	for _, name := range environments {
		if s.records.broken[name] == nil {
			s.records.broken[name] = err
		}
	}
}
