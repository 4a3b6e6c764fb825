package promotion

import (
	"context"
	"errors"
	"slices"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/admit"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// mergedCheck holds what is promoted against the trunk as the remote of the source repository has it now. The pass may have
// been started with another idea of the trunk: that of a clone, or of an earlier fetch.
type mergedCheck struct {
	h     *hydrate.Hydrator
	name  string // of the trunk
	trunk *admit.Trunk
}

// unmerged says why a commit that next brings is not promoted; empty if the trunk has all of them. Commits that run already are
// not looked for. Without a remote, the trunk of this clone is the trunk.
func (m *mergedCheck) unmerged(ctx context.Context, runs, next promote.Source) (string, error) {
	if m.h.Source == nil {
		return "", nil
	}
	if m.trunk == nil {
		trunk, err := m.h.Trunks(m.h.Source).Current(ctx, m.name)
		if err != nil {
			return "", err
		}
		m.trunk = trunk
	}
	have := runs.Commits()
	for _, c := range next.Commits() {
		if slices.Contains(have, c) {
			continue
		}
		hash, err := gitstore.ParseHash(c)
		if err != nil {
			return "", err
		}
		err = m.trunk.Require(ctx, hash)
		if unmerged, ok := errors.AsType[*admit.UnmergedError](err); ok {
			return unmerged.Reason, nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}
