package fleet

import (
	"context"
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

// appFiles reads the files with the apps of a workspace. It reads nothing if it knows the folder by its content: between two commits, most
// workspaces do not change.
func (c *Cache) appFiles(ctx context.Context, tree *linkTree, root string) appFiles {
	dir, key := path.Join(root, "apps"), ""
	if info, err := tree.Tree.Stat(dir); err == nil && info.IsDir() {
		if id, ok := idOf(info); ok {
			key = id + "\x00" + dir
		}
	}
	if known, ok := c.folders.Load(key); ok {
		files := known.(appFiles) //nolint:forcetypeassert // only this function stores here
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
	out := appFiles{names: names, err: err}
	alone := key != "" && err == nil // the content of the folder decides all
	for _, name := range names {
		if ctx.Err() != nil {
			return appFiles{err: ctx.Err()}
		}
		f := c.decode(tree, name)
		out.decoded = append(out.decoded, f)
		alone = alone && !f.lost && tree.real(name) == name
	}
	if alone && tree.complete() {
		c.folders.Store(key, out)
	}
	return out
}
