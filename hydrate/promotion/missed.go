package promotion

import (
	"context"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// Missed lists the trunk's commits, oldest first and the tip left out, that environments which follow the trunk do not run yet: from
// the oldest one that such an environment runs, which is in the list since what should be told of it may not have been told.
// It is empty if all run the tip, and for environments without a branch: those begin with the tip. Of many the newest `most`.
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
		if err == nil && older { // else the trunk was rewritten, which Hydrate says
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
