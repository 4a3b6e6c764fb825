package bundle

import (
	"context"

	"github.com/sluice-gitops/sluice/hydrate"
)

// Exports lists what home has exported for an environment, oldest first, as far as it remembers; nil if it has exported
// nothing.
func Exports(ctx context.Context, h *hydrate.Hydrator, environment string) ([]Entry, error) {
	refs, err := h.Branches.List(ctx, LogBranch)
	if err != nil || refs[LogBranch].IsZero() {
		return nil, err
	}
	if err := h.Branches.Fetch(ctx, refs[LogBranch]); err != nil {
		return nil, err
	}
	l, err := readLog(ctx, h.Store, refs[LogBranch], environment)
	if err != nil {
		return nil, err
	}
	return l.entries, nil
}
