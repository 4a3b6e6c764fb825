package promote

import (
	"context"
	"errors"
	"slices"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/admit"
	"github.com/sluice-gitops/sluice/rollout"
)

// mergedCheck compares the promoted commits with the trunk of the source repository's remote. The trunk that the pass
// started with may be that of a clone, or of an earlier fetch.
type mergedCheck struct {
	h     *hydrate.Hydrator
	name  string // of the trunk
	trunk *admit.Trunk
}

// recheck is unmerged by the trunk of this moment. Call it before a decided promotion is carried out: the decision may
// have taken long, or be by a listing that the task had before.
func (m *mergedCheck) recheck(ctx context.Context, runs, next rollout.Source) (string, error) {
	gitstore.Relist(m.h.Store)
	m.trunk = nil
	return m.unmerged(ctx, runs, next)
}

// unmerged returns why a commit of next must not be promoted; "" if the trunk contains all of them. It skips commits
// that run already. Without a remote, it checks nothing: the trunk is that of this clone.
func (m *mergedCheck) unmerged(ctx context.Context, runs, next rollout.Source) (string, error) {
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
