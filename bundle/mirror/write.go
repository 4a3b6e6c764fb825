package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/gitstore"
)

// MaxCommit limits the bytes of a commit of another repository.
const MaxCommit = 64 << 10

const (
	dirCharts  = "charts"
	dirCommits = "commits"
	dirPublic  = "public"
)

// ChartFile returns the name of a packed chart with a SHA-256.
func ChartFile(digits string) string { return digits + ".tgz" }

// SignaturesFile returns the name of the signatures of such a chart.
func SignaturesFile(digits string) string { return digits + ".signatures.json" }

var errCommit = errors.New("it is not the commit with this id")

// TreeOf returns the tree of a commit from the commit's bytes, which must have its id, and makes the commit readable in
// the store. The tree need not be there.
func TreeOf(ctx context.Context, store *gitstore.Store, id gitstore.Hash, data []byte) (gitstore.Hash, error) {
	if len(data) > MaxCommit {
		return gitstore.Hash{}, fmt.Errorf("commit %s has %d bytes, more than %d", id.Short(), len(data), MaxCommit)
	}
	if gitstore.Sum("commit", data) != id {
		return gitstore.Hash{}, fmt.Errorf("commit %s: %w", id.Short(), errCommit)
	}
	if _, err := store.Keep(gitstore.Raw{Kind: "commit", Data: data}); err != nil {
		return gitstore.Hash{}, err
	}
	c, err := store.Commit(ctx, id)
	return c.Tree, err
}

// Additions is what a bundle adds to the tree of a mirror.
type Additions struct {
	charts, commits, public []gitstore.Entry
}

// File adds a file of charts/, whose content is in the Writer that Tree gets.
func (a *Additions) File(name string, blob gitstore.Hash) {
	a.charts = append(a.charts, gitstore.Entry{Name: name, Mode: gitstore.ModeFile, Hash: blob})
}

// Commit adds a commit of another repository.
func (a *Additions) Commit(w *gitstore.Writer, id gitstore.Hash, data []byte, tree gitstore.Hash, public bool) error {
	blob, err := w.Blob(data)
	if err != nil {
		return err
	}
	dir, err := w.Tree([]gitstore.Entry{
		{Name: "commit", Mode: gitstore.ModeFile, Hash: blob}, {Name: "tree", Mode: gitstore.ModeTree, Hash: tree},
	})
	if err != nil {
		return err
	}
	e := gitstore.Entry{Name: id.String(), Mode: gitstore.ModeTree, Hash: dir}
	if public {
		a.public = append(a.public, e)
	} else {
		a.commits = append(a.commits, e)
	}
	return nil
}

// Tree writes the tree of a mirror with the additions. What before, zero for none, has and is not replaced stays. An entry of
// before that is no folder of a mirror is left out.
func (a *Additions) Tree(ctx context.Context, store *gitstore.Store, w *gitstore.Writer, before gitstore.Hash) (gitstore.Hash, error) {
	var out []gitstore.Entry
	for _, part := range []struct {
		name string
		add  []gitstore.Entry
	}{{dirCharts, a.charts}, {dirCommits, a.commits}, {dirPublic, a.public}} {
		var have []gitstore.Entry
		if !before.IsZero() {
			e, ok, err := find(ctx, store, before, part.name)
			if err != nil {
				return gitstore.Hash{}, err
			}
			if ok && e.Mode == gitstore.ModeTree {
				if have, err = store.Tree(ctx, e.Hash); err != nil {
					return gitstore.Hash{}, err
				}
			}
		}
		added := map[string]bool{}
		list := append([]gitstore.Entry{}, part.add...)
		for _, e := range list {
			added[e.Name] = true
		}
		for _, e := range have {
			if !added[e.Name] {
				list = append(list, e)
			}
		}
		if len(list) == 0 {
			continue
		}
		dir, err := w.Tree(list)
		if err != nil {
			return gitstore.Hash{}, err
		}
		out = append(out, gitstore.Entry{Name: part.name, Mode: gitstore.ModeTree, Hash: dir})
	}
	return w.Tree(out)
}
