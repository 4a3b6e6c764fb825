package session

import (
	"context"

	"github.com/sluice-gitops/sluice/gitstore"
)

// TrunkTip returns the newest commit of the remote's trunk whose fleet can be read, and the name of the trunk. The
// fleet of the remote's HEAD names the trunk. If no commit of HEAD has a fleet, TrunkTip returns HEAD and "".
func (s *Session) TrunkTip(ctx context.Context) (gitstore.Commit, string, error) {
	name := ""
	tip, err := gitstore.FetchTrunk(ctx, s.Store, func(ctx context.Context, head gitstore.Commit) string {
		if f, _, err := s.Fleet(ctx, head.Tree); err == nil {
			name = f.Spec.Trunk
		}
		return name
	})
	if err != nil {
		return tip, "", err // a failed fetch must not make policy and rights come from another branch
	}
	if good, f, err := s.Readable(ctx, tip); err == nil {
		tip = good
		if name == "" {
			name = f.Spec.Trunk
		}
	}
	return tip, name, nil
}
