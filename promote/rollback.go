package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/rollout"
)

// rollbacks restores earlier states.
type rollbacks struct {
	*snapshot
	mover    *mover
	pusher   *pusher
	recorder *recorder
}

// carryOut restores an earlier state of the environment, of clusters or of apps. It renders nothing. The clusters in
// its scope move at once, with the environment branch; clusters that the rollout under way had not reached keep what
// they run.
func (b *rollbacks) carryOut(ctx context.Context, e fleet.Environment, a rollout.Action, s *rollout.Situation,
	out *Status,
) error {
	st := b.states[e.Name]
	if hashText(st.Tip.Hash) != a.Base {
		return &MovedError{st.Branch}
	}
	hash, err := gitstore.ParseHash(a.Tree)
	if err != nil {
		return err
	}
	old, err := b.past[e.Name].state(ctx, hash)
	if errors.Is(err, rollout.ErrNoTree) {
		return b.drop(ctx, e, err, out)
	}
	if err != nil {
		return err
	}
	w, err := b.hydrator.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // what was pushed is on the branches
	tree, source := hash, old.Source()
	if a.Keeps, err = rollout.KeptApps(*s, st.Tip.Tree.String(), a.Tree, st.ClusterNames(), b.past[e.Name].read(ctx)); err != nil {
		return err
	}
	if len(a.Clusters)+len(a.Apps)+len(a.Keeps) > 0 {
		tree, source, err = b.restore(ctx, e, a, old, w)
		if errors.Is(err, rollout.ErrNoTree) {
			return b.drop(ctx, e, err, out)
		}
		if err != nil {
			return err
		}
	}
	upgrades, err := b.mover.proposals.upgrades(ctx, e.Name, source)
	if err != nil {
		return err
	}
	if _, skips := skipsMinor(upgrades); skips != "" {
		return b.drop(ctx, e, errors.New(skips), out)
	}
	if a.Continues != "" && tree.String() != a.Continues {
		return b.drop(ctx, e, fmt.Errorf("the state without workspace %s is another one than was judged",
			rollout.Few(a.Workspaces)), out)
	}
	after, err := branch.ReadTree(ctx, b.hydrator.Store, tree)
	if err != nil {
		return err
	}
	a.Source = source
	var moves []gitstore.Move
	scope := a
	scope.Clusters = inScope(a, after, s)
	if s.Site == nil { // else the site moves them
		if moves, err = b.mover.clusters(ctx, e, scope, target{after.Clusters, source, w}, s, out); err != nil {
			return err
		}
	}
	if tree != st.Tip.Tree {
		commit, err := b.pusher.commit(w, tree, st.Tip.Hash, b.request.Trunk,
			message{rollbackSubject(e, a), a.Reason, trailers(e, a, b.records.known[e.Name].Sequence)})
		if err != nil {
			return err
		}
		moves = append(moves, gitstore.Move{Branch: st.Branch, Old: st.Tip.Hash, New: commit})
		out.Tip, out.Source = commit.String(), source
	}
	if err := b.pusher.push(ctx, w, moves); err != nil {
		return err
	}
	out.Done = append(out.Done, rollbackReport(e, a, old, scope.Clusters)...)
	if s.Site != nil {
		out.Done = append(out.Done, st.Branch+" has it; its site moves the clusters")
	}
	return b.recorder.apply(ctx, e.Name, rollout.Event{
		Kind: rollout.EventRolledBack, Source: source,
		Tree: tree.String(), Clusters: scope.Clusters,
	})
}

// drop ends a rollback whose trees are no longer in the history of the branch: no later pass could do it. The
// environment halts, and its status says why.
func (b *rollbacks) drop(ctx context.Context, e fleet.Environment, cause error, out *Status) error {
	reason := fmt.Sprintf("%v; choose a state of `%s` with --to", cause, "sluice history "+e.Name)
	if err := b.recorder.apply(ctx, e.Name, rollout.Event{
		Kind:   rollout.EventRollbackDropped,
		Reason: reason,
	}); err != nil {
		return err
	}
	out.Done = append(out.Done, "halted: "+b.records.known[e.Name].Halt.Reason)
	return nil
}

// inScope returns the clusters that move now: those that the rollback names and that are not frozen.
func inScope(a rollout.Action, after *branch.State, s *rollout.Situation) []string {
	var out []string
	for _, c := range s.Clusters {
		named := len(a.Clusters) == 0 || slices.Contains(a.Clusters, c.Name)
		stopped := slices.Contains(a.Stopped, c.Name) && !slices.Contains(a.Clusters, c.Name)
		if named && !stopped && !slices.Contains(a.Later, c.Name) && !slices.Contains(a.Frozen, c.Name) &&
			c.State != "retired" && !after.Clusters[c.Name].IsZero() {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return out
}

// scopeOf names the scope of a rollback: "prod", "workspace team-a, team-b/shop on prod", "wave canary of prod".
func scopeOf(e fleet.Environment, a rollout.Action) string {
	out := e.Name
	switch {
	case a.Wave != "":
		out = "wave " + a.Wave + " of " + e.Name
	case len(a.Clusters) > 0:
		out = strings.Join(a.Clusters, ", ") + " of " + e.Name
	}
	if scope := (rollout.Scope{Apps: a.Apps, Workspaces: a.Workspaces}); !scope.All() {
		out = scope.String() + " on " + out
	}
	return out
}

func rollbackSubject(e fleet.Environment, a rollout.Action) string {
	return safetext.Shorten(fmt.Sprintf("Roll %s back to %s", scopeOf(e, a), a.Source), 100)
}

func rollbackReport(e fleet.Environment, a rollout.Action, old *branch.State, moved []string) []string {
	to := old.Source().String()
	if len(a.Clusters) > 0 && len(a.Apps) == 0 {
		to = old.Source().On(a.Clusters[0]).String()
	}
	plural := a.Wave == "" && len(a.Clusters) > 1
	if scope := (rollout.Scope{Apps: a.Apps, Workspaces: a.Workspaces}); !scope.All() {
		plural = scope.Plural()
	}
	verb := "is"
	if plural {
		verb = "are"
	}
	out := []string{fmt.Sprintf("%s %s back at %s (%s)", scopeOf(e, a), verb, to, hydrate.Count(len(moved), "cluster"))}
	if a.Continues != "" {
		out = append(out, "the rollout continues without these changes: "+a.Reason)
	}
	if len(a.Keeps) > 0 {
		out = append(out, "frozen, so they stay as they are: "+rollout.Few(a.Keeps))
	}
	if len(a.Stopped) > 0 {
		out = append(out, "the rollout stops; not reached, and unchanged: "+strings.Join(a.Stopped, ", "))
	}
	return out
}

// runs returns the tree that a cluster runs; zero if a site moves it, and no receipt says what it has.
func (b *snapshot) runs(ctx context.Context, environment string, c *fleet.Cluster) (gitstore.Hash, error) {
	site := b.sites[environment]
	if site == nil {
		commit, err := b.hydrator.Store.Commit(ctx, b.refs[b.fleet.ClusterBranch(c)])
		return commit.Tree, err
	}
	one := site.on(c.Name)
	if one == nil || one.Branch.Tree == "" {
		return gitstore.Hash{}, nil
	}
	return gitstore.ParseHash(one.Branch.Tree)
}

// restore takes the named clusters and apps from an earlier state, stopped clusters from the state that they run, and
// everything else from the current state. The record names the source commits of each part.
func (b *snapshot) restore(ctx context.Context, e fleet.Environment, a rollout.Action, old *branch.State,
	w *gitstore.Writer,
) (gitstore.Hash, rollout.Source, error) {
	st := b.states[e.Name]
	tips, runs := map[string]*branch.State{}, map[string]rollout.ClusterSource{}
	for _, name := range a.Stopped {
		c, ok := b.fleet.Cluster(name)
		if !ok {
			continue
		}
		tree, err := b.runs(ctx, e.Name, c)
		if err != nil {
			return gitstore.Hash{}, rollout.Source{}, err
		}
		if tree.IsZero() { // a site that says nothing of it
			continue
		}
		if tips[name], err = b.past[e.Name].with(ctx, name, tree); err != nil {
			return gitstore.Hash{}, rollout.Source{}, err
		}
		runs[name] = tips[name].Source().On(name)
	}
	of := func(cluster, app string) *branch.State {
		named := len(a.Clusters) == 0 || slices.Contains(a.Clusters, cluster)
		if len(a.Keeps) > 0 && (slices.Contains(a.Keeps, app) || old.Clusters[cluster].IsZero()) {
			return st
		}
		if named && (len(a.Apps) == 0 || slices.Contains(a.Apps, app)) {
			return old
		}
		if one := tips[cluster]; one != nil {
			return one
		}
		return st
	}
	source := rollout.RestoredSource(st.Source(), a, old.Source(), runs, st.ClusterNames()).WithoutGaps()
	tree, err := b.hydrator.Assemble(ctx, hydrate.Recipe{
		Environment: e.Name, Source: source, Base: st, Apps: slices.Concat(a.Apps, a.Keeps),
		Of: of,
	}, w)
	return tree, source, err
}
