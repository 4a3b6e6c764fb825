package bundle

import (
	"bytes"
	"context"
	"slices"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
)

// newImages lists the images that those manifests of a tree name which another tree, zero for none, does not have at
// the same path: each image once, sorted. It reads each manifest once, however many clusters have it.
func newImages(ctx context.Context, store *gitstore.Store, before, after gitstore.Hash,
	images func(manifest []byte) []string,
) ([]string, error) {
	changes, err := store.Changes(ctx, before, after)
	if err != nil {
		return nil, err
	}
	seen, found := map[gitstore.Hash]bool{}, map[string]bool{}
	var read []gitstore.Hash
	for _, c := range changes {
		own := len(c.Path) > len(branch.Dir) && c.Path[:len(branch.Dir)+1] == branch.Dir+"/"
		if !own && c.New.Mode == gitstore.ModeFile && !c.New.Hash.IsZero() && !seen[c.New.Hash] {
			seen[c.New.Hash] = true
			read = append(read, c.New.Hash)
		}
	}
	if err := store.Ensure(ctx, read...); err != nil {
		return nil, err
	}
	for _, h := range read {
		data, err := store.Blob(ctx, h)
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(data, []byte("image")) {
			continue
		}
		for _, i := range images(data) {
			found[i] = true
		}
	}
	out := make([]string, 0, len(found))
	for i := range found {
		out = append(out, i)
	}
	slices.Sort(out)
	return out, nil
}
