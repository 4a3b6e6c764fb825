package workspace

import (
	"context"
	"errors"

	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// TrunkTip returns the newest commit of the remote's trunk whose fleet can be read, and the name of the trunk. The
// fleet of the remote's HEAD names the trunk. If no commit of HEAD has a fleet, TrunkTip returns HEAD and "".
func (s *Session) TrunkTip(ctx context.Context) (gitstore.Commit, string, error) {
	tip, err := s.Store.FetchRevision(ctx, "HEAD")
	if err != nil {
		return tip, "", err
	}
	name := ""
	if f, _, err := s.Fleet(ctx, tip.Tree); err == nil && f.Spec.Trunk != "" {
		name = f.Spec.Trunk
		trunk, err := s.Store.FetchRevision(ctx, "refs/heads/"+name)
		switch {
		case err == nil:
			tip = trunk
		case !errors.Is(err, gitstore.ErrNoRef): // a failed fetch must not make policy and rights come from another branch
			return tip, "", err
		}
	}
	if good, f, err := s.Readable(ctx, tip); err == nil {
		tip = good
		if name == "" {
			name = f.Spec.Trunk
		}
	}
	return tip, name, nil
}
