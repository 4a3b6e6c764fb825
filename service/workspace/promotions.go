package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/service/check"
)

// promotionForge lists the roles of a forge that promotions use.
type promotionForge interface {
	forge.MergeRequests
	forge.Requests
	forge.Statuses
	CommentLimit() int
}

// outside provides facts that are not in Git. It implements the roles of promotion.Adapters.
type outside struct {
	session  *Session
	trunk    gitstore.Commit
	forge    promotionForge   // nil: no forge
	repo     forge.Repository // of the sources
	output   forge.Repository // of the rendered branches
	verdicts *Verdicts
	noPolicy bool // judge only the bounds of workspaces
}

// Outside returns the facts that a session has without a forge. With noPolicy, the policy judges only the bounds of workspaces.
func (s *Session) Outside(trunk gitstore.Commit, noPolicy bool) promote.Adapters {
	o := &outside{session: s, trunk: trunk, verdicts: NewVerdicts(), noPolicy: noPolicy}
	return o.adapters(check.New(s.runtime.userAgent(), s.runtime.Guard.Transport()))
}

func (o *outside) adapters(checks *check.Client) promote.Adapters {
	a := promote.Adapters{Policy: o, Checks: checks}
	if o.forge != nil {
		a.Statuses, a.Authors, a.MergeRequests = o, o, o
	}
	return a
}

var errNoStatuses = errors.New("there is no forge to ask for commit statuses")

// Statuses implements promotion.Statuses.
func (o *outside) Statuses(ctx context.Context, commit string) ([]rollout.Status, error) {
	if o.forge == nil {
		return nil, errNoStatuses
	}
	list, err := o.forge.Statuses(ctx, o.output, commit)
	if err != nil {
		return nil, unavailable(err)
	}
	return plainStatuses(list), nil
}

// unavailable returns an error of the type UnavailableError if the forge is not available.
func unavailable(err error) error {
	if errors.Is(err, forge.ErrUnavailable) {
		return &promote.UnavailableError{Err: err}
	}
	return err
}

func plainStatuses(list []forge.Status) []rollout.Status {
	out := make([]rollout.Status, len(list))
	for i, s := range list {
		state := string(s.State)
		if s.State == forge.Running {
			state = string(forge.Pending)
		}
		out[i] = rollout.Status{Name: s.Context, State: state}
	}
	return out
}

// Judge implements promotion.PolicyJudge: it applies the trunk's policy to the change of the environment.
func (o *outside) Judge(ctx context.Context, part promote.Part) (rollout.State, string) {
	if o.noPolicy && !hasWorkspaces(ctx, o.session, o.trunk.Tree) {
		return rollout.Green, ""
	}
	now := o.session.runtime.Clock()
	key := fmt.Sprint("policy ", part.Environment, part.Base, part.Source.Hash, part.Apps, part.Without, o.trunk.Tree)
	v, known := o.verdicts.cache.Get(key)
	if known && now.Sub(v.at) < verdictLife {
		return v.state, v.reason
	}
	rendered := map[string]*branch.State{}
	if part.Rendered != nil {
		rendered[part.Environment] = part.Rendered
	}
	r, _, err := o.session.Review(ctx, ReviewOptions{
		Compare: compare.Request{
			Rendered: rendered,
			Head:     part.Source, Against: compare.AgainstBranches, Environments: []string{part.Environment}, Apps: part.Apps, Without: part.Without, Key: o.session.FingerprintKey(),
		}, Policy: o.trunk.Tree, BoundsOnly: o.noPolicy, FindingsOnly: true,
	})
	switch {
	case err != nil:
		return rollout.Unknown, "policy could not be evaluated"
	case r.Verdict == report.VerdictFail || r.Verdict == report.VerdictError:
		v = &verdict{state: rollout.Red, reason: report.Refusal(r)}
	default:
		v = &verdict{state: rollout.Green}
	}
	v.at = now
	o.verdicts.cache.Add(key, v)
	return v.state, v.reason
}

const (
	maxAuthored  = 500         // commits of one promotion whose authors are looked up
	noAuthorsFor = time.Minute // how long a first answer is cached, because forges list new merge requests with a delay
	authorsFor   = time.Hour   // how long any answer is cached, because a later merge request can have the commit too
)

// Authors implements promotion.Authors: it returns the authors of the merge requests that the commits came from.
func (o *outside) Authors(ctx context.Context, commits []gitstore.Commit) ([]string, error) {
	if o.forge == nil {
		return nil, nil
	}
	if len(commits) > maxAuthored {
		return nil, fmt.Errorf("the promotion brings %d commits, and Sluice looks up the authors of at most %d: promote in smaller steps", len(commits), maxAuthored)
	}
	var out []string
	for _, c := range commits {
		names, err := o.verdicts.authorsOf(fmt.Sprint("authors ", o.repo.Path, c.Hash), o.session.runtime.Clock(), func() (names []string, err error) {
			list, err := o.forge.MergeRequestsOf(ctx, o.repo, c.Hash.String())
			for _, mr := range list {
				names = append(names, mr.Author.Login)
			}
			return names, err
		})
		if err != nil {
			return nil, fmt.Errorf("authors of %s: %w", c.Hash.Short(), err)
		}
		out = append(out, names...)
	}
	return out, nil
}

// Find implements promotion.MergeRequests.
func (o *outside) Find(ctx context.Context, from, to string) (*promote.MergeRequest, error) {
	if o.forge == nil {
		return nil, nil //nolint:nilnil // no open merge request
	}
	list, err := o.forge.OpenMergeRequests(ctx, o.output, to)
	if err != nil {
		return nil, err
	}
	for _, mr := range list {
		if mr.SourceBranch == from && !mr.Fork {
			return &promote.MergeRequest{Number: mr.Number, From: from, To: to, Head: mr.Head, Title: mr.Title, Body: mr.Body}, nil
		}
	}
	return nil, nil //nolint:nilnil // no open merge request
}

// Open implements promotion.MergeRequests.
func (o *outside) Open(ctx context.Context, r promote.MergeRequest) error {
	if o.forge == nil {
		return promote.ErrNoForge
	}
	lines := strings.Split(r.Why, "\n")
	for i, l := range lines {
		lines[i] = safetext.Line(l)
	}
	body := "Merging this promotes:\n\n" + report.Block(lines) + o.changes(ctx, r)
	have, err := o.Find(ctx, r.From, r.To)
	if err != nil {
		return err
	}
	if have != nil {
		return o.forge.EditMergeRequest(ctx, o.output, have.Number, r.Title, body, false)
	}
	_, err = o.forge.CreateMergeRequest(ctx, o.output, forge.NewRequest{Title: r.Title, Body: body, SourceBranch: r.From, TargetBranch: r.To})
	return err
}

// changes describes what merging a request changes. It returns "" if the changes cannot be computed, because the
// request is useful without them.
func (o *outside) changes(ctx context.Context, r promote.MergeRequest) string {
	source, err := gitstore.ParseHash(r.Source)
	if err != nil {
		return ""
	}
	c, err := o.session.Store.Commit(ctx, source)
	if err != nil {
		return ""
	}
	review, _, err := o.session.Review(ctx, ReviewOptions{
		Compare: compare.Request{Head: c, Against: compare.AgainstBranches, Environments: []string{o.environmentOf(ctx, r.To)}, Key: o.session.FingerprintKey()}, Policy: o.trunk.Tree,
	})
	if err != nil {
		return ""
	}
	const margin = 20_000 // characters for the other parts of the description
	text, _ := report.Markdown(review, o.forge.CommentLimit()-margin)
	return "\n" + text
}

func (o *outside) environmentOf(ctx context.Context, branch string) string {
	f, _, err := o.session.Fleet(ctx, o.trunk.Tree)
	if err != nil {
		return ""
	}
	for _, e := range f.Spec.Environments {
		if f.EnvironmentBranch(e.Name) == branch {
			return e.Name
		}
	}
	return ""
}

// Close implements promotion.MergeRequests. The reason can quote people: a freeze or a hold has a reason of its own.
func (o *outside) Close(ctx context.Context, r promote.MergeRequest, why string) error {
	return o.forge.EditMergeRequest(ctx, o.output, r.Number, r.Title, r.Body+"\n\n"+report.Block([]string{"Closed: " + safetext.Line(why)}), true)
}

// Promotions evaluates promotions and executes them until none is due.
func (s *Session) Promotions(ctx context.Context, r promote.Request) ([]promote.Status, error) {
	return promote.Run(ctx, s.Hydrator, r)
}

// Running returns what each environment runs.
func (s *Session) Running(ctx context.Context, tree gitstore.Hash) ([]promote.Running, error) {
	return promote.ReadRunning(ctx, s.Hydrator, tree)
}
