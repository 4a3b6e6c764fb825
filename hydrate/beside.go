package hydrate

import (
	"context"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Beside tells what is on a cluster on one side of a comparison: in the targets that were compared, and in all others as the
// environment's branch has them. Without a branch, nothing is known of the others. Safe for concurrent use until the
// comparison is closed.
type Beside struct {
	c     *comparison
	after bool

	mu    sync.Mutex
	trees map[string]map[string]gitstore.Hash // cluster → app → tree
	names map[gitstore.Hash]map[string]gitstore.Hash
}

// Beside of the base (false) or the head (true).
func (c *Comparison) Beside(after bool) *Beside {
	return &Beside{c: c.run, after: after, names: map[gitstore.Hash]map[string]gitstore.Hash{}}
}

// apps are the trees of all apps on a cluster.
func (b *Beside) apps(ctx context.Context, cluster string) (map[string]gitstore.Hash, error) {
	if b.trees == nil {
		b.trees = map[string]map[string]gitstore.Hash{}
		for _, one := range b.c.list {
			side := 0
			if b.after {
				side = 1
			}
			if b.trees[one.cluster] == nil {
				held, err := b.held(ctx, one)
				if err != nil {
					return nil, err
				}
				b.trees[one.cluster] = held
			}
			switch tree := one.trees[side]; {
			case one.skip || one.withheld():
			case tree.IsZero():
				delete(b.trees[one.cluster], one.app)
			default:
				b.trees[one.cluster][one.app] = tree
			}
		}
	}
	return b.trees[cluster], nil
}

// held are the apps that the branch has on a candidate's cluster.
func (b *Beside) held(ctx context.Context, one *candidate) (map[string]gitstore.Hash, error) {
	out := map[string]gitstore.Hash{}
	st, err := b.c.state(ctx, one.target().Cluster.Environment)
	if err != nil {
		return nil, err
	}
	tree := st.Clusters[one.cluster]
	if tree.IsZero() || b.c.request.Against == AgainstNothing {
		return out, nil
	}
	entries, err := b.c.h.store.Tree(ctx, tree)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		out[e.Name] = e.Hash
	}
	return out, nil
}

func (b *Beside) files(ctx context.Context, tree gitstore.Hash) (map[string]gitstore.Hash, error) {
	if names, ok := b.names[tree]; ok {
		return names, nil
	}
	entries, err := b.c.h.store.Tree(ctx, tree)
	if err != nil {
		return nil, err
	}
	names := make(map[string]gitstore.Hash, len(entries))
	for _, e := range entries {
		names[e.Name] = e.Hash
	}
	b.names[tree] = names
	return names, nil
}

// Definitions are the CustomResourceDefinitions on a cluster.
func (b *Beside) Definitions(ctx context.Context, cluster string) ([]ComparedObject, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	apps, err := b.apps(ctx, cluster)
	if err != nil {
		return nil, err
	}
	var found []file
	for _, tree := range apps {
		names, err := b.files(ctx, tree)
		if err != nil {
			return nil, err
		}
		for name, hash := range names {
			if strings.HasPrefix(name, crdPrefix) {
				found = append(found, file{name, hash})
			}
		}
	}
	return b.c.reader.read(ctx, found)
}

// Owner is another app on the cluster whose rendering has an object with this identity; "" if there is none. An object is
// found by its file's name, as the branch has it.
func (b *Beside) Owner(ctx context.Context, cluster, app string, id manifest.Identity) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	apps, err := b.apps(ctx, cluster)
	if err != nil {
		return "", err
	}
	own := manifest.FileNames([]manifest.Identity{id}, id.Namespace)[0]
	outside := manifest.FileNames([]manifest.Identity{id}, "")[0]
	first := ""
	for other, tree := range apps {
		if other == app || first != "" && other > first {
			continue
		}
		names, err := b.files(ctx, tree)
		if err != nil {
			return "", err
		}
		for _, name := range []string{own, outside} {
			hash, ok := names[name]
			if !ok {
				continue
			}
			objects, err := b.c.reader.read(ctx, []file{{name, hash}})
			if err != nil {
				return "", err
			}
			if len(objects) == 1 && objects[0].Object.Object.Identity() == id {
				first = other
			}
		}
	}
	return first, nil
}
