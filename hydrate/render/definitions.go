package render

import (
	"context"
	"strings"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Definitions reads the CustomResourceDefinitions in a target's tree. It finds them by file name.
func Definitions(ctx context.Context, store *gitstore.Store, tree gitstore.Hash) (branch.Kinds, error) {
	out := branch.Kinds{}
	if tree.IsZero() {
		return out, nil
	}
	entries, err := store.Tree(ctx, tree)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name, branch.DefinitionPrefix) {
			continue
		}
		data, err := store.Blob(ctx, e.Hash)
		if err != nil {
			return nil, err
		}
		objects, err := manifest.Decode(data, manifest.DefaultBudget())
		if err != nil {
			continue // Sluice did not write this file, so it does not count
		}
		for _, o := range objects {
			if kind, scope, ok := manifest.CRDScope(o); ok {
				out[kind] = scope
			}
		}
	}
	return out, nil
}
