package promotion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// commands applies the commands of an environment, and reports whether they changed its record.
func (p *pass) commands(ctx context.Context, e fleet.Environment, s *promote.Situation, out *Status) (bool, error) {
	changed := false
	for _, c := range p.r.Commands {
		if c.Environment != e.Name {
			continue
		}
		if !c.CLI {
			if ok, why := promote.Allowed(e, c.Verb, c.Person); !ok {
				out.Refused = append(out.Refused, why)
				continue
			}
			if c.Now {
				if ok, why := promote.Allowed(e, "now", c.Person); !ok {
					out.Refused = append(out.Refused, why)
					continue
				}
			}
		}
		next, err := p.commanded(ctx, e, c, s)
		if err == nil {
			s.Record, changed = next, true
			continue
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		out.Refused = append(out.Refused, err.Error())
	}
	return changed, nil
}

// commanded is the record after a command. A command that was applied before has no effect, whatever happened to the
// environment since.
func (p *pass) commanded(ctx context.Context, e fleet.Environment, c Command, s *promote.Situation) (promote.Record, error) {
	if c.ID != "" && slices.Contains(s.Record.Handled, c.ID) {
		return s.Record, nil
	}
	event, err := p.event(ctx, e, c, s)
	if err != nil {
		return s.Record, err
	}
	return promote.Apply(s.Record, event)
}

// event completes a command: it binds it to commits, trees and clusters.
func (p *pass) event(ctx context.Context, e fleet.Environment, c Command, s *promote.Situation) (promote.Event, error) {
	event := c.Event
	event.By = cmp.Or(event.By, c.Person.User)
	event.Teams = c.Person.Teams
	if event.At.IsZero() {
		event.At = p.r.Now
	}
	if c.Wave != "" {
		members, err := p.wave(e, c.Wave, s)
		if err != nil {
			return event, err
		}
		c.Clusters = append(slices.Clone(c.Clusters), members...)
		event.Clusters = c.Clusters
	}
	if err := p.checkNames(ctx, e, c); err != nil {
		return event, err
	}
	switch event.Kind {
	case promote.EventPromote:
		source, err := p.promoted(c, s)
		if err == nil {
			err = p.checkPromotion(c, source, s)
		}
		event.Source, event.Said = source, c.Said
		return event, err
	case promote.EventApprove:
		return p.approval(ctx, e, c, s, event)
	case promote.EventResume:
		for _, cluster := range s.Clusters {
			event.Members = append(event.Members, cluster.Name)
		}
	case promote.EventRollback:
		to, err := p.target(ctx, c, s)
		if err != nil {
			return event, err
		}
		event.To, event.Source, event.Tree = *to, s.Running.Source, s.Running.Tree
		if len(c.Clusters)+len(c.Apps) > 0 {
			if event.Stopped, err = promote.Unreached(*s, c.Clusters, c.Apps); err != nil {
				return event, err
			}
		}
		if err := p.checkStopped(ctx, e.Name, event.Stopped, s); err != nil {
			return event, err
		}
		return event, p.checkRollback(ctx, e, c, s, to.Tree)
	}
	return event, nil
}

// approval binds an approval to the tree that waits for it: to the rollout under way if somebody asks to expedite it, or else to
// the proposal. It refuses an approval that would not count, or that was written before its tree was offered.
func (p *pass) approval(ctx context.Context, e fleet.Environment, c Command, s *promote.Situation, event promote.Event) (promote.Event, error) {
	x, err := p.expedition(ctx, e, s)
	if err != nil {
		return event, err
	}
	if x != nil {
		if !c.Said.IsZero() && c.Said.Before(x.At) {
			return event, fmt.Errorf("%s asked to expedite the rollout of %s after this was said: look at it, and approve again", x.By, s.Running.Source)
		}
		event.Tree = x.Tree
		return event, counts(*s, event, s.Running.Authors)
	}
	if err := p.evidence(ctx, e, s); err != nil { // without it, another commit may seem to be next
		return event, err
	}
	next, err := p.proposal(ctx, e, s)
	if err != nil {
		return event, err
	}
	if next == nil {
		return event, fmt.Errorf("nothing in %s waits for an approval: it runs %s", e.Name, s.Running.Source)
	}
	candidate, err := p.candidate(ctx, e.Name, next.Source)
	if err != nil {
		return event, err
	}
	if !c.Said.IsZero() && !promote.WasSeen(s.Record, candidate.Tree, c.Said) {
		return event, fmt.Errorf("%s would now get %s, which came after this was said: look at it, and approve again", e.Name, next.Source)
	}
	event.Tree = candidate.Tree
	return event, counts(*s, event, candidate.Authors)
}

// counts returns an error if an approval would not count.
func counts(s promote.Situation, event promote.Event, authors []string) error {
	why, err := promote.CountsNot(s, event.By, event.Teams, authors)
	if err == nil && why != "" {
		err = fmt.Errorf("the approval of %s does not count: %s", event.By, why)
	}
	return err
}

// checkPromotion refuses a promotion that would change nothing.
func (*pass) checkPromotion(c Command, source promote.Source, s *promote.Situation) error {
	if c.Revision == "" || !promote.Contains(s.Trunk, s.Running.Source, source, c.Apps) {
		return nil
	}
	if p := s.Record.Progress; c.Now && p != nil && p.Done.IsZero() {
		return nil // it expedites the rollout under way
	}
	return fmt.Errorf("%s runs %s, which contains %.10s already; to go back to it, roll back with --to %.10s", c.Environment, s.Running.Source, source.Commit, source.Commit)
}

// wave returns the clusters of a wave by its name.
func (*pass) wave(e fleet.Environment, name string, s *promote.Situation) ([]string, error) {
	members := make([]promote.Cluster, 0, len(s.Clusters))
	for _, c := range s.Clusters {
		members = append(members, c.Cluster)
	}
	waves, err := promote.Waves(e, members)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(waves))
	for _, w := range waves {
		if w.Name == name && len(w.Clusters()) > 0 {
			return w.Clusters(), nil
		}
		names = append(names, w.Name)
	}
	return nil, fmt.Errorf("%s has no wave %q with clusters: its waves are %s", e.Name, name, strings.Join(names, ", "))
}

// checkNames refuses apps and clusters that the environment does not have, so that a misspelt name is not taken for done.
func (p *pass) checkNames(ctx context.Context, e fleet.Environment, c Command) error {
	f := p.fleet
	for _, name := range c.Clusters {
		cluster, ok := f.Cluster(name)
		switch {
		case !ok:
			return fmt.Errorf("the fleet has no cluster %q", name)
		case cluster.Environment != e.Name:
			return fmt.Errorf("cluster %s belongs to %s, not to %s", name, cluster.Environment, e.Name)
		}
	}
	if len(c.Apps) == 0 {
		return nil
	}
	known := map[string]bool{}
	for _, cluster := range f.ClustersOf(e.Name) {
		for _, t := range f.TargetsOf(cluster) {
			known[t.App.Name] = true
		}
	}
	for _, tree := range p.states[e.Name].Clusters { // an app that the trunk has no more may still run
		entries, err := p.h.Store.Tree(ctx, tree)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			known[entry.Name] = true
		}
	}
	for _, app := range c.Apps {
		if !known[app] {
			return fmt.Errorf("no cluster of %s has an app %q", e.Name, app)
		}
	}
	return nil
}

// checkRollback refuses a rollback of clusters that did not exist in that state, since it would empty them, or that are all
// frozen.
func (p *pass) checkRollback(ctx context.Context, e fleet.Environment, c Command, s *promote.Situation, tree string) error {
	if len(c.Clusters) == 0 {
		return nil
	}
	hash, err := gitstore.ParseHash(tree)
	if err != nil {
		return err
	}
	old, err := p.past[e.Name].state(ctx, hash)
	if err != nil {
		return err
	}
	frozen := 0
	for _, name := range c.Clusters {
		if old.Clusters[name].IsZero() {
			return fmt.Errorf("cluster %s did not exist in that state of %s: name a later one with --to (`sluice history %s` lists them)", name, e.Name, e.Name)
		}
		held := slices.ContainsFunc(s.Record.Freezes, func(f promote.Freeze) bool { return f.Target == name && f.Holds(p.r.Now) })
		if cluster, ok := p.fleet.Cluster(name); held || ok && cluster.State == "frozen" {
			frozen++
		}
	}
	if frozen == len(c.Clusters) {
		return fmt.Errorf("%s is frozen: unfreeze it first", strings.Join(c.Clusters, ", "))
	}
	return nil
}

// checkStopped refuses a rollback that would stop clusters whose trees no state of the environment has: nothing names the
// commits that they were rendered from.
func (p *pass) checkStopped(ctx context.Context, environment string, stopped []string, s *promote.Situation) error {
	for _, c := range s.Clusters {
		if !slices.Contains(stopped, c.Name) {
			continue
		}
		tree, err := gitstore.ParseHash(c.Tree)
		if err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
		if _, err := p.past[environment].with(ctx, c.Name, tree); err != nil {
			return fmt.Errorf("%w: roll back the whole environment", err)
		}
	}
	return nil
}

// promoted finds the source that a promotion brings.
func (p *pass) promoted(c Command, s *promote.Situation) (promote.Source, error) {
	switch {
	case c.Revision != "":
		for _, commit := range slices.Backward(p.trunk.order) {
			if strings.HasPrefix(commit, c.Revision) && len(c.Revision) >= leastDigits {
				return promote.Source{Commit: commit}, nil
			}
		}
		return promote.Source{}, fmt.Errorf("%s is not a commit of the remote's trunk in the range that is known here: give at least 7 digits of its id, and push it to the trunk first", c.Revision)
	case c.From != "":
		for _, b := range s.Before {
			if b.Name == c.From {
				return b.Source, nil
			}
		}
		return promote.Source{}, fmt.Errorf("%s does not come before %s: see spec.environments in sluice.yaml", c.From, c.Environment)
	}
	latest := promote.Latest(p.trunk.order, s.Before)
	if latest.Empty() {
		return latest, errors.New("the upstream environments run nothing yet")
	}
	return latest, nil
}

// target finds the state that a rollback goes to: the one that --to names, or the state before.
func (p *pass) target(ctx context.Context, c Command, s *promote.Situation) (*promote.PastState, error) {
	past, revision := p.past[c.Environment], c.Revision
	entries, err := past.history(ctx)
	if err != nil {
		return nil, err
	}
	valid := make([]HistoryEntry, 0, len(entries)) // what a damaged record names cannot be restored truthfully
	for i, e := range entries {
		if i == 0 || e.Source.Validate() == nil {
			valid = append(valid, e)
		}
	}
	if revision == "" {
		history := make([]promote.PastState, 0, len(valid))
		for _, e := range valid {
			history = append(history, e.state())
		}
		to, err := promote.RollbackTarget(*s, history, c.Clusters, c.Apps, past.read(ctx))
		return &to, err
	}
	return named(valid, s, c)
}

// state is an entry as promote has it.
func (e HistoryEntry) state() promote.PastState {
	return promote.PastState{Source: e.Source, Tree: e.Tree.String(), At: e.At}
}

// Aim sets the environment, and the cluster, that a freeze or its end is about.
func (c *Command) Aim(f *fleet.Fleet, target string) error {
	if _, ok := f.Environment(target); ok {
		c.Environment = target
	} else if cluster, ok := f.Cluster(target); ok {
		c.Environment, c.Target = cluster.Environment, cluster.Name
	} else {
		return fmt.Errorf("%q is neither an environment nor a cluster", target)
	}
	return nil
}
