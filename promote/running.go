package promote

import (
	"context"
	"time"

	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/rollout"
)

// Running describes the tip of an environment's branch.
type Running struct {
	Environment string
	Branch      string
	Tip         gitstore.Hash // zero: there is no branch yet
	Source      gitstore.Hash // the commit it was rendered from; zero if its record cannot be read
	Since       time.Time     // of the branch's last commit
	Foreign     string        // why the tip is not Sluice's own work; "" if it is
	Resolve     string        // what a person does about that, of an environment that follows the trunk
}

// ReadRunning reads what every environment of a fleet runs, from the branches alone. On a site, it leaves out the
// environments that belong to home.
func ReadRunning(ctx context.Context, h *hydrate.Hydrator, tree gitstore.Hash) ([]Running, error) {
	f, _, err := h.Fleet(ctx, tree)
	if err != nil {
		return nil, err
	}
	refs, err := h.Branches.List(ctx, append(f.BranchPrefixes(), incoming.Prefixes(f)...)...)
	if err != nil {
		return nil, err
	}
	var out []Running
	for _, e := range f.Spec.Environments {
		if incoming.AtHome(f, e.Name, refs) != "" {
			continue
		}
		one := Running{Environment: e.Name, Branch: f.EnvironmentBranch(e.Name)}
		one.Tip = refs[one.Branch]
		if !one.Tip.IsZero() {
			st, err := h.EnvironmentState(ctx, f, e.Name, one.Tip)
			if err != nil {
				return nil, err
			}
			one.Since, one.Foreign = st.Tip.Committer.When, st.Foreign
			if st.Foreign != "" && len(e.After) == 0 {
				one.Resolve = resolve(h, e, st, rollout.Record{})
			}
			if source, err := gitstore.ParseHash(st.Record.Source); err == nil {
				one.Source = source
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// Line returns a commit and its ancestors by first parents, newest first: at most a number of them, and fewer in a
// shallow clone.
func Line(ctx context.Context, h *hydrate.Hydrator, tip gitstore.Commit, most int) ([]gitstore.Commit, error) {
	out := []gitstore.Commit{tip}
	for len(out) < most {
		last := out[len(out)-1]
		if len(last.Parents) == 0 {
			break
		}
		next, err := h.Store.Commit(ctx, last.Parents[0])
		if unknownHistory(err) {
			break
		}
		if err != nil {
			return nil, err
		}
		out = append(out, next)
	}
	return out, nil
}
