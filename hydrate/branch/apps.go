package branch

import (
	"context"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

// TreeReader reads tree objects. *gitstore.Store implements it.
type TreeReader interface {
	Tree(ctx context.Context, tree gitstore.Hash) ([]gitstore.Entry, error)
}

// Apps lists the apps in the tree of a cluster, with the tree of each. The names of a workspace's apps begin with that
// of the workspace.
func Apps(ctx context.Context, store TreeReader, tree gitstore.Hash) ([]gitstore.Entry, error) {
	own, at, workspaces, err := parts(ctx, store, tree)
	if err != nil || len(workspaces) == 0 {
		return own, err
	}
	var scoped []gitstore.Entry
	for _, w := range workspaces {
		apps, err := store.Tree(ctx, w.Hash)
		if err != nil {
			return nil, err
		}
		for _, a := range apps {
			a.Name = w.Name + "/" + a.Name
			scoped = append(scoped, a)
		}
	}
	return slices.Insert(own, at, scoped...), nil
}

// parts returns the fleet's own apps in the tree of a cluster, and the folders of the workspaces, which stand at an
// index of the tree.
func parts(ctx context.Context, store TreeReader, tree gitstore.Hash) (own []gitstore.Entry, at int,
	workspaces []gitstore.Entry, err error,
) {
	entries, err := store.Tree(ctx, tree)
	if err != nil {
		return nil, 0, nil, err
	}
	i := slices.IndexFunc(entries, func(e gitstore.Entry) bool {
		return e.Name == fleet.WorkspacesDir &&
			e.Mode == gitstore.ModeTree
	})
	if i < 0 {
		return slices.Clone(entries), 0, nil, nil
	}
	if workspaces, err = store.Tree(ctx, entries[i].Hash); err != nil {
		return nil, 0, nil, err
	}
	if slices.ContainsFunc(workspaces, func(w gitstore.Entry) bool { return w.Mode != gitstore.ModeTree }) {
		return slices.Clone(entries), 0, nil, nil // an app of that name, in a fleet without workspaces
	}
	return slices.Concat(entries[:i], entries[i+1:]), i, workspaces, nil
}

// Parts lists the fleet's own apps in the tree of a cluster, and the folders of the workspaces that have apps there.
func Parts(ctx context.Context, store TreeReader, tree gitstore.Hash) (own, workspaces []gitstore.Entry, err error) {
	own, _, workspaces, err = parts(ctx, store, tree)
	return own, workspaces, err
}

// Workspaces returns the names of the workspaces that have apps in the tree of a cluster.
func Workspaces(ctx context.Context, store TreeReader, tree gitstore.Hash) (map[string]bool, error) {
	_, _, folders, err := parts(ctx, store, tree)
	out := map[string]bool{}
	for _, w := range folders {
		out[w.Name] = true
	}
	return out, err
}

// WorkspaceReader reads the workspaces in the trees of clusters. Clusters that follow each other often have equal
// trees, so it keeps the latest. It is not safe for concurrent use.
type WorkspaceReader struct {
	tree  gitstore.Hash
	names map[string]bool
}

// Read is Workspaces. The caller does not change the result.
func (w *WorkspaceReader) Read(ctx context.Context, store TreeReader, tree gitstore.Hash) (map[string]bool, error) {
	if w.names != nil && w.tree == tree {
		return w.names, nil
	}
	names, err := Workspaces(ctx, store, tree)
	if err != nil {
		return nil, err
	}
	w.tree, w.names = tree, names
	return names, nil
}

// EditApps writes the tree of a cluster with other trees of some apps. The zero hash removes an app. It reads and
// writes only the folders of the workspaces whose apps it changes. tree is zero for a new cluster.
func EditApps(ctx context.Context, store TreeReader, w *gitstore.Writer, tree gitstore.Hash,
	apps map[string]gitstore.Hash,
) (gitstore.Hash, error) {
	var own, workspaces []gitstore.Entry
	if !tree.IsZero() {
		var err error
		if own, _, workspaces, err = parts(ctx, store, tree); err != nil {
			return gitstore.Hash{}, err
		}
	}
	scoped := map[string]map[string]gitstore.Hash{}
	edits := map[string]gitstore.Hash{}
	for app, hash := range apps {
		workspace, name, ok := strings.Cut(app, "/")
		if !ok {
			edits[app] = hash
			continue
		}
		if scoped[workspace] == nil {
			scoped[workspace] = map[string]gitstore.Hash{}
		}
		scoped[workspace][name] = hash
	}
	folders := map[string]gitstore.Hash{}
	for workspace, changes := range scoped {
		var have []gitstore.Entry
		if i := slices.IndexFunc(workspaces, func(e gitstore.Entry) bool { return e.Name == workspace }); i >= 0 {
			var err error
			if have, err = store.Tree(ctx, workspaces[i].Hash); err != nil {
				return gitstore.Hash{}, err
			}
		}
		var err error
		if folders[workspace], err = writeFolder(w, edited(have, changes)); err != nil {
			return gitstore.Hash{}, err
		}
	}
	own = edited(own, edits)
	all, err := writeFolder(w, edited(workspaces, folders))
	if err != nil {
		return gitstore.Hash{}, err
	}
	if !all.IsZero() {
		own = append(own, gitstore.Entry{Name: fleet.WorkspacesDir, Mode: gitstore.ModeTree, Hash: all})
	}
	return w.Tree(own)
}

// edited returns the entries of a folder with other trees under some names. The zero hash removes an entry.
func edited(entries []gitstore.Entry, changes map[string]gitstore.Hash) []gitstore.Entry {
	out := make([]gitstore.Entry, 0, len(entries)+len(changes))
	found := 0
	for _, e := range entries {
		hash, ok := changes[e.Name]
		if ok {
			e.Mode, e.Hash = gitstore.ModeTree, hash
			found++
		}
		if !e.Hash.IsZero() {
			out = append(out, e)
		}
	}
	if found == len(changes) {
		return out
	}
	for name, hash := range changes {
		if !hash.IsZero() && !slices.ContainsFunc(entries, func(e gitstore.Entry) bool { return e.Name == name }) {
			out = append(out, gitstore.Entry{Name: name, Mode: gitstore.ModeTree, Hash: hash})
		}
	}
	return out
}

// writeFolder writes a folder. The zero hash is one without entries.
func writeFolder(w *gitstore.Writer, entries []gitstore.Entry) (gitstore.Hash, error) {
	if len(entries) == 0 {
		return gitstore.Hash{}, nil
	}
	return w.Tree(entries)
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
