package compare

import (
	"context"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Inventory is what clusters hold on one side of a comparison: the compared targets, and all other apps as the
// environment's branch has them. Without a branch, the other apps are unknown. It is safe for concurrent use until the
// comparison is closed.
type Inventory struct {
	run  *run
	side int

	mu    sync.Mutex
	trees map[string]map[string]gitstore.Hash // cluster → app → tree
	files map[gitstore.Hash]map[string]gitstore.Hash
}

// Inventory returns the inventory of the head, or of the base.
func (c *Comparison) Inventory(head bool) *Inventory {
	out := &Inventory{run: c.run, files: map[gitstore.Hash]map[string]gitstore.Hash{}}
	if head {
		out.side = 1
	}
	return out
}

// apps returns the trees of all apps on a cluster.
func (v *Inventory) apps(ctx context.Context, cluster string) (map[string]gitstore.Hash, error) {
	if v.trees == nil {
		trees := map[string]map[string]gitstore.Hash{}
		for _, one := range v.run.list {
			if trees[one.cluster] == nil {
				held, err := v.onBranch(ctx, one)
				if err != nil {
					return nil, err
				}
				trees[one.cluster] = held
			}
			switch tree := one.trees[v.side]; {
			case !one.compared():
			case tree.IsZero():
				delete(trees[one.cluster], one.app)
			default:
				trees[one.cluster][one.app] = tree
			}
		}
		v.trees = trees
	}
	return v.trees[cluster], nil
}

// onBranch returns the apps that the branch has on a candidate's cluster.
func (v *Inventory) onBranch(ctx context.Context, one *candidate) (map[string]gitstore.Hash, error) {
	out := map[string]gitstore.Hash{}
	st, err := v.run.state(ctx, one.target().Cluster.Environment)
	if err != nil {
		return nil, err
	}
	tree := st.Clusters[one.cluster]
	if tree.IsZero() || v.run.request.Against == AgainstNothing {
		return out, nil
	}
	entries, err := v.run.h.Store.Tree(ctx, tree)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		out[e.Name] = e.Hash
	}
	return out, nil
}

// filesOf returns the files of a target's tree.
func (v *Inventory) filesOf(ctx context.Context, tree gitstore.Hash) (map[string]gitstore.Hash, error) {
	if names, ok := v.files[tree]; ok {
		return names, nil
	}
	entries, err := v.run.h.Store.Tree(ctx, tree)
	if err != nil {
		return nil, err
	}
	names := make(map[string]gitstore.Hash, len(entries))
	for _, e := range entries {
		names[e.Name] = e.Hash
	}
	v.files[tree] = names
	return names, nil
}

// Definitions returns the CustomResourceDefinitions on a cluster.
func (v *Inventory) Definitions(ctx context.Context, cluster string) ([]Object, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	apps, err := v.apps(ctx, cluster)
	if err != nil {
		return nil, err
	}
	var found []file
	for _, tree := range apps {
		names, err := v.filesOf(ctx, tree)
		if err != nil {
			return nil, err
		}
		for name, hash := range names {
			if strings.HasPrefix(name, branch.DefinitionPrefix) {
				found = append(found, file{name, hash})
			}
		}
	}
	return v.run.reader.read(ctx, found)
}

// Owner returns the other app on the cluster that renders an object with this identity, the first by name; "" if there is
// none. It finds the object by file name.
func (v *Inventory) Owner(ctx context.Context, cluster, app string, id manifest.Identity) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	apps, err := v.apps(ctx, cluster)
	if err != nil {
		return "", err
	}
	candidates := []string{
		manifest.FileNames([]manifest.Identity{id}, id.Namespace)[0], // in the app's namespace
		manifest.FileNames([]manifest.Identity{id}, "")[0],           // outside of it
	}
	first := ""
	for other, tree := range apps {
		if other == app || first != "" && other > first {
			continue
		}
		names, err := v.filesOf(ctx, tree)
		if err != nil {
			return "", err
		}
		for _, name := range candidates {
			hash, ok := names[name]
			if !ok {
				continue
			}
			objects, err := v.run.reader.read(ctx, []file{{name, hash}})
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
