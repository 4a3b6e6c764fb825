// Package announce notifies receivers of the branches that a push of a session moved.
//
// The package is not API: it can change in every release.
package announce

import (
	"context"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/service/notify"
)

// Func notifies receivers of the branches that one push moved.
type Func func(ctx context.Context, repository string, moves []notify.Move)

// Pushes returns a session that calls announce after each push that moved branches of the fleet of a tree. If the fleet
// cannot be read, nothing will be pushed, and Pushes returns the same session.
func Pushes(ctx context.Context, s *session.Session, tree gitstore.Hash, announce Func) *session.Session {
	f, _, err := s.Fleet(ctx, tree)
	if err != nil {
		return s // the caller that reads the fleet reports its problems
	}
	return s.WithBranches(announcing{s.Branches, f, announce})
}

// announcing calls announce after each push.
type announcing struct {
	gitstore.Branches
	fleet    *fleet.Fleet
	announce Func
}

// Push implements gitstore.Branches.
func (a announcing) Push(ctx context.Context, w *gitstore.Writer, moves []gitstore.Move,
	o gitstore.PushOptions,
) ([]gitstore.MoveResult, error) {
	results, err := a.Branches.Push(ctx, w, moves, o)
	if moved := a.moved(results); len(moved) > 0 {
		a.announce(ctx, a.String(), moved)
	}
	return results, err
}

// moved returns the fleet's branches that a push updated.
func (a announcing) moved(results []gitstore.MoveResult) []notify.Move {
	names := map[string]notify.Move{}
	for _, e := range a.fleet.Spec.Environments {
		branch := a.fleet.EnvironmentBranch(e.Name)
		names[branch] = notify.Move{Branch: branch, Environment: e.Name}
	}
	for _, c := range a.fleet.Clusters {
		branch := a.fleet.ClusterBranch(c)
		names[branch] = notify.Move{Branch: branch, Environment: c.Environment, Cluster: c.Name}
	}
	var out []notify.Move
	for _, r := range results {
		m, known := names[r.Branch]
		if !known || r.State != gitstore.Updated || r.New.IsZero() {
			continue
		}
		if m.After = r.New.String(); !r.Old.IsZero() {
			m.Before = r.Old.String()
		}
		out = append(out, m)
	}
	return out
}
