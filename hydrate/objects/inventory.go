package objects

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Apps returns the trees of all apps on a cluster, by app.
type Apps func(ctx context.Context, cluster string) (map[string]gitstore.Hash, error)

// Inventory looks objects up on clusters. Its caches are bounded. It is safe for concurrent use, if nothing else uses its Reader.
type Inventory struct {
	reader *Reader
	apps   Apps

	mu       sync.Mutex
	clusters map[string]map[string]gitstore.Hash
	files    map[gitstore.Hash]map[string]gitstore.Hash
	kept     int                      // entries in clusters and files
	limit    int                      // of kept
	cluster  string                   // of index
	indexed  map[string]gitstore.Hash // the apps in index, with their trees
	index    map[string][]place       // files by name
}

// place is a file of an app.
type place struct {
	app  string
	hash gitstore.Hash
}

// maxKept limits the names of apps and files that an Inventory caches, about 100 bytes each.
const maxKept = 1 << 19

// NewInventory returns an Inventory. It caches what apps returns for a cluster, and calls apps again after an eviction.
func NewInventory(reader *Reader, apps Apps) *Inventory {
	return &Inventory{
		reader: reader, apps: apps, limit: maxKept,
		clusters: map[string]map[string]gitstore.Hash{}, files: map[gitstore.Hash]map[string]gitstore.Hash{},
	}
}

// reserve counts n more entries of the caches, and empties both if the limit does not allow them.
func (v *Inventory) reserve(n int) {
	if v.kept += n; v.kept > v.limit {
		clear(v.clusters)
		clear(v.files)
		v.kept = n
	}
}

func (v *Inventory) appsOf(ctx context.Context, cluster string) (map[string]gitstore.Hash, error) {
	if known, ok := v.clusters[cluster]; ok {
		return known, nil
	}
	found, err := v.apps(ctx, cluster)
	if err == nil {
		v.reserve(len(found) + 1)
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
	v.reserve(len(names) + 1)
	v.files[tree] = names
	return names, nil
}

// Definitions returns the CustomResourceDefinitions on a cluster, sorted by app and file name. Several apps can define one kind.
func (v *Inventory) Definitions(ctx context.Context, cluster string) ([]Object, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	apps, err := v.appsOf(ctx, cluster)
	if err != nil {
		return nil, err
	}
	var out []Object
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		names, err := v.filesOf(ctx, apps[app])
		if err != nil {
			return nil, err
		}
		var found []File
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if strings.HasPrefix(name, branch.DefinitionPrefix) {
				found = append(found, File{name, names[name]})
			}
		}
		list, err := v.reader.Read(ctx, cluster, app, found)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// Owners returns the apps on a cluster that have an object with this identity, by name. It is fast if the calls about one cluster follow
// each other.
func (v *Inventory) Owners(ctx context.Context, cluster string, id manifest.Identity) ([]string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.indexFiles(ctx, cluster); err != nil {
		return nil, err
	}
	var out []string
	for _, name := range manifest.PossibleFileNames(id) {
		for _, p := range v.index[name] {
			has, err := v.is(ctx, cluster, p.app, File{name, p.hash}, id)
			if err != nil {
				return nil, err
			}
			if has {
				out = append(out, p.app)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// indexFiles makes the index one of the files of a cluster. It changes what differs from the cluster before, because most apps have equal
// trees on many clusters.
func (v *Inventory) indexFiles(ctx context.Context, cluster string) error {
	if v.index != nil && v.cluster == cluster {
		return nil
	}
	apps, err := v.appsOf(ctx, cluster)
	if err != nil {
		return err
	}
	if v.index == nil || len(changedApps(v.indexed, apps)) > len(apps)/8 { // removing many files costs more than a new index
		v.index, v.indexed = map[string][]place{}, map[string]gitstore.Hash{}
	}
	if err := v.moveIndex(ctx, apps); err != nil {
		v.index = nil
		return err
	}
	v.cluster = cluster
	return nil
}

// changedApps returns the apps of a cluster that another one does not have, or has with another tree.
func changedApps(from, to map[string]gitstore.Hash) []string {
	var out []string
	for app, tree := range from {
		if to[app] != tree {
			out = append(out, app)
		}
	}
	return out
}

// moveIndex makes the index one of other apps.
func (v *Inventory) moveIndex(ctx context.Context, apps map[string]gitstore.Hash) error {
	for _, app := range changedApps(v.indexed, apps) {
		names, err := v.filesOf(ctx, v.indexed[app])
		if err != nil {
			return err
		}
		for name := range names {
			if v.index[name] = slices.DeleteFunc(v.index[name], func(p place) bool { return p.app == app }); len(v.index[name]) == 0 {
				delete(v.index, name)
			}
		}
		delete(v.indexed, app)
	}
	for _, app := range changedApps(apps, v.indexed) {
		names, err := v.filesOf(ctx, apps[app])
		if err != nil {
			return err
		}
		for name, hash := range names {
			v.index[name] = append(v.index[name], place{app, hash})
		}
		v.indexed[app] = apps[app]
	}
	return nil
}

// is reports whether a file of a target holds the object with an identity.
func (v *Inventory) is(ctx context.Context, cluster, app string, f File, id manifest.Identity) (bool, error) {
	list, err := v.reader.Read(ctx, cluster, app, []File{f})
	return err == nil && len(list) == 1 && list[0].Object.Object.Identity() == id, err
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
	names, err := v.filesOf(ctx, tree)
	if err != nil {
		return false, err
	}
	for _, name := range manifest.PossibleFileNames(id) {
		hash, ok := names[name]
		if !ok {
			continue
		}
		if has, err := v.is(ctx, cluster, app, File{name, hash}, id); has || err != nil {
			return has, err
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
