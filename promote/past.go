package promote

import (
	"context"
	"fmt"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

const (
	maxHistory  = 1_000
	leastDigits = 7 // of a commit's id
)

// past reads earlier states of one environment branch. The history is read once, when it is first needed.
type past struct {
	h        *hydrate.Hydrator
	now      *branch.State
	entries  []HistoryEntry
	states   map[gitstore.Hash]*branch.State // by tree
	contents map[string]map[string]string    // tree and cluster → app → its tree
}

func newPast(h *hydrate.Hydrator, now *branch.State) *past {
	return &past{h: h, now: now, states: map[gitstore.Hash]*branch.State{}, contents: map[string]map[string]string{}}
}

// history returns the states of the branch, newest first.
func (p *past) history(ctx context.Context) ([]HistoryEntry, error) {
	if p.entries == nil {
		var err error
		if p.entries, err = history(ctx, p.h, p.now.Tip, maxHistory); err != nil {
			return nil, err
		}
	}
	return p.entries, nil
}

// stateOf is state for a tree whose name is in a record or a command.
func (p *past) stateOf(ctx context.Context, tree string) (*branch.State, error) {
	hash, err := gitstore.ParseHash(tree)
	if err != nil {
		return nil, err
	}
	return p.state(ctx, hash)
}

// state reads a tree of the branch. It returns promote.ErrNoTree for a tree that the history of the branch does not
// have.
func (p *past) state(ctx context.Context, tree gitstore.Hash) (*branch.State, error) {
	if st := p.states[tree]; st != nil {
		return st, nil
	}
	if tree == p.now.Tip.Tree {
		p.states[tree] = p.now
		return p.now, nil
	}
	entries, err := p.history(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Tree != tree {
			continue
		}
		if err := p.h.Branches.Fetch(ctx, e.Commit); err != nil {
			return nil, err
		}
		st, err := branch.ReadTree(ctx, p.h.Store, tree)
		if err != nil {
			return nil, err
		}
		p.states[tree] = st
		return st, nil
	}
	return nil, fmt.Errorf("%w %s: %s", rollout.ErrNoTree, p.now.Branch, tree.Short())
}

// add makes a tree readable that is not on the branch, such as one that was just rendered.
func (p *past) add(ctx context.Context, tree gitstore.Hash) error {
	st, err := branch.ReadTree(ctx, p.h.Store, tree)
	p.states[tree] = st
	return err
}

// read returns a promote.Contents that reads the states of the branch.
func (p *past) read(ctx context.Context) rollout.Contents {
	return func(tree, cluster string) (map[string]string, error) {
		key := tree + " " + cluster
		if out, ok := p.contents[key]; ok {
			return out, nil
		}
		hash, err := gitstore.ParseHash(tree)
		if err != nil {
			return nil, fmt.Errorf("%w: %q is not a tree", rollout.ErrNoTree, tree)
		}
		st, err := p.state(ctx, hash)
		if err != nil {
			return nil, err
		}
		out := map[string]string{}
		if sub := st.Clusters[cluster]; !sub.IsZero() {
			entries, err := branch.Apps(ctx, p.h.Store, sub)
			if err != nil {
				return nil, err
			}
			for _, e := range entries {
				out[e.Name] = e.Hash.String()
			}
		}
		p.contents[key] = out
		return out, nil
	}
}

// with finds the newest state in which a cluster has a tree.
func (p *past) with(ctx context.Context, cluster string, tree gitstore.Hash) (*branch.State, error) {
	entries, err := p.history(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		st, err := p.state(ctx, e.Tree)
		if err != nil {
			return nil, err
		}
		if st.Clusters[cluster] == tree {
			return st, nil
		}
	}
	return nil, fmt.Errorf("%w %s: what cluster %s runs", rollout.ErrNoTree, p.now.Branch, cluster)
}
