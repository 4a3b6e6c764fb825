package promote

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/objects"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// errNoObject means that a file of an app does not hold exactly one object, so that nobody knows whether it moves.
var errNoObject = errors.New("a file does not hold exactly one object")

// identities tells which object a file of a cluster's tree holds. It reads each blob once. Not safe for concurrent use.
type identities struct {
	store   *gitstore.Store
	known   map[gitstore.Hash]manifest.Identity // by blob
	defines map[manifest.Identity]string        // the kinds that the definitions of kinds define, as far as they say it
	sync    diff.Sync
	stay    map[gitstore.Hash]bool // the blobs of objects that the sync tool leaves in the cluster when they go
}

func newIdentities(store *gitstore.Store) identities {
	return identities{
		store: store, known: map[gitstore.Hash]manifest.Identity{},
		defines: map[manifest.Identity]string{}, stay: map[gitstore.Hash]bool{},
	}
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
	id := o.Identity()
	i.known[f.Hash] = id
	if diff.Stays(o, i.sync) {
		i.stay[f.Hash] = true
	}
	if spec, _ := o["spec"].(map[string]any); isDefinition(id) {
		names, _ := spec["names"].(map[string]any)
		if kind, _ := names["kind"].(string); kind != "" {
			i.defines[id] = kind
		}
	}
	return id, nil
}

// isDefinition reports whether an object defines a kind.
func isDefinition(id manifest.Identity) bool {
	return id.Group == "apiextensions.k8s.io" && id.Kind == "CustomResourceDefinition"
}

// contains returns which objects a cluster deletes together with id, which was read: those in a namespace, or of the
// kind whose definition id is. It returns nil for an object of another kind.
func (i identities) contains(id manifest.Identity) func(manifest.Identity) bool {
	switch {
	case id.Group == "" && id.Kind == "Namespace":
		return func(other manifest.Identity) bool { return other.Namespace == id.Name }
	case isDefinition(id):
		_, group, _ := strings.Cut(id.Name, ".")
		kind := i.defines[id]
		return func(other manifest.Identity) bool { return other.Group == group && (kind == "" || other.Kind == kind) }
	}
	return nil
}
