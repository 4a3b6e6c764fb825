package promotion

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
)

// pass is one call of Look. Its fields are read once, at the beginning, but for records, which follows what the pass stores.
type pass struct {
	h        *hydrate.Hydrator
	r        Request
	fleet    *fleet.Fleet
	refs     map[string]gitstore.Hash
	records  *records
	states   map[string]*branch.State // by environment
	past     map[string]*past         // by environment
	trunk    *trunk
	statuses *statusCache
	composed *compositions
	merged   *mergedCheck
}

// newPass lists the branches, and reads what they hold.
func newPass(ctx context.Context, h *hydrate.Hydrator, r Request) (*pass, error) {
	f, _, err := h.Fleet(ctx, r.Trunk.Tree)
	if err != nil {
		return nil, err
	}
	p := &pass{
		h: h, r: r, fleet: f, states: map[string]*branch.State{}, past: map[string]*past{},
		merged:   &mergedCheck{h: h, name: f.Spec.Trunk},
		statuses: &statusCache{reader: r.Adapters.Statuses, known: map[string]statusAnswer{}}, composed: &compositions{h: h, done: map[string]*composition{}},
	}
	seen, err := h.Store.Seen(h.Branches, promote.StateBranch)
	if err != nil {
		return nil, err
	}
	if p.refs, err = h.Branches.List(ctx, append(f.BranchPrefixes(), promote.StateBranch, requestBranch(""))...); err != nil {
		return nil, err
	}
	var names []string
	for _, e := range f.Spec.Environments {
		if err := p.readState(ctx, e.Name); err != nil {
			return nil, err
		}
		names = append(names, e.Name)
	}
	tip := p.refs[promote.StateBranch]
	if !tip.IsZero() {
		if err := h.Branches.Fetch(ctx, tip); err != nil {
			return nil, err
		}
	}
	if p.records, err = readRecords(ctx, h.Store, tip, names); err != nil {
		return nil, err
	}
	if err := p.requireSigned(ctx, names); err != nil {
		return nil, err
	}
	if err := p.requireNewer(ctx, seen, names); err != nil {
		return nil, err
	}
	p.trunk, err = readTrunk(ctx, h.Store, r.Trunk, neededCommits(p.states, p.records.known))
	return p, err
}

func (p *pass) close() { p.composed.close() }

// readState fetches the branches of an environment and of its clusters.
func (p *pass) readState(ctx context.Context, environment string) error {
	ref := p.fleet.EnvironmentBranch(environment)
	var fetch []gitstore.Hash
	for _, c := range p.fleet.ClustersOf(environment) {
		if tip := p.refs[p.fleet.ClusterBranch(c)]; !tip.IsZero() {
			fetch = append(fetch, tip)
		}
	}
	if tip := p.refs[ref]; !tip.IsZero() {
		fetch = append(fetch, tip)
	}
	if err := p.h.Branches.Fetch(ctx, fetch...); err != nil {
		return err
	}
	st, err := branch.ReadState(ctx, p.h.Store, ref, environment, p.refs[ref], p.fleet.Signers())
	if err != nil {
		return err
	}
	p.states[environment], p.past[environment] = st, newPast(p.h, st)
	return nil
}

// environment looks at one environment.
func (p *pass) environment(ctx context.Context, e fleet.Environment) (*Status, error) {
	for _, name := range append([]string{e.Name}, e.After...) {
		if err := p.records.broken[name]; err != nil {
			return nil, err
		}
	}
	st := p.states[e.Name]
	out := &Status{Environment: e.Name, Branch: st.Branch, Tip: hashText(st.Tip.Hash), Source: st.Source(), Foreign: st.Foreign}
	out.Behind = p.trunk.behind(out.Source)
	s, err := p.situation(ctx, e)
	if err != nil {
		return nil, err
	}
	changed, err := p.commands(ctx, e, &s, out)
	if err != nil {
		return nil, err
	}
	if err := p.ask(ctx, e, &s); err != nil {
		return nil, err
	}
	if s.Candidate != nil {
		out.Candidate = s.Candidate.Tree
	}
	if out.Decision, err = promote.Decide(s); err != nil {
		return nil, err
	}
	if p.r.DryRun {
		return out, p.plan(ctx, e, &s, out)
	}
	if err := p.store(ctx, out.Decision.Record, changed); err != nil {
		return nil, err
	}
	for _, a := range out.Decision.Actions {
		if err := p.act(ctx, e, a, &s, out); err != nil {
			return nil, err
		}
	}
	out.Decision.Record = p.records.known[e.Name]
	return out, nil
}

// store writes an environment's record, if it changed.
func (p *pass) store(ctx context.Context, record promote.Record, changed bool) error {
	equal, err := same(p.records.known[record.Environment], record)
	if err != nil {
		return err
	}
	before := p.records.known[record.Environment]
	p.records.known[record.Environment] = record
	if equal && !changed {
		return nil
	}
	w, err := p.h.Store.NewWriter()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // what was pushed is on the branch
	tree, changed, err := p.records.write(w, record)
	if err != nil || !changed {
		return err
	}
	hash, err := p.commit(w, tree, p.records.tip.Hash, p.r.Trunk, message{subject: "Record of " + record.Environment})
	if err != nil {
		return err
	}
	if allowed := p.fleet.Signers(); !allowed.Empty() {
		if _, err := p.h.Store.VerifySignature(ctx, hash, allowed); err != nil {
			p.records.known[record.Environment] = before
			return fmt.Errorf("nothing is promoted, because spec.signers of sluice.yaml does not allow the record of this run: sign with an allowed key: %w", err)
		}
	}
	if err := p.push(ctx, w, []gitstore.Move{{Branch: promote.StateBranch, Old: p.records.tip.Hash, New: hash}}); err != nil {
		p.records.known[record.Environment] = before
		return err
	}
	p.refs[promote.StateBranch] = hash
	if err := p.h.Store.NoteSeen(p.h.Branches, promote.StateBranch, p.records.tip.Hash, hash); err != nil {
		return err
	}
	return p.records.open(ctx, hash)
}

// apply applies an event to a record, and stores it.
func (p *pass) apply(ctx context.Context, environment string, e promote.Event) error {
	if e.At.IsZero() {
		e.At = p.r.Now
	}
	next, err := promote.Apply(p.records.known[environment], e)
	if err != nil {
		return err
	}
	return p.store(ctx, next, false)
}

// ask reads what only matters when something is to be promoted: statuses, checks, the candidate, its policy.
func (p *pass) ask(ctx context.Context, e fleet.Environment, s *promote.Situation) error {
	r := s.Record
	busy := r.Progress != nil && r.Progress.Done.IsZero() || r.Rollback != nil || r.Request != nil || r.Opened != nil
	if !busy && promote.Latest(p.trunk.order, s.Before).Equal(s.Running.Source) {
		return nil
	}
	if err := p.evidence(ctx, e, s); err != nil {
		return err
	}
	if _, err := p.expedition(ctx, e, s); err != nil {
		return err
	}
	next, err := p.proposal(ctx, e, s)
	if err != nil || next == nil || s.Running.Foreign != "" {
		return err
	}
	s.Candidate, err = p.candidate(ctx, e.Name, next.Source)
	return err
}

// evidence reads the statuses, checks and merge requests on which the choice of the next promotion depends.
func (p *pass) evidence(ctx context.Context, e fleet.Environment, s *promote.Situation) error {
	if len(e.Promotion.Health.CommitStatuses) > 0 {
		if err := p.health(ctx, e.Name, s.Clusters); err != nil {
			return err
		}
		for i := range s.Before {
			if err := p.health(ctx, s.Before[i].Name, s.Before[i].Clusters); err != nil {
				return err
			}
		}
	}
	if len(e.Promotion.Checks) > 0 && p.r.Adapters.Checks != nil && s.Checks == nil {
		s.Checks = p.r.Adapters.Checks.Check(ctx, e, p.r.Now)
	}
	return p.openRequest(ctx, e, s)
}

// proposal is the next promotion. It compares what is promoted with what holds name.
func (p *pass) proposal(ctx context.Context, e fleet.Environment, s *promote.Situation) (*promote.Proposal, error) {
	next, err := promote.Next(*s)
	if err != nil || next == nil || len(next.Held) == 0 || s.Running.Foreign != "" {
		return next, err
	}
	whole, err := p.compose(ctx, e.Name, next.Promoted)
	if err != nil {
		return nil, err
	}
	if whole.failure != "" {
		return next, nil // everything stays held
	}
	past := p.past[e.Name]
	if err := past.add(ctx, whole.tree); err != nil {
		return nil, err
	}
	s.Changes, err = promote.ChangesOf(s.Record, next.Promoted, whole.tree.String(), s.Running.Tree, p.states[e.Name].ClusterNames(), past.read(ctx))
	if err != nil {
		return nil, err
	}
	return promote.Next(*s)
}

// compose renders a source for an environment on top of what its branch holds.
func (p *pass) compose(ctx context.Context, environment string, source promote.Source) (*composition, error) {
	return p.composed.compose(ctx, hydrate.Composition{
		Environment: environment, Running: p.states[environment], Commits: p.trunk.commits, All: p.foreign(environment),
	}, source)
}

func (p *pass) openRequest(ctx context.Context, e fleet.Environment, s *promote.Situation) error {
	if e.Promotion.Mode != "request" || p.r.Adapters.MergeRequests == nil {
		return nil
	}
	open, err := p.r.Adapters.MergeRequests.Find(ctx, requestBranch(e.Name), p.states[e.Name].Branch)
	if errors.Is(err, ErrNoForge) {
		return nil
	}
	if err != nil {
		return err
	}
	s.RequestKnown = true
	if open == nil {
		return nil
	}
	s.Request = &promote.MergeRequest{}
	if tip := p.refs[requestBranch(e.Name)]; !tip.IsZero() && tip.String() == open.Head {
		if err := p.h.Branches.Fetch(ctx, tip); err != nil {
			return err
		}
		st, err := branch.ReadState(ctx, p.h.Store, requestBranch(e.Name), e.Name, tip, p.fleet.Signers())
		if err != nil {
			return err
		}
		if st.Foreign == "" { // else the merge request does not offer what Sluice rendered, and Sluice replaces it
			s.Request = &promote.MergeRequest{Source: st.Source(), Tree: st.Tip.Tree.String()}
		}
	}
	return nil
}

func requestBranch(environment string) string { return "sluice/promote/" + environment }
