package promote

import (
	"context"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/rollout"
)

// pass is one call of Look: it observes each environment, applies commands, decides, stores the record and acts.
type pass struct {
	*snapshot
	observer  *observer
	commands  *commands
	proposals *proposals
	preview   *preview
	recorder  *recorder
	mover     *mover
	requests  *requests
	rollbacks *rollbacks
}

// newPass reads the branches and the trunk.
func newPass(ctx context.Context, h *hydrate.Hydrator, r Request) (*pass, error) {
	s, err := readSnapshot(ctx, h, r)
	if err != nil {
		return nil, err
	}
	by := &authors{s}
	found := &evidence{s, &statusCache{reader: r.Adapters.Statuses, known: map[string]statusAnswer{}}}
	next := &proposals{
		snapshot: s, evidence: found, authors: by,
		composed: &compositions{h: h, done: map[compositionKey]*composition{}},
		merged:   &mergedCheck{h: h, name: s.fleet.Spec.Trunk},
	}
	push := &pusher{s}
	store := &recorder{s, push}
	move := &mover{s, next, push}
	return &pass{
		snapshot: s, observer: &observer{s}, commands: &commands{s, found, next, by, map[workspaceKey]workspaceAt{}},
		proposals: next, preview: &preview{s, next},
		recorder: store, mover: move, requests: &requests{s, next, push, store},
		rollbacks: &rollbacks{s, move, push, store},
	}, nil
}

func (p *pass) close() { p.proposals.composed.close() }

// environment does the pass of one environment. If a command stops it, environment stores that before it asks the
// forge, checks or the policy for anything: these may take long or fail, and the stop holds in any case. After such an
// error, it returns the error and a Status without a Decision.
func (p *pass) environment(ctx context.Context, e fleet.Environment) (*Status, error) {
	e = p.atSite(e)
	for _, name := range append([]string{e.Name}, e.After...) {
		if err := p.records.broken[name]; err != nil {
			return nil, err
		}
	}
	st := p.states[e.Name]
	out := &Status{
		Environment: e.Name, Branch: st.Branch, Tip: hashText(st.Tip.Hash), Source: st.Source(),
		Foreign: st.Foreign,
	}
	out.Behind = behind(p.order(e.Name), out.Source)
	s, err := p.observer.situation(ctx, e)
	if err != nil {
		return nil, err
	}
	out.Site = p.siteStatus(e.Name)
	changed, err := p.commands.applyTo(ctx, e, &s, out)
	if err != nil {
		return nil, err
	}
	if st.Foreign != "" && s.Running.Foreign != "" { // what a person does about it may depend on the command
		s.Running.Foreign = p.observer.blocks(e, s.Record, false)
	}
	if p.request.OnlyStop {
		if err := p.recorder.store(ctx, s.Record); err != nil {
			return nil, err
		}
		out.Decision.Record, out.Decision.WaitsFor = s.Record, p.request.stopped(e.Name, s.Record)
		return out, nil
	}
	out.stays = out.stays || slices.Contains(p.request.stay, e.Name)
	if p.request.stops(e.Name) && !p.request.DryRun {
		if err := p.recorder.store(ctx, s.Record); err != nil {
			return nil, err
		}
		return out, p.proceed(ctx, e, &s, out, false)
	}
	if err := p.proceed(ctx, e, &s, out, changed); err != nil {
		return nil, err
	}
	return out, nil
}

// goesBack reports whether a rollback of an environment is under way.
func goesBack(r rollout.Record) bool {
	return r.Rollback != nil || r.Progress != nil && r.Progress.Rollback && r.Progress.Done.IsZero()
}

// proceed decides in a situation, stores the record and carries the decision out. changed means that commands changed
// the record. If somebody wanted the environment to stop or to go back and was refused, only a rollback is carried out:
// nothing may come because they asked.
func (p *pass) proceed(ctx context.Context, e fleet.Environment, s *rollout.Situation, out *Status,
	changed bool,
) error {
	out.due = p.proposals.due(s)
	err := p.proposals.complete(ctx, e, s)
	if err != nil {
		return err
	}
	if out.Decision, err = rollout.Decide(*s); err != nil {
		return err
	}
	if out.Decision, err = p.proposals.confirmed(ctx, e, s, out.Decision, changed); err != nil {
		return err
	}
	if s.Candidate != nil {
		out.Candidate = s.Candidate.Tree
	}
	if p.request.DryRun {
		return p.preview.plan(ctx, e, s, out)
	}
	if p.request.OnlyRender {
		out.Decision.Actions = slices.DeleteFunc(out.Decision.Actions, func(a rollout.Action) bool {
			return a.Kind == rollout.MoveEnvironment && !a.Renders || a.Kind == rollout.OpenRequest
		})
	}
	if out.stays && !goesBack(out.Decision.Record) {
		out.Decision.Actions = nil
		return p.recorder.store(ctx, s.Record)
	}
	if err := p.recorder.store(ctx, out.Decision.Record); err != nil {
		return err
	}
	for _, a := range out.Decision.Actions {
		if err := p.act(ctx, e, a, s, out); err != nil {
			return err
		}
	}
	out.Decision.Record = p.records.known[e.Name]
	return nil
}

// act carries out one action.
func (p *pass) act(ctx context.Context, e fleet.Environment, a rollout.Action, s *rollout.Situation,
	out *Status,
) error {
	switch a.Kind {
	case rollout.MoveEnvironment:
		return p.mover.environment(ctx, e, a, out)
	case rollout.MoveWave:
		return p.mover.wave(ctx, e, a, s, out)
	case rollout.DoRollback:
		return p.rollbacks.carryOut(ctx, e, a, s, out)
	case rollout.OpenRequest:
		return p.requests.open(ctx, e, a, out)
	case rollout.CloseRequest:
		return p.requests.close(ctx, e, a, out)
	case rollout.DoHalt:
		out.Done = append(out.Done, "halted: "+a.Reason)
	}
	return nil
}
