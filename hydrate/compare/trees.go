package compare

import (
	"context"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/objects"
)

// TreePair has the trees of a target before and after something that is no change of a commit, such as another version
// of Kubernetes. A zero hash is an empty tree.
type TreePair struct {
	Target fleet.Target
	Trees  [2]gitstore.Hash
}

// Trees compares pairs of trees of one fleet's targets, sorted by app, and returns the images that only the second ones
// have. Call Compare of the reader for the trees first, so that all Secrets are known.
func Trees(ctx context.Context, f *fleet.Fleet, reader *objects.Reader, pairs []TreePair) (*diff.ChangeSet,
	[]diff.NewImage, error,
) {
	type key struct {
		app   string
		trees [2]gitstore.Hash
		sync  diff.Sync
	}
	at := map[key]int{}
	var equal [][]TreePair
	var keys []key
	for _, p := range pairs {
		if p.Trees[0] == p.Trees[1] {
			continue
		}
		k := key{p.Target.App.Name, p.Trees, diff.Sync(f.SyncOf(p.Target.Cluster.Environment))}
		n, ok := at[k]
		if !ok {
			n = len(equal)
			at[k], equal, keys = n, append(equal, nil), append(keys, k)
		}
		equal[n] = append(equal[n], p)
	}
	b := Rules(f).NewBuilder()
	for n, same := range equal {
		files, err := reader.Compare(ctx, keys[n].trees)
		if err != nil {
			return nil, nil, err
		}
		var sides [2][]diff.Object
		for i, list := range [][]objects.File{files.Before, files.After} {
			read, err := reader.Read(ctx, same[0].Target.Cluster.Name, same[0].Target.App.Name, list)
			if err != nil {
				return nil, nil, err
			}
			sides[i] = plainObjects(read)
		}
		targets := make([]diff.Target, len(same))
		for i, p := range same {
			targets[i] = diff.Target{
				App: p.Target.App.Name, Cluster: p.Target.Cluster.Name, Environment: p.Target.Cluster.Environment,
				Sync: keys[n].sync, Before: sides[0], After: sides[1],
				Facts: func() map[string]string { return factsOf(f, p.Target) },
			}
		}
		b.Add(targets)
	}
	var environments []string
	for _, e := range f.Spec.Environments {
		environments = append(environments, e.Name)
	}
	out := b.ChangeSet(nil, environments, NewReads(f).placed)
	out.Compared = len(pairs)
	return out, b.NewImages(environments), nil
}
