package app

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sluice-gitops/sluice/cmd/internal/config"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/notify"
)

// announcing tells somebody of branches that moved.
type announcing struct {
	gitstore.Branches
	fleet *fleet.Fleet
	tell  func(ctx context.Context, repository string, moves []notify.Move)
}

// Push implements gitstore.Branches.
func (a announcing) Push(ctx context.Context, w *gitstore.Writer, moves []gitstore.Move, o gitstore.PushOptions) ([]gitstore.MoveResult, error) {
	results, err := a.Branches.Push(ctx, w, moves, o)
	names := map[string]notify.Move{}
	for _, e := range a.fleet.Spec.Environments {
		branch := a.fleet.EnvironmentBranch(e.Name)
		names[branch] = notify.Move{Branch: branch, Environment: e.Name}
	}
	for _, c := range a.fleet.Clusters {
		branch := a.fleet.ClusterBranch(c)
		names[branch] = notify.Move{Branch: branch, Environment: c.Environment, Cluster: c.Name}
	}
	var told []notify.Move
	for _, r := range results {
		m, ours := names[r.Branch]
		if !ours || r.State != gitstore.Updated || r.New.IsZero() {
			continue
		}
		if m.After = r.New.String(); !r.Old.IsZero() {
			m.Before = r.Old.String()
		}
		told = append(told, m)
	}
	if len(told) > 0 {
		a.tell(ctx, a.String(), told)
	}
	return results, err
}

// announce has receivers told of what is pushed from now on. tell is called for each push.
func (s *Session) announce(ctx context.Context, tree gitstore.Hash, tell func(ctx context.Context, repository string, moves []notify.Move)) error {
	f, _, err := s.Fleet(ctx, tree)
	if err != nil {
		return nil //nolint:nilerr // nothing will be pushed; whoever reads the fleet says why
	}
	s.Branches = announcing{s.Branches, f, tell}
	return nil
}

// Announce has the receivers of a file told of what is pushed from now on, before the push is reported. Failures go to warn.
func (s *Session) Announce(ctx context.Context, commit gitstore.Commit, file string, warn func(error)) error {
	data, err := os.ReadFile(file) //nolint:gosec // the user names it
	if err != nil {
		return fmt.Errorf("receivers: %w", err)
	}
	list, err := config.ParseReceivers(file, data, config.Sources{Getenv: s.env.Getenv, Read: os.ReadFile})
	if err != nil {
		return err
	}
	n := newNotifier(list)
	return s.announce(ctx, commit.Tree, func(ctx context.Context, repository string, moves []notify.Move) {
		if err := n.Tell(ctx, repository, moves); err != nil {
			warn(err)
		}
	})
}

func newNotifier(list []config.Receiver) *notify.Notifier {
	n := &notify.Notifier{Client: notify.NewClient(), UserAgent: "sluice/" + Version(), Wait: time.Second}
	for _, r := range list {
		n.Receivers = append(n.Receivers, notify.Receiver{Kind: notify.Kind(r.Kind), URL: r.URL, Secret: r.Secret.Bytes(), Clusters: r.Clusters})
	}
	return n
}
