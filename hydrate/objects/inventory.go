package objects

import (
	"context"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Apps returns the trees of all apps on a cluster, by app.
type Apps func(ctx context.Context, cluster string) (map[string]gitstore.Hash, error)

// Inventory looks objects up on clusters. It is safe for concurrent use, if nothing else uses its Reader.
type Inventory struct {
	reader *Reader
	apps   Apps

	mu       sync.Mutex
	clusters map[string]map[string]gitstore.Hash
	files    map[gitstore.Hash]map[string]gitstore.Hash
}

// NewInventory returns an Inventory. It asks apps once for each cluster.
func NewInventory(reader *Reader, apps Apps) *Inventory {
	return &Inventory{
		reader: reader, apps: apps, clusters: map[string]map[string]gitstore.Hash{}, files: map[gitstore.Hash]map[string]gitstore.Hash{},
	}
}

func (v *Inventory) appsOf(ctx context.Context, cluster string) (map[string]gitstore.Hash, error) {
	if known, ok := v.clusters[cluster]; ok {
		return known, nil
	}
	found, err := v.apps(ctx, cluster)
	if err == nil {
		v.clusters[cluster] = found
	}
	return found, err
}

// filesOf returns the files of a target's tree.
func (v *Inventory) filesOf(ctx context.Context, tree gitstore.Hash) (map[string]gitstore.Hash, error) {
	if names, ok := v.files[tree]; ok {
		return names, nil
	}
	entries, err := v.reader.store.Tree(ctx, tree)
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
	apps, err := v.appsOf(ctx, cluster)
	if err != nil {
		return nil, err
	}
	var found []File
	for _, tree := range apps {
		names, err := v.filesOf(ctx, tree)
		if err != nil {
			return nil, err
		}
		for name, hash := range names {
			if strings.HasPrefix(name, branch.DefinitionPrefix) {
				found = append(found, File{name, hash})
			}
		}
	}
	return v.reader.Read(ctx, found)
}

// Owner returns another app on the cluster that has an object with this identity, the first by name, or "".
func (v *Inventory) Owner(ctx context.Context, cluster, app string, id manifest.Identity) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	apps, err := v.appsOf(ctx, cluster)
	if err != nil {
		return "", err
	}
	first := ""
	for other, tree := range apps {
		if other == app || first != "" && other > first {
			continue
		}
		has, err := v.contains(ctx, tree, id)
		if err != nil {
			return "", err
		}
		if has {
			first = other
		}
	}
	return first, nil
}

// Has reports whether an app on the cluster has an object with this identity.
func (v *Inventory) Has(ctx context.Context, cluster, app string, id manifest.Identity) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	apps, err := v.appsOf(ctx, cluster)
	if err != nil {
		return false, err
	}
	tree, ok := apps[app]
	if !ok {
		return false, nil
	}
	return v.contains(ctx, tree, id)
}

// contains reports whether a target's tree has an object. It finds the object by file name.
func (v *Inventory) contains(ctx context.Context, tree gitstore.Hash, id manifest.Identity) (bool, error) {
	names, err := v.filesOf(ctx, tree)
	if err != nil {
		return false, err
	}
	for _, name := range manifest.PossibleFileNames(id) {
		hash, ok := names[name]
		if !ok {
			continue
		}
		list, err := v.reader.Read(ctx, []File{{name, hash}})
		if err != nil {
			return false, err
		}
		if len(list) == 1 && list[0].Object.Object.Identity() == id {
			return true, nil
		}
	}
	return false, nil
}

// Size counts the apps of a workspace on a cluster, and their objects.
func (v *Inventory) Size(ctx context.Context, cluster, workspace string) (apps, objects int, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	found, err := v.appsOf(ctx, cluster)
	if err != nil {
		return 0, 0, err
	}
	for app, tree := range found {
		if !strings.HasPrefix(app, workspace+"/") {
			continue
		}
		files, err := v.filesOf(ctx, tree)
		if err != nil {
			return 0, 0, err
		}
		apps, objects = apps+1, objects+len(files)
	}
	return apps, objects, nil
}
