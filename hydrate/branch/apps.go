package branch

import (
	"context"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// TreeReader reads tree objects. *gitstore.Store implements it.
type TreeReader interface {
	Tree(ctx context.Context, tree gitstore.Hash) ([]gitstore.Entry, error)
}

// Apps lists the apps in the tree of a cluster, with the tree of each. The names of a workspace's apps begin with that of the workspace.
func Apps(ctx context.Context, store TreeReader, tree gitstore.Hash) ([]gitstore.Entry, error) {
	entries, err := store.Tree(ctx, tree)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(entries, func(e gitstore.Entry) bool { return e.Name == fleet.WorkspacesDir && e.Mode == gitstore.ModeTree })
	if i < 0 {
		return entries, nil
	}
	workspaces, err := store.Tree(ctx, entries[i].Hash)
	if err != nil {
		return nil, err
	}
	var scoped []gitstore.Entry
	for _, w := range workspaces {
		if w.Mode != gitstore.ModeTree {
			return entries, nil // an app of that name, in a fleet without workspaces
		}
		apps, err := store.Tree(ctx, w.Hash)
		if err != nil {
			return nil, err
		}
		for _, a := range apps {
			a.Name = w.Name + "/" + a.Name
			scoped = append(scoped, a)
		}
	}
	return slices.Concat(entries[:i], scoped, entries[i+1:]), nil
}

// WriteApps writes the tree of a cluster; Apps reads it.
func WriteApps(w *gitstore.Writer, apps []gitstore.Entry) (gitstore.Hash, error) {
	var own, workspaces []gitstore.Entry
	scoped := map[string][]gitstore.Entry{}
	for _, a := range apps {
		workspace, name, ok := strings.Cut(a.Name, "/")
		if !ok {
			own = append(own, a)
			continue
		}
		a.Name = name
		scoped[workspace] = append(scoped[workspace], a)
	}
	for name, list := range scoped {
		tree, err := w.Tree(list)
		if err != nil {
			return gitstore.Hash{}, err
		}
		workspaces = append(workspaces, gitstore.Entry{Name: name, Mode: gitstore.ModeTree, Hash: tree})
	}
	if len(workspaces) > 0 {
		tree, err := w.Tree(workspaces)
		if err != nil {
			return gitstore.Hash{}, err
		}
		own = append(own, gitstore.Entry{Name: fleet.WorkspacesDir, Mode: gitstore.ModeTree, Hash: tree})
	}
	return w.Tree(own)
}
