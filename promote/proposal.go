package promote

import (
	"context"
	"fmt"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/rollout"
)

// proposals finds what is promoted next, and renders and judges it.
type proposals struct {
	*snapshot
	evidence *evidence
	authors  *authors
	composed *compositions
	merged   *mergedCheck
	// Of the environment at hand:
	proposed *rollout.Proposal // of which complete added the candidate; nil if there is none
	recalled bool              // an earlier pass rendered the candidate
}

// complete adds to a situation what matters only for a promotion that is due: statuses, checks, the candidate, its
// policy.
func (p *proposals) complete(ctx context.Context, e fleet.Environment, s *rollout.Situation) error {
	p.proposed, p.recalled = nil, false
	if !p.due(s) {
		return nil
	}
	if err := p.evidence.collect(ctx, e, s); err != nil {
		return err
	}
	_, err := p.authors.expedition(ctx, e, s)
	if err != nil {
		return err
	}
	if s.Without, err = p.without(ctx, e, s); err != nil {
		return err
	}
	next, err := p.next(ctx, e, s)
	if err != nil || next == nil || s.Running.Foreign != "" {
		return err
	}
	p.proposed = next
	if err := p.propose(ctx, e, s, next, true); err != nil {
		return err
	}
	s.Facts, err = p.facts(ctx, e, next, s.Candidate)
	return err
}

// propose adds the candidate of a proposal to a situation. With recall, an earlier pass may have rendered it.
func (p *proposals) propose(ctx context.Context, e fleet.Environment, s *rollout.Situation, next *rollout.Proposal,
	recall bool,
) error {
	one, err := p.rendering(ctx, e.Name, next.Source, next.Renders, recall)
	if err != nil {
		return err
	}
	if s.Candidate, err = p.candidate(ctx, e.Name, next, s.Record.Request, one); err != nil ||
		s.Candidate.Blocked != "" {
		return err
	}
	s.Candidate.Blocked, err = p.brings(ctx, e, next, s.Candidate)
	return err
}

// due reports whether something can be promoted or is under way, so that more than Git matters.
func (p *proposals) due(s *rollout.Situation) bool {
	r := s.Record
	busy := r.Progress != nil && r.Progress.Done.IsZero() || r.Rollback != nil || r.Request != nil || r.Opened != nil
	return busy || rollout.RenderedUpstream(*s) || !rollout.Latest(s.Trunk, s.Before).Equal(s.Running.Source)
}

// next returns the next promotion. It finds out which described clusters it changes, which move wave by wave.
func (p *proposals) next(ctx context.Context, e fleet.Environment, s *rollout.Situation) (*rollout.Proposal, error) {
	next, err := p.whole(ctx, e, s)
	if err != nil || next == nil || next.Entire.Empty() || s.Running.Foreign != "" {
		return next, err
	}
	if s.Entire, err = p.entire(ctx, e, s, next); err != nil {
		return nil, err
	}
	return rollout.Next(*s)
}

// whole returns the next promotion, with all described clusters that may change. It finds out what red workspaces have that it leaves out, and compares the promoted
// commits with those that holds name.
func (p *proposals) whole(ctx context.Context, e fleet.Environment, s *rollout.Situation) (*rollout.Proposal, error) {
	next, err := rollout.Next(*s)
	if err == nil && next != nil && next.Refused != "" && s.Running.Foreign == "" && s.Running.Tree != "" {
		if s.LeftOut, err = p.leftOut(ctx, e, next); err != nil {
			return nil, err
		}
		next, err = rollout.Next(*s)
	}
	if err != nil || next == nil || len(next.Held)+len(next.Returns) == 0 || s.Running.Foreign != "" {
		return next, err
	}
	full, err := p.compose(ctx, e.Name, next.Promoted, false)
	if err != nil {
		return nil, err
	}
	if full.failure != "" {
		return next, nil // everything stays held
	}
	past := p.past[e.Name]
	if err := past.add(ctx, full.tree); err != nil {
		return nil, err
	}
	s.Changes, err = rollout.ChangesOf(s.Record, next.Promoted, full.tree.String(), s.Running.Tree,
		p.states[e.Name].ClusterNames(), past.read(ctx))
	if err != nil {
		return nil, err
	}
	return rollout.Next(*s)
}

// compose renders a source for an environment on top of what its branch holds. With again, it takes nothing from there.
func (p *proposals) compose(ctx context.Context, environment string, source rollout.Source, again bool) (*composition,
	error,
) {
	if i := p.imports[environment]; i != nil {
		return p.composed.given(environment, source, p.clusterNames(environment), again, i)
	}
	return p.composed.compose(ctx, hydrate.Composition{
		Environment: environment, Running: p.states[environment], Commits: p.trunk.commits,
		All: again || p.foreign(environment),
	}, source)
}

// clusterNames lists the clusters of an environment by the fleet.
func (p *proposals) clusterNames(environment string) []string {
	var out []string
	for _, c := range p.fleet.ClustersOf(environment) {
		out = append(out, c.Name)
	}
	return out
}

// decided renders the decided source again, and fails if the tree differs now: only the approved tree may reach the
// branch. It fails as well if the trunk no longer has a commit of the source.
func (p *proposals) decided(ctx context.Context, e fleet.Environment, a rollout.Action) (*composition, error) {
	if p.imports[e.Name] == nil {
		if reason, err := p.merged.recheck(ctx, p.states[e.Name].Source(), a.Source); err != nil {
			return nil, err
		} else if reason != "" {
			return nil, &MovedError{reason}
		}
	}
	one, err := p.compose(ctx, e.Name, a.Source, a.Renders)
	if err != nil {
		return nil, err
	}
	switch {
	case one.failure != "":
		return nil, fmt.Errorf("%s was decided on and cannot be rendered now, so nothing moved: %s", a.Source,
			one.failure)
	case one.tree.String() != a.Tree:
		return nil, fmt.Errorf("%s was decided on and renders to another tree now, so nothing moved", a.Source)
	}
	return one, nil
}
