package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
)

// branchesFor returns the session whose branches a comparison reads. With --against, that is the remote if the clone
// does not have the branch: a fresh clone has only the trunk, and a missing branch would look like an empty
// environment. note says what the branch was read from, or that it does not exist; "" if it was where the call says.
func (d *diffOptions) branchesFor(ctx context.Context, s *app.Session, request compare.Request) (out *app.Session,
	note string, err error,
) {
	if out, err = d.useRemote(ctx, s, request.Head); err != nil || request.Against != compare.AgainstBranches {
		return out, "", err
	}
	f, _, err := s.Fleet(ctx, request.Head.Tree)
	if err != nil {
		return nil, "", err
	}
	name := f.EnvironmentBranch(request.Environments[0])
	if has, err := hasBranch(ctx, out, name); err != nil || has {
		return out, "", err
	}
	missing := fmt.Sprintf("%s has no branch %s", out.Branches, name)
	if !d.fromRemote && d.Output == "" && !s.IsURL() {
		remote, err := s.WithRemote(ctx, request.Head, d.remote)
		if err == nil {
			var has bool
			if has, err = hasBranch(ctx, remote, name); err == nil && has {
				return remote, fmt.Sprintf("compared with %s of %s, because this clone has no such branch", name,
					remote.Branches), nil
			}
			missing = fmt.Sprintf("neither this clone nor %s has a branch %s", remote.Branches, name)
		}
		if err != nil && !errors.Is(err, gitstore.ErrNoRemote) {
			return nil, "", fmt.Errorf("this clone has no branch %s: %w", name, err)
		}
	}
	return out, missing + ", so everything counts as added", nil
}

// hasBranch reports whether the repository of a session's rendered branches has a branch.
func hasBranch(ctx context.Context, s *app.Session, name string) (bool, error) {
	refs, err := s.Branches.List(ctx, name)
	return !refs[name].IsZero(), err
}
