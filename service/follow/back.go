package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// back says why a pin is not newer than the one before: "moved" for a tag of the same version at another commit,
// "lower" for a lower version, and "rewound" for a branch that no longer contains the commit before. It fetches the new
// commit, and fails if there is none.
func (w *Follower) back(ctx context.Context, r *fleet.Repository, before fetch.Pin, locked bool, pin fetch.Pin) (string,
	error,
) {
	commit, err := gitstore.ParseHash(pin.Commit)
	if err != nil {
		return "", err
	}
	err = w.Store.FetchPinned(ctx, r.URL, w.Credentials(r.URL), commit)
	if err == nil {
		_, err = w.Store.Commit(ctx, commit)
	}
	if err != nil {
		return "", fmt.Errorf("repository %s: %s of %s is no commit that can be fetched: %w", r.Name, pin.Resolved,
			r.URL, err)
	}
	if !locked {
		return "", nil
	}
	if strings.HasPrefix(pin.Resolved, "refs/tags/") {
		switch {
		case pin.Resolved == before.Resolved:
			return "moved", nil
		case source.Higher(pin.Resolved, before.Resolved):
			return "", nil
		case source.Higher(before.Resolved, pin.Resolved):
			return "lower", nil
		}
		return "moved", nil // another tag of the same version
	}
	old, err := gitstore.ParseHash(before.Commit)
	if err != nil {
		return "", err
	}
	switch newer, err := w.Store.IsAncestor(ctx, old, commit); {
	case errors.Is(err, gitstore.ErrShallow): // the repository no longer has the old commit
		return "rewound", nil
	case err != nil:
		return "", err
	case !newer:
		return "rewound", nil
	}
	return "", nil
}
