package promote

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/rollout"
)

// Candidates keep what earlier passes rendered for promotions that wait, so that a promotion that waits for a person, a
// window or a bake time is rendered once and not in every pass. They are used only to find out that there is still
// nothing to do: whatever a pass stores or moves it renders itself. They are safe for concurrent use, also by passes
// over several repositories.
//
// What is kept depends on the tip of the trunk, on the commit of the environment branch and on the promoted source.
// Whatever depends on the time, on people or on a forge is found out in each pass: bake times, windows, freezes,
// statuses, checks, approvals, the policy's verdict. A candidate that cannot be rendered is not kept, because the
// reason may end, such as a network that fails.
type Candidates = lru.Cache[rendered]

// rendered is what a rendering is for a decision that does nothing.
type rendered struct {
	tree    gitstore.Hash
	same    bool   // the tree differs from the branch in Sluice's own records only
	removed int    // objects that the branch has and the tree has not
	excess  string // what would lose too many of its objects; "" for nothing
	failure string
}

// NewCandidates returns empty Candidates. They evict the least recently used rendering; one takes about 1 KiB.
func NewCandidates() *Candidates { return lru.New[rendered](4096) }

// key identifies a rendering; "" if it may not be kept.
func (p *proposals) key(environment string, source rollout.Source) string {
	st, r := p.states[environment], &p.request
	if r.Candidates == nil || r.DryRun || st.Foreign != "" || p.foreign(environment) || p.imports[environment] != nil {
		return ""
	}
	return fmt.Sprintf("%s\x00%s\x00%s %s\x00%s %s %s\x00%s", p.hydrator.Branches, environment, st.Branch, st.Tip.Hash,
		r.Trunk.Hash, r.Trunk.Tree, p.hydrator.Version, source.Key())
}

// rendering renders a source for an environment on top of what its branch holds. With recall, it takes what an earlier
// pass found. With again, it takes nothing from the branch, nor from an earlier pass.
func (p *proposals) rendering(ctx context.Context, environment string, source rollout.Source,
	again, recall bool,
) (rendered, error) {
	key := p.key(environment, source)
	if again {
		key = ""
	}
	if recall && key != "" {
		if out, ok := p.request.Candidates.Get(key); ok {
			p.recalled = true
			return out, nil
		}
	}
	one, err := p.compose(ctx, environment, source, again)
	if err != nil || one.failure != "" {
		return rendered{failure: one.reason()}, err
	}
	st, out := p.states[environment], rendered{tree: one.tree}
	if out.same, err = p.sameManifests(ctx, st, one.tree); err != nil {
		return out, err
	}
	if st.Exists() {
		if out.removed, out.excess, err = p.removed(ctx, st, one.tree); err != nil {
			return out, err
		}
	}
	if key != "" {
		p.request.Candidates.Add(key, out)
	}
	return out, nil
}

// confirmed renders the candidate in this pass, where it came from an earlier one, and decides with it again: something
// is to be stored or done.
func (p *proposals) confirmed(ctx context.Context, e fleet.Environment, s *rollout.Situation, d rollout.Decision,
	changed bool,
) (rollout.Decision, error) {
	if !p.recalled {
		return d, nil
	}
	equal, err := same(p.records.known[e.Name], d.Record)
	if err != nil || equal && !changed && !slices.ContainsFunc(d.Actions,
		func(a rollout.Action) bool { return a.Kind != rollout.Nothing }) {
		return d, err
	}
	if err := p.propose(ctx, e, s, p.proposed, false); err != nil {
		return d, err
	}
	return rollout.Decide(*s)
}
