package fleet

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
)

// appFiles are the decoded files with the apps of one workspace, in order of their names.
type appFiles struct {
	names   []string
	decoded []decodedFile
	err     error // of the folder
	// alone: the content of the folder decides all of it, and no link leads anywhere.
	alone bool
	// bare has the apps' folders of layers that do not exist, which most apps do not have. It is complete only if alone
	// is set.
	bare []string
}

// readWorkspaces reads the files with the apps of all workspaces, several workspaces at a time.
func (l tenancy) readWorkspaces(ctx context.Context) map[*Workspace]appFiles {
	out := make(map[*Workspace]appFiles, len(l.fleet.Workspaces))
	var mu sync.Mutex
	group := errgroup.Group{}
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, w := range l.fleet.Workspaces {
		if w.Err != nil {
			continue
		}
		group.Go(func() error {
			files := l.cache.appFiles(ctx, l.fleet.tree, w.Root)
			mu.Lock()
			defer mu.Unlock()
			out[w] = files
			return nil
		})
	}
	_ = group.Wait() // errors are in the files
	return out
}

// appFiles reads the files with the apps of a workspace. It reads nothing if it knows the folder by its content:
// between two commits, most workspaces do not change.
func (c *Cache) appFiles(ctx context.Context, tree *linkTree, root string) appFiles {
	dir, folder := path.Join(root, "apps"), ""
	if info, err := tree.Tree.Stat(dir); err == nil && info.IsDir() {
		folder, _ = idOf(info) // "" if the tree has no ids
	}
	if known, ok := c.folders.Load(contentKey(folder, dir)); ok && folder != "" {
		files := known.(appFiles) //nolint:forcetypeassert // only files of folders are stored here
		for _, name := range files.names {
			tree.reads.add(name)
		}
		return files
	}
	g, err := parseGlob(path.Join(dir, "*/app.yaml"))
	if err != nil {
		return appFiles{err: err}
	}
	names, err := walkGlobs(ctx, tree, []glob{g})
	out := appFiles{names: names, err: err, alone: folder != "" && err == nil}
	for _, name := range names {
		if ctx.Err() != nil {
			return appFiles{err: ctx.Err()}
		}
		f := c.decode(tree, name)
		out.decoded = append(out.decoded, f)
		out.alone = out.alone && !f.lost && tree.real(name) == name
		layers := layersBeside(name)
		if _, err := tree.Stat(layers); errors.Is(err, fs.ErrNotExist) {
			out.bare = append(out.bare, layers)
		}
	}
	if out.alone = out.alone && tree.complete(); out.alone {
		c.folders.Store(contentKey(folder, dir), out)
	}
	return out
}

// layersBeside is the folder of layers beside an app's file.
func layersBeside(file string) string { return path.Join(path.Dir(file), "layers") }
