package promotion

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// errNoObject means that a file of an app does not hold exactly one object, so that nobody knows whether it moves.
var errNoObject = errors.New("a file does not hold exactly one object")

// identities tells which object a file of a cluster's tree holds. It reads each blob once. Not safe for concurrent use.
type identities struct {
	store *gitstore.Store
	known map[gitstore.Hash]manifest.Identity // by blob
}

func newIdentities(store *gitstore.Store) identities {
	return identities{store: store, known: map[gitstore.Hash]manifest.Identity{}}
}

// of returns the identity of the object in a file; errNoObject if the file does not hold exactly one.
func (i identities) of(ctx context.Context, f gitstore.Entry) (manifest.Identity, error) {
	if id, known := i.known[f.Hash]; known {
		return id, nil
	}
	data, err := i.store.Blob(ctx, f.Hash)
	if err != nil {
		return manifest.Identity{}, err
	}
	o, err := objects.DecodeOne(data)
	if err != nil {
		return manifest.Identity{}, fmt.Errorf("%w: %s: %w", errNoObject, f.Name, err)
	}
	i.known[f.Hash] = o.Identity()
	return o.Identity(), nil
}
