package objects

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Apps returns what a cluster has.
type Apps func(ctx context.Context, cluster string) (Cluster, error)

// Cluster is the tree of a cluster on a branch, with other trees of some apps.
type Cluster struct {
	Tree gitstore.Hash // zero for a cluster without a tree
	Apps []App         // apps that differ from Tree, each once; the zero hash is an app that the cluster does not have
}

// App is the tree of an app.
type App struct {
	Name string
	Tree gitstore.Hash
}

// Inventory looks objects up on clusters. Its caches are bounded. It is safe for concurrent use.
type Inventory struct {
	reader *Reader
	apps   Apps

	mu       sync.Mutex
	clusters map[string]*contents
	alike    map[[sha256.Size]byte]*contents // by Cluster.sum: most clusters of a large fleet have the same as others
	files    map[gitstore.Hash]map[string]gitstore.Hash
	names    map[manifest.Identity][]string // of the files that an object can have
	cached   int                            // entries in clusters, alike, files and names
	limit    int                            // of cached
	indexed  *contents                      // what index has
	index    map[string][]place             // files by name; nil before it is needed
	asked    *contents                      // of the last call of finder
	calls    int                            // of finder about asked
}

// contents are the apps of a cluster, or of several with equal ones. They do not change, apart from the caches.
// Workspaces without other trees are not listed app by app: most are equal on many clusters, and a fleet has hundreds
// of them.
type contents struct {
	apps    map[string]gitstore.Hash       // by app
	folders map[string]gitstore.Hash       // by workspace: the folder of its apps
	places  map[string][]place             // cache of placesOf, by name
	owners  map[manifest.Identity][]string // cache of Owners
}

// sum identifies what a cluster has. Lists in another order only share less.
func (c Cluster) sum() [sha256.Size]byte {
	var buffer [256]byte
	text := append(buffer[:0], c.Tree[:]...)
	for _, app := range c.Apps {
		text = binary.BigEndian.AppendUint64(text, uint64(len(app.Name)))
		text = append(text, app.Name...)
		text = append(text, app.Tree[:]...)
	}
	return sha256.Sum256(text)
}

// maxCached limits the names of apps and files that an Inventory caches, about 100 bytes each.
const maxCached = 1 << 19

// NewInventory returns an Inventory. It caches what apps returns for a cluster, and calls apps again after an eviction.
func NewInventory(reader *Reader, apps Apps) *Inventory {
	return &Inventory{
		reader: reader, apps: apps, limit: maxCached,
		clusters: map[string]*contents{}, alike: map[[sha256.Size]byte]*contents{},
		files: map[gitstore.Hash]map[string]gitstore.Hash{},
		names: map[manifest.Identity][]string{}, indexed: &contents{},
	}
}

// reserve counts n more entries of the caches, and empties them if the limit does not allow them.
func (v *Inventory) reserve(n int) {
	if v.cached += n; v.cached > v.limit {
		clear(v.clusters)
		clear(v.alike)
		clear(v.files)
		clear(v.names)
		v.cached = n
	}
}

func (v *Inventory) contentsOf(ctx context.Context, cluster string) (*contents, error) {
	if known, ok := v.clusters[cluster]; ok {
		return known, nil
	}
	c, err := v.apps(ctx, cluster)
	if err != nil {
		return nil, err
	}
	sum := c.sum()
	out, ok := v.alike[sum]
	if !ok {
		if out, err = v.list(ctx, c); err != nil {
			return nil, err
		}
		v.reserve(len(out.apps) + len(out.folders) + 1)
		v.alike[sum] = out
	}
	v.reserve(1)
	v.clusters[cluster] = out
	return out, nil
}

// list reads the contents of a cluster.
func (v *Inventory) list(ctx context.Context, c Cluster) (*contents, error) {
	out := &contents{
		apps: map[string]gitstore.Hash{}, folders: map[string]gitstore.Hash{},
		places: map[string][]place{}, owners: map[manifest.Identity][]string{},
	}
	if !c.Tree.IsZero() {
		own, folders, err := branch.Parts(ctx, v.reader.store, c.Tree)
		if err != nil {
			return out, err
		}
		for _, e := range own {
			out.apps[e.Name] = e.Hash
		}
		for _, e := range folders {
			out.folders[e.Name] = e.Hash
		}
	}
	for _, app := range c.Apps {
		workspace := fleet.WorkspaceOf(app.Name)
		folder, ok := out.folders[workspace]
		if !ok {
			continue
		}
		delete(out.folders, workspace)
		err := v.each(ctx, workspace, folder, func(app string, tree gitstore.Hash) { out.apps[app] = tree })
		if err != nil {
			return out, err
		}
	}
	for _, app := range c.Apps {
		if out.apps[app.Name] = app.Tree; app.Tree.IsZero() {
			delete(out.apps, app.Name)
		}
	}
	return out, nil
}

// each calls f for each app in the folder of a workspace.
func (v *Inventory) each(ctx context.Context, workspace string, folder gitstore.Hash,
	f func(app string, tree gitstore.Hash),
) error {
	entries, err := v.reader.store.Tree(ctx, folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		f(workspace+"/"+e.Name, e.Hash)
	}
	return nil
}

// appsOf returns the trees of all apps on a cluster.
func (v *Inventory) appsOf(ctx context.Context, cluster string) (map[string]gitstore.Hash, error) {
	c, err := v.contentsOf(ctx, cluster)
	if err != nil {
		return nil, err
	}
	if len(c.folders) == 0 {
		return c.apps, nil
	}
	out := maps.Clone(c.apps)
	for workspace, folder := range c.folders {
		if err := v.each(ctx, workspace, folder, func(app string, tree gitstore.Hash) { out[app] = tree }); err != nil {
			return nil, err
		}
	}
	return out, nil
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

// Definitions returns the CustomResourceDefinitions on a cluster, sorted by app and file name. Several apps can define
// one kind.
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
		list, err := v.reader.look(ctx, found)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// is reports whether a file of a target holds the object with an identity.
func (v *Inventory) is(ctx context.Context, f File, id manifest.Identity) (bool, error) {
	list, err := v.reader.look(ctx, []File{f})
	return err == nil && len(list) == 1 && list[0].Object.Object.Identity() == id, err
}

// Has reports whether an app on the cluster has an object with this identity.
func (v *Inventory) Has(ctx context.Context, cluster, app string, id manifest.Identity) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	tree, err := v.treeOf(ctx, cluster, app)
	if err != nil || tree.IsZero() {
		return false, err
	}
	names, err := v.filesOf(ctx, tree)
	if err != nil {
		return false, err
	}
	for _, name := range v.namesOf(id) {
		hash, ok := names[name]
		if !ok {
			continue
		}
		if has, err := v.is(ctx, File{name, hash}, id); has || err != nil {
			return has, err
		}
	}
	return false, nil
}

// treeOf returns the tree of an app on a cluster; zero if it is not there.
func (v *Inventory) treeOf(ctx context.Context, cluster, app string) (gitstore.Hash, error) {
	c, err := v.contentsOf(ctx, cluster)
	if err != nil {
		return gitstore.Hash{}, err
	}
	workspace := fleet.WorkspaceOf(app)
	folder, ok := c.folders[workspace]
	if !ok {
		return c.apps[app], nil
	}
	var out gitstore.Hash
	err = v.each(ctx, workspace, folder, func(name string, tree gitstore.Hash) {
		if name == app {
			out = tree
		}
	})
	return out, err
}

// Size counts the apps of a workspace on a cluster, and their objects.
func (v *Inventory) Size(ctx context.Context, cluster, workspace string) (apps, objects int, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, err := v.contentsOf(ctx, cluster)
	if err != nil {
		return 0, 0, err
	}
	var trees []gitstore.Hash
	if folder, ok := c.folders[workspace]; ok {
		err = v.each(ctx, workspace, folder, func(_ string, tree gitstore.Hash) { trees = append(trees, tree) })
	} else {
		for app, tree := range c.apps {
			if strings.HasPrefix(app, workspace+"/") {
				trees = append(trees, tree)
			}
		}
	}
	for _, tree := range trees {
		files, failed := v.filesOf(ctx, tree)
		if failed != nil {
			return 0, 0, failed
		}
		objects += len(files)
	}
	return len(trees), objects, err
}
