package hydrate

import (
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/signers"
	"github.com/sluice-gitops/sluice/internal/memo"
)

// TipKey is tipKey.
func TipKey(tip gitstore.Hash, owner branch.Owner, allowed signers.List) memo.Key {
	return tipKey(tip, owner, allowed)
}
