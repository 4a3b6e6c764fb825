package promote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/rollout"
)

// checkPromotion refuses a promotion that would change nothing, and a part of one where nothing runs yet.
func checkPromotion(c Command, source rollout.Source, s *rollout.Situation) error {
	if len(c.Apps) > 0 && s.Running.Source.Empty() {
		return fmt.Errorf("%s runs nothing yet, so it cannot take only some apps: promote without --app and --workspace first", c.Environment)
	}
	if c.Revision == "" || !rollout.Contains(s.Trunk, s.Running.Source, source, c.Apps) {
		return nil
	}
	if p := s.Record.Progress; c.Now && p != nil && p.Done.IsZero() {
		return nil // it expedites the rollout under way
	}
	return fmt.Errorf("%s runs %s, which contains %.10s already; to go back to it, roll back with --to %.10s",
		c.Environment, s.Running.Source, source.Commit, source.Commit)
}

// checkReturns refuses a promotion that brings back what was rolled back, unless it says why.
func (l *commands) checkReturns(ctx context.Context, e fleet.Environment, event rollout.Event,
	s *rollout.Situation,
) error {
	if err := checkRollback(s); err != nil {
		return err
	}
	if event.Again != "" || len(s.Record.Holds) == 0 {
		return nil
	}
	requested := *s
	var err error
	if requested.Record, err = rollout.Apply(s.Record, event); err != nil {
		return err
	}
	next, err := l.proposals.next(ctx, e, &requested)
	if err != nil || next == nil || len(next.Returns) == 0 {
		return err
	}
	if requested.Changes == nil && s.Running.Foreign == "" { // without a rendering, nobody knows what it brings back
		composed, err := l.proposals.compose(ctx, e.Name, next.Promoted, false)
		if err != nil {
			return err
		}
		if composed.failure != "" {
			return fmt.Errorf("%s cannot be rendered, so nobody knows whether it brings back what was rolled back: %s",
				next.Promoted, composed.failure)
		}
	}
	return errors.New(requested.ReturnsText(*next))
}

// checkRendered refuses the tree that the upstream rendered again, unless it says why, after a rollback: the tree may be the one
// that was rolled back.
func checkRendered(event rollout.Event, s *rollout.Situation) error {
	if err := checkRollback(s); err != nil {
		return err
	}
	if event.Again != "" || len(s.Record.Holds) == 0 && !s.Running.Restores {
		return nil
	}
	held := []string{fmt.Sprintf("%s was rolled back to another rendering of %s", s.Environment.Name, s.Running.Source)}
	for _, h := range s.Record.Holds {
		held = append(held, h.String())
	}
	return fmt.Errorf("%s rendered it again, which may bring back what was rolled back: %s (`%s promote %s --again REASON` brings it)",
		s.Before[0].Name, strings.Join(held[min(len(held)-1, 1):], "; "), cmp.Or(s.CommandPrefix, "/sluice"), s.Environment.Name)
}

// checkRollback refuses a promotion while a rollback is under way.
func checkRollback(s *rollout.Situation) error {
	if b := s.Record.Rollback; b != nil {
		return fmt.Errorf("the rollback to %s by %s is not complete, so nobody knows yet what it holds back: promote afterwards",
			b.To, cmp.Or(b.By, "Sluice"))
	}
	return nil
}

// waveMembers returns the clusters of a wave by its name.
func waveMembers(e fleet.Environment, name string, s *rollout.Situation) ([]string, error) {
	members := make([]rollout.Cluster, 0, len(s.Clusters))
	for _, c := range s.Clusters {
		members = append(members, c.Cluster)
	}
	waves, err := rollout.Waves(e, members)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(waves))
	for _, w := range waves {
		if w.Name != name {
			names = append(names, w.Name)
			continue
		}
		if len(w.Clusters()) == 0 {
			return nil, fmt.Errorf("wave %s of %s has no clusters", name, e.Name)
		}
		return w.Clusters(), nil
	}
	return nil, fmt.Errorf("%s has no wave %q%s", e.Name, name, instead(name, "it", names))
}

// checkClusters refuses clusters that the environment does not have, so that a misspelt name does not look like
// success.
func (l *commands) checkClusters(e fleet.Environment, c Command) error {
	for _, name := range c.Clusters {
		cluster, ok := l.fleet.Cluster(name)
		switch {
		case !ok:
			return fmt.Errorf("the fleet has no cluster %q%s", name,
				instead(name, e.Name, namesOf(l.fleet.ClustersOf(e.Name))))
		case cluster.Environment != e.Name:
			return fmt.Errorf("cluster %s belongs to %s, not to %s", name, cluster.Environment, e.Name)
		}
	}
	return nil
}

// checkRollback refuses a rollback of clusters that did not exist in that state, since it would empty them, and a
// rollback whose clusters are all frozen.
func (l *commands) checkRollback(ctx context.Context, e fleet.Environment, c Command, s *rollout.Situation,
	tree string,
) error {
	if len(c.Clusters) == 0 {
		return nil
	}
	old, err := l.past[e.Name].stateOf(ctx, tree)
	if err != nil {
		return err
	}
	frozen := 0
	for _, name := range c.Clusters {
		if old.Clusters[name].IsZero() {
			return fmt.Errorf("cluster %s did not exist in that state of %s: name a later one with --to (`sluice history %s` lists them)", name, e.Name, e.Name)
		}
		held := slices.ContainsFunc(s.Record.Freezes, func(f rollout.Freeze) bool {
			return f.Target == name &&
				f.Holds(l.request.Now)
		})
		if cluster, ok := l.fleet.Cluster(name); held || ok && cluster.Frozen() {
			frozen++
		}
	}
	if frozen == len(c.Clusters) {
		return fmt.Errorf("%s is frozen: unfreeze it first", strings.Join(c.Clusters, ", "))
	}
	return nil
}

// checkStopped refuses a rollback that would stop clusters on trees that no state of the environment has: the record
// could not name the source commits of these trees.
func (l *commands) checkStopped(ctx context.Context, environment string, stopped []string, s *rollout.Situation) error {
	for _, c := range s.Clusters {
		if !slices.Contains(stopped, c.Name) {
			continue
		}
		tree, err := gitstore.ParseHash(c.Tree)
		if err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		if _, err := l.past[environment].with(ctx, c.Name, tree); err != nil {
			return fmt.Errorf("%w: roll back the whole environment", err)
		}
	}
	return nil
}
