package promote

import (
	"context"
	"slices"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
)

// Missed lists the trunk's commits before tip, oldest first. The list starts with the oldest commit that any
// environment without `after` runs, because the statuses of that commit may not have been reported. The list is empty
// if all these environments run the tip or have no branch yet. If there are more than most commits, Missed returns the
// newest ones.
func Missed(ctx context.Context, h *hydrate.Hydrator, tip gitstore.Commit, most int) ([]gitstore.Commit, error) {
	running, err := ReadRunning(ctx, h, tip.Tree)
	if err != nil {
		return nil, err
	}
	f, _, err := h.Fleet(ctx, tip.Tree)
	if err != nil {
		return nil, err
	}
	needed := map[gitstore.Hash]bool{}
	for _, r := range running {
		e, ok := f.Environment(r.Environment)
		if !ok || len(e.After) > 0 || r.Source.IsZero() || r.Source == tip.Hash || r.Foreign != "" {
			continue
		}
		older, err := h.Store.IsAncestor(ctx, r.Source, tip.Hash)
		if err != nil && !unknownHistory(err) {
			return nil, err
		}
		if err == nil && older { // otherwise the trunk was rewritten, which Hydrate reports
			needed[r.Source] = true
		}
	}
	var out []gitstore.Commit
	for at := tip; len(needed) > 0 && len(out) < most && len(at.Parents) > 0; {
		next, err := h.Store.Commit(ctx, at.Parents[0])
		if unknownHistory(err) {
			break // the history ends here
		}
		if err != nil {
			return nil, err
		}
		at = next
		out = append(out, at)
		delete(needed, at.Hash)
	}
	slices.Reverse(out)
	return out, nil
}
