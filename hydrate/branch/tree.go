package branch

import (
	"context"

	"github.com/sluice-gitops/sluice/gitstore"
)

// DefinitionPrefix begins the file names of CustomResourceDefinitions.
const DefinitionPrefix = "customresourcedefinition-"

// CopyTree copies a target's tree and its files into a writer, unless the writer has them. It reads them from the
// store or from another open writer.
func CopyTree(ctx context.Context, store *gitstore.Store, w *gitstore.Writer, tree gitstore.Hash) error {
	if w.Has(tree) {
		return nil
	}
	entries, err := store.Tree(ctx, tree)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if w.Has(e.Hash) {
			continue
		}
		data, err := store.Blob(ctx, e.Hash)
		if err != nil {
			return err
		}
		if _, err := w.Blob(data); err != nil {
			return err
		}
	}
	_, err = w.Tree(entries)
	return err
}
