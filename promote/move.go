package promote

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/rollout"
)

// mover moves the branches of an environment and of its clusters forward.
type mover struct {
	*snapshot
	proposals *proposals
	pusher    *pusher
}

// environment commits the decided tree to the environment branch.
func (m *mover) environment(ctx context.Context, e fleet.Environment, a rollout.Action, out *Status) error {
	one, err := m.proposals.decided(ctx, e, a)
	if err != nil {
		return err
	}
	st := m.states[e.Name]
	author, err := m.trunk.author(ctx, a.Source.Commit)
	if err != nil {
		return err
	}
	msg := message{fmt.Sprintf("Promote %s to %s", a.Source, e.Name), m.trunk.bringing(st, a.Source), trailers(e, a, m.records.known[e.Name].Sequence)}
	if a.Renders {
		msg.subject = fmt.Sprintf("Render %s on %s again", a.Source, e.Name)
	}
	hash, err := m.pusher.commit(one.w, one.tree, st.Tip.Hash, author, msg)
	if err != nil {
		return err
	}
	if err := m.pusher.push(ctx, one.w, []gitstore.Move{{Branch: st.Branch, Old: st.Tip.Hash, New: hash}}); err != nil {
		return err
	}
	out.Tip, out.Source = hash.String(), a.Source
	done := fmt.Sprintf("%s has %s", st.Branch, a.Source)
	if a.Renders {
		done += ", rendered again"
	}
	if len(a.Inapplicable) > 0 {
		done += ", its first state, to which these gates do not apply: " + strings.Join(a.Inapplicable, ", ")
	}
	out.Done = append(out.Done, done)
	return nil
}

// wave moves cluster branches to the trees of the environment branch.
func (m *mover) wave(ctx context.Context, e fleet.Environment, a rollout.Action, s *rollout.Situation,
	out *Status,
) error {
	st := m.states[e.Name]
	if hashText(st.Tip.Hash) != a.Base {
		return &MovedError{st.Branch}
	}
	w, err := m.hydrator.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // pushed objects are in the repository
	moves, err := m.clusters(ctx, e, a, target{st.Clusters, st.Source(), w}, s, out)
	if err != nil {
		return err
	}
	if err := m.pusher.push(ctx, w, moves); err != nil {
		return err
	}
	what := "wave " + a.Wave
	if a.Wave == "" {
		what = "rollback"
	}
	out.Done = append(out.Done, fmt.Sprintf("%s: %s at %s", what, hydrate.Count(len(moves), "cluster branch"),
		st.Source()))
	return nil
}

// target is the state that cluster branches move to, and the writer of their commits.
type target struct {
	trees  map[string]gitstore.Hash
	source rollout.Source
	w      *gitstore.Writer
}

// clusters makes the commits of cluster branches. It leaves branches with foreign commits, and says so in out.
func (m *mover) clusters(ctx context.Context, e fleet.Environment, a rollout.Action, to target, s *rollout.Situation,
	out *Status,
) ([]gitstore.Move, error) {
	var moves []gitstore.Move
	for _, name := range a.Clusters {
		c, ok := m.fleet.Cluster(name)
		i := slices.IndexFunc(s.Clusters, func(c rollout.ClusterState) bool { return c.Name == name })
		if !ok || i < 0 || to.trees[name].IsZero() || s.Clusters[i].Tree == to.trees[name].String() {
			continue
		}
		if why := s.Clusters[i].Foreign; why != "" {
			out.Done = append(out.Done, "not moved: "+why)
			continue
		}
		runs := to.source.On(name)
		author, err := m.trunk.author(ctx, runs.Commit)
		if err != nil {
			return nil, err
		}
		ref := m.fleet.ClusterBranch(c)
		hash, err := m.pusher.commit(to.w, to.trees[name], m.refs[ref], author,
			message{fmt.Sprintf("%s on %s", runs, name), "", clusterTrailers(e, a, m.records.known[e.Name].Sequence, name, runs)})
		if err != nil {
			return nil, err
		}
		moves = append(moves, gitstore.Move{Branch: ref, Old: m.refs[ref], New: hash})
	}
	return moves, nil
}
