// Package triage decides which labels a merge request has and whose reviews it needs, and tells the forge. spec.review
// of the trunk has the rules; what counts is what the review of the merge request found, not which files it changes.
//
// A label or a reviewer that the forge refuses never stops a review: Apply returns what went wrong.
//
// The package is not API: it can change in every release.
package triage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/report"
)

// Plan is what the rules ask for. The zero value asks for nothing and changes no label.
type Plan struct {
	Labels   map[string]bool // by name, whether the merge request has it; other labels are not Sluice's
	Partial  bool            // the review did not see everything: no label of an environment is removed
	Requests []Request       // in the order of the rules
	Notes    []string        // what is wrong with CODEOWNERS
}

// Request asks a user or a team for a review, because of one rule.
type Request struct {
	Name string
	Team bool
	rule string
}

// Key identifies the request in the comment of the merge request: nobody is asked twice because of one rule.
func (r Request) Key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %t %q", strings.ToLower(r.Name), r.Team, r.rule))
	const length = 6
	return hex.EncodeToString(sum[:length])
}

// effect is a change of an app in an environment.
type effect struct {
	app, environment, cluster string
	risk                      string
}

// critical is the risk of a change that is not known.
const critical = string(diff.RiskCritical)

// Decide returns what the rules of the trunk's fleet ask for. file reads a file of the trunk; its error is one of
// package fs if there is none.
func Decide(f *fleet.Fleet, file func(name string) ([]byte, error), r *report.Review) (Plan, error) {
	rules := f.Spec.Review
	if len(r.Errors) > 0 || r.Changes == nil {
		return Plan{Labels: labels(f, nil, true, &report.Review{}), Partial: true}, nil
	}
	effects, partial := effectsOf(f, r.Changes)
	p := Plan{Labels: labels(f, effects, partial, r), Partial: partial}
	for _, rule := range rules.Reviewers {
		if !slices.ContainsFunc(effects, func(e effect) bool { return rule.Covers(e.app, e.environment, e.risk) }) {
			continue
		}
		because := fmt.Sprintf("%q %q %q", rule.Environments, rule.Risk, rule.Workspaces)
		for _, name := range rule.Users {
			p.Requests = append(p.Requests, Request{Name: name, rule: because})
		}
		for _, name := range rule.Teams {
			p.Requests = append(p.Requests, Request{Name: name, Team: true, rule: because})
		}
	}
	if rules.Codeowners && len(effects) > 0 {
		if err := p.codeowners(f, file, effects); err != nil {
			return p, err
		}
	}
	return p, nil
}

// effectsOf lists what changes, and reports whether that is not all.
func effectsOf(f *fleet.Fleet, c *diff.ChangeSet) (out []effect, partial bool) {
	for _, g := range slices.Concat(c.Groups, c.Declarations) {
		for _, environment := range g.Environments {
			e := effect{app: g.App, environment: environment, risk: string(g.Risk)}
			for _, name := range g.Clusters {
				if one, ok := f.Cluster(name); ok && one.Environment == environment {
					e.cluster = name
					break
				}
			}
			out = append(out, e)
		}
	}
	for _, w := range c.Withheld {
		if w.Environment != "" {
			out = append(out, effect{app: w.App, environment: w.Environment, cluster: w.Cluster, risk: critical})
		}
		partial = true
	}
	for _, l := range c.Losses {
		for i := range out {
			if out[i].environment == l.Environment {
				out[i].risk = string(diff.Graver(diff.Risk(out[i].risk), l.Risk))
			}
		}
	}
	return out, partial || len(c.Unread) > 0
}

// labels decides about each label of the fleet. The risk of a part is not known.
func labels(f *fleet.Fleet, effects []effect, partial bool, r *report.Review) map[string]bool {
	out := map[string]bool{}
	for _, name := range f.Labels() {
		out[name] = false
	}
	set := func(name string) {
		if _, ours := out[name]; ours {
			out[name] = true
		}
	}
	for _, e := range effects {
		set(fleet.EnvironmentLabel(e.environment))
	}
	if !partial && len(effects) > 0 {
		risk := diff.RiskNone
		for _, e := range effects {
			risk = diff.Graver(risk, diff.Risk(e.risk))
		}
		for _, l := range r.Changes.Losses {
			risk = diff.Graver(risk, l.Risk)
		}
		set(fleet.RiskLabel(string(risk)))
	}
	if r.Routine != nil && r.Routine.Routine && r.Waits == "" {
		set(fleet.RoutineLabel)
	}
	return out
}

// Empty reports whether the rules have no say.
func (p *Plan) Empty() bool { return len(p.Labels)+len(p.Requests)+len(p.Notes) == 0 }

// edits returns the labels to add to those of a merge request, and to remove.
func (p *Plan) edits(have []string) (add, remove []string) {
	for name, want := range p.Labels {
		i := slices.IndexFunc(have, func(h string) bool { return strings.EqualFold(h, name) })
		switch {
		case want && i < 0:
			add = append(add, name)
		case !want && i >= 0 && (!p.Partial || !fleet.IsEnvironmentLabel(name)): // what a review has not earned
			remove = append(remove, have[i])
		}
	}
	slices.Sort(add)
	slices.Sort(remove)
	return add, remove
}

// Result is what Apply did.
type Result struct {
	Added, Removed []string // labels
	Asked          []Request
	Notes          []string // for people: what the forge refuses, without its words
	Errors         []error  // the same for the log
	Later          bool     // another attempt may succeed
}

// maxAsked is the number of people and teams that are asked for a review of one merge request; GitHub allows no more.
const maxAsked = 15

// Apply brings a merge request to what a plan asks for, with as few requests as possible: none if nothing changes. asked
// returns the keys of the requests that were made before; Apply calls it only if there are requests. The adapter may
// lack the roles forge.Labels and forge.ReviewRequests.
func Apply(ctx context.Context, adapter any, repo forge.Repository, mr *forge.MergeRequest, p Plan,
	asked func(context.Context) ([]string, error),
) Result {
	out := Result{Notes: slices.Clone(p.Notes)}
	if add, remove := p.edits(mr.Labels); len(add)+len(remove) > 0 {
		err := fmt.Errorf("%w: labels", forge.ErrUnsupported)
		if f, ok := adapter.(forge.Labels); ok {
			err = f.EditLabels(ctx, repo, mr.Number, add, remove)
		}
		if err != nil {
			out.failed("the labels of spec.review are not set", err)
		} else {
			out.Added, out.Removed = add, remove
		}
	}
	if len(p.Requests) == 0 || mr.Draft { // forges ask the owners of drafts when they are ready, too
		return out
	}
	before, err := asked(ctx)
	if err != nil {
		out.failed("nobody is asked for a review", err)
		return out
	}
	out.ask(ctx, adapter, repo, mr, p.Requests, before)
	return out
}

// ask asks for the reviews that nobody was asked for yet.
func (r *Result) ask(ctx context.Context, adapter any, repo forge.Repository, mr *forge.MergeRequest,
	requests []Request, before []string,
) {
	var due []Request
	names := map[Request]bool{} // without the rules
	for _, q := range requests {
		if !q.Team && strings.EqualFold(q.Name, mr.Author.Login) || slices.Contains(before, q.Key()) {
			continue
		}
		due = append(due, q)
		names[Request{Name: strings.ToLower(q.Name), Team: q.Team}] = true
	}
	if len(due) == 0 {
		return
	}
	if room := max(maxAsked-len(before), 0); len(names) > room {
		r.Notes = append(r.Notes, fmt.Sprintf("only %d of the people and teams that spec.review names are asked for a review: a merge request has at most %d", room, maxAsked))
		due = due[:min(room, len(due))]
	}
	f, ok := adapter.(forge.ReviewRequests)
	if !ok {
		r.failed("nobody is asked for a review", fmt.Errorf("%w: requests for reviews", forge.ErrUnsupported))
		return
	}
	var users, teams []string
	for _, q := range due {
		list := &users
		if q.Team {
			list = &teams
		}
		if !slices.ContainsFunc(*list, func(have string) bool { return strings.EqualFold(have, q.Name) }) {
			*list = append(*list, q.Name)
		}
	}
	if len(users)+len(teams) == 0 {
		return
	}
	refused, err := f.RequestReviews(ctx, repo, mr.Number, users, teams)
	if err != nil {
		r.failed("nobody is asked for a review", err)
		return
	}
	for _, one := range refused {
		if errors.Is(one.Err, forge.ErrUnsupported) && slices.ContainsFunc(due, func(q Request) bool {
			return q.Name == one.Name && q.rule == byOwners
		}) {
			continue // CODEOWNERS is for the forge too, which may know groups where it asks for approvals
		}
		r.failed("the forge does not accept "+safetext.Line(one.Name)+" as a reviewer", one.Err)
	}
	for _, q := range due {
		if !slices.ContainsFunc(refused, func(one forge.RefusedReviewer) bool { return one.Name == q.Name }) {
			r.Asked = append(r.Asked, q)
		}
	}
}

// failed records an error. The words of a forge can have addresses, so people get its kind.
func (r *Result) failed(what string, err error) {
	r.Errors = append(r.Errors, fmt.Errorf("%s: %w", what, err))
	r.Later = r.Later || errors.Is(err, forge.ErrUnavailable)
	why := ""
	for _, known := range []struct {
		kind error
		text string
	}{
		{forge.ErrForbidden, "the credential lacks a permission, or the reviewer has no access to the repository"},
		{forge.ErrUnauthorized, "the forge does not accept the credential"},
		{forge.ErrNotFound, "the forge does not know it"},
		{forge.ErrUnsupported, "the forge does not support it"},
		{forge.ErrUnavailable, "the forge does not answer"},
	} {
		if errors.Is(err, known.kind) {
			why = known.text
			break
		}
	}
	r.Notes = append(r.Notes, what+": "+cmp.Or(why, "the name is wrong, or has no access to the repository"))
}

// Keys returns the keys of requests.
func Keys(list []Request) []string {
	out := make([]string, len(list))
	for i, r := range list {
		out[i] = r.Key()
	}
	return out
}

// Names returns the names of requests.
func Names(list []Request) []string {
	out := make([]string, len(list))
	for i, r := range list {
		out[i] = r.Name
	}
	return out
}
