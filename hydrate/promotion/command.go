package promotion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// commands applies what people ask for, and says whether that changed anything.
func (p *promotion) commands(ctx context.Context, e fleet.Environment, s *promote.Situation, out *Status) (bool, error) {
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
		next, err := p.apply(ctx, e, c, s)
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

// apply is the record after a command. One that was done already changes nothing, whatever has become of the environment since.
func (p *promotion) apply(ctx context.Context, e fleet.Environment, c Command, s *promote.Situation) (promote.Record, error) {
	if c.ID != "" && slices.Contains(s.Record.Handled, c.ID) {
		return s.Record, nil
	}
	event, err := p.event(ctx, e, c, s)
	if err != nil {
		return s.Record, err
	}
	return promote.Apply(s.Record, event)
}

// event makes a command complete: it binds it to commits and trees.
func (p *promotion) event(ctx context.Context, e fleet.Environment, c Command, s *promote.Situation) (promote.Event, error) {
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
		event.Source, event.Said = source, c.Said
		return event, err
	case promote.EventApprove:
		if tree, err := promote.Hurried(*s); err != nil || tree != "" {
			event.Tree = tree
			return event, err
		}
		next, err := promote.Next(*s)
		if err != nil {
			return event, err
		}
		if next == nil {
			return event, fmt.Errorf("there is nothing to approve in %s", e.Name)
		}
		candidate, err := p.candidate(ctx, e.Name, next.Source)
		if err != nil {
			return event, err
		}
		if !c.Said.IsZero() && !seen(s.Record, candidate.Tree, c.Said) {
			return event, fmt.Errorf("what would go into %s is %s now, which came after this was said: look at it, and approve again", e.Name, next.Source)
		}
		event.Tree = candidate.Tree
	case promote.EventRollback:
		to, err := p.earlier(ctx, e.Name, c.Revision)
		if err != nil {
			return event, err
		}
		event.To, event.Source = *to, s.Running.Source
		return event, p.checkRollback(ctx, e, c, s, to.Tree)
	}
	return event, nil
}

// seen says whether somebody who wrote at a time could mean a tree: what was asked for by then, or what was offered by then.
func seen(r promote.Record, tree string, said time.Time) bool {
	if q := r.Request; q != nil { // it is bound to a commit
		asked := q.Said
		if asked.IsZero() {
			asked = q.At
		}
		return !said.Before(asked)
	}
	return r.Offered.Is(tree) && !said.Before(r.Offered.At)
}

// wave are the clusters of a wave, by its name.
func (*promotion) wave(e fleet.Environment, name string, s *promote.Situation) ([]string, error) {
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
	return nil, fmt.Errorf("%s has no wave %q with clusters: there are %s", e.Name, name, strings.Join(names, ", "))
}

// checkNames refuses apps and clusters that the environment does not have: a name that is written wrong must not pass for done.
func (p *promotion) checkNames(ctx context.Context, e fleet.Environment, c Command) error {
	f := p.fleet
	for _, name := range c.Clusters {
		cluster, ok := f.Cluster(name)
		switch {
		case !ok:
			return fmt.Errorf("there is no cluster %q in the fleet", name)
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
	for _, tree := range p.states[e.Name].Clusters { // what is gone from the trunk may still run
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

// checkRollback refuses a rollback of clusters that cannot be done: a cluster that was not there would lose all it has.
func (p *promotion) checkRollback(ctx context.Context, e fleet.Environment, c Command, s *promote.Situation, tree string) error {
	if len(c.Clusters) == 0 {
		return nil
	}
	old, err := p.stateOf(ctx, e.Name, tree)
	if err != nil {
		return err
	}
	frozen := 0
	for _, name := range c.Clusters {
		if old.Clusters[name].IsZero() {
			return fmt.Errorf("cluster %s was not there in that state of %s: name a later one with --to, which `sluice history %s` shows", name, e.Name, e.Name)
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

// promoted finds the source that a promotion is about.
func (p *promotion) promoted(c Command, s *promote.Situation) (promote.Source, error) {
	switch {
	case c.Revision != "":
		for _, commit := range slices.Backward(p.trunk) {
			if strings.HasPrefix(commit, c.Revision) && len(c.Revision) >= leastDigits {
				return promote.Source{Commit: commit}, nil
			}
		}
		return promote.Source{}, fmt.Errorf("%s is no commit of the trunk that an environment before could run: give at least seven digits of its id", c.Revision)
	case c.From != "":
		for _, b := range s.Before {
			if b.Name == c.From {
				return b.Source, nil
			}
		}
		return promote.Source{}, fmt.Errorf("%s does not come before %s: spec.environments says what does", c.From, c.Environment)
	}
	latest := promote.Latest(p.trunk, s.Before)
	if latest.Empty() {
		return latest, errors.New("the environments before run nothing yet")
	}
	return latest, nil
}

const (
	maxHistory  = 1_000
	leastDigits = 7 // of a commit's id
)

// earlier finds a state that the environment had: the last one with another tree than now, or the one of a source commit.
func (p *promotion) earlier(ctx context.Context, environment, revision string) (*promote.Ran, error) {
	entries, err := history(ctx, p.h, p.states[environment].Tip, maxHistory)
	if err != nil {
		return nil, err
	}
	now := p.states[environment].Tip.Tree
	if revision != "" && len(revision) < leastDigits {
		return nil, fmt.Errorf("%q may mean many commits: give at least %d digits of its id", revision, leastDigits)
	}
	for _, e := range entries {
		if e.Tree == now {
			continue
		}
		if revision == "" || strings.HasPrefix(e.Source.Commit, revision) || strings.HasPrefix(e.Commit.String(), revision) {
			st, err := p.stateOf(ctx, environment, e.Tree.String())
			if err != nil {
				return nil, err
			}
			st.Tip.Hash = e.Commit // it is there
			return &promote.Ran{Source: sourceOf(st), Tree: e.Tree.String(), At: e.At}, nil
		}
	}
	if revision == "" {
		return nil, errors.New("there is no earlier state")
	}
	return nil, fmt.Errorf("%s never ran %s: `sluice history %s` shows what it ran", environment, revision, environment)
}

// Aim points a freeze or its end at an environment or a cluster.
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
