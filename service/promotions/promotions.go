// Package promotions connects promotions (package promote) with what is not in Git: the trunk's policy, which reviews
// judge by, and the commit statuses, authors and merge requests of a forge.
//
// The package is not API: it can change in every release.
package promotions

import (
	"context"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review"
	"github.com/sluice-gitops/sluice/rollout"
	"github.com/sluice-gitops/sluice/service/check"
)

// Forge lists the roles of a forge that promotions use.
type Forge interface {
	forge.MergeRequests
	forge.Requests
	forge.Statuses
	CommentLimit() int
}

// OnForge names the repositories of a fleet on a forge.
type OnForge struct {
	Forge   Forge
	Sources forge.Repository
	Output  forge.Repository // of the rendered branches
	Authors *Authors
}

// Options of Adapters.
type Options struct {
	Trunk    gitstore.Commit // its policy judges
	NoPolicy bool            // judge only the bounds of workspaces
	Reviews  *review.Cache
	Checks   *check.Client
	Forge    *OnForge // nil: there is no forge
}

// mostPairs bounds the renderings that are compared for gates that ask what a promotion changes.
const mostPairs = 2_000

// Adapters returns what promotions of a session's repository need.
func Adapters(s *session.Session, o Options) promote.Adapters {
	local := review.Local{Session: s}
	a := promote.Adapters{
		Policy: &judge{s, review.Cached(local, o.Reviews, s.Runtime.Clock), o.Trunk, o.NoPolicy},
		Checks: o.Checks, Changes: compare.Differ(s.Hydrator, s.FingerprintKey(), mostPairs),
	}
	if f := o.Forge; f != nil {
		a.Statuses = Statuses{f.Forge, f.Output}
		a.Authors = &authors{s, f.Forge, f.Sources, f.Authors}
		a.MergeRequests = &requests{s, local, f.Forge, f.Output, o.Trunk}
	}
	return a
}

// WithoutForge returns the adapters of a command that evaluates promotions once, without a forge.
func WithoutForge(s *session.Session, trunk gitstore.Commit, noPolicy bool) promote.Adapters {
	checks := check.New(s.Runtime.UserAgent(), s.Runtime.Guard.Transport())
	return Adapters(s, Options{Trunk: trunk, NoPolicy: noPolicy, Reviews: review.NewCache(), Checks: checks})
}

// judge implements promote.PolicyJudge: it applies the trunk's policy to the change of an environment.
type judge struct {
	session  *session.Session
	reviewer review.Reviewer
	trunk    gitstore.Commit
	noPolicy bool // judge only the bounds of workspaces
}

// Judge implements promote.PolicyJudge.
func (j *judge) Judge(ctx context.Context, part promote.Part) (rollout.State, string) {
	if j.noPolicy && !j.session.HasWorkspaces(ctx, j.trunk.Tree) {
		return rollout.Green, ""
	}
	request := review.Request{Policy: j.trunk.Tree, BoundsOnly: j.noPolicy}
	request.Against, request.Base.Hash, request.Head = compare.AgainstBranches, part.Base, part.Source
	request.Environments, request.Apps, request.Without = []string{part.Environment}, part.Apps, part.Without
	request.TargetsOnly, request.Key = true, j.session.FingerprintKey()
	if part.Rendered != nil {
		request.Rendered = map[string]*branch.State{part.Environment: part.Rendered}
	}
	result, err := j.reviewer.Review(ctx, request)
	if err != nil {
		return rollout.Unknown, "policy could not be evaluated"
	}
	if v := result.Review.Verdict; v == report.VerdictFail || v == report.VerdictError {
		return rollout.Red, report.Refusal(result.Review)
	}
	return rollout.Green, ""
}

// requests implements promote.MergeRequests.
type requests struct {
	session  *session.Session
	reviewer review.Reviewer
	forge    Forge
	output   forge.Repository // of the rendered branches
	trunk    gitstore.Commit
}

// Find implements promote.MergeRequests.
func (o *requests) Find(ctx context.Context, from, to string) (*promote.MergeRequest, error) {
	list, err := o.forge.OpenMergeRequests(ctx, o.output, to)
	if err != nil {
		return nil, err
	}
	for _, mr := range list {
		if mr.SourceBranch == from && !mr.Fork {
			return &promote.MergeRequest{
				Number: mr.Number, From: from, To: to, Head: mr.Head, Title: mr.Title,
				Body: mr.Body,
			}, nil
		}
	}
	return nil, nil //nolint:nilnil // no open merge request
}

// Open implements promote.MergeRequests.
func (o *requests) Open(ctx context.Context, r promote.MergeRequest) error {
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
	_, err = o.forge.CreateMergeRequest(ctx, o.output, forge.NewRequest{
		Title: r.Title, Body: body,
		SourceBranch: r.From, TargetBranch: r.To,
	})
	return err
}

// changes describes what merging a request changes. It returns "" if the changes cannot be computed, because the
// request is useful without them.
func (o *requests) changes(ctx context.Context, r promote.MergeRequest) string {
	source, err := gitstore.ParseHash(r.Source)
	if err != nil {
		return ""
	}
	c, err := o.session.Store.Commit(ctx, source)
	if err != nil {
		return ""
	}
	request := review.Request{Policy: o.trunk.Tree}
	request.Head, request.Against, request.Environments, request.Key = c, compare.AgainstBranches,
		[]string{o.environmentOf(ctx, r.To)}, o.session.FingerprintKey()
	result, err := o.reviewer.Review(ctx, request)
	if err != nil {
		return ""
	}
	const margin = 20_000 // characters for the other parts of the description
	text, _ := report.Markdown(result.Review, o.forge.CommentLimit()-margin)
	return "\n" + text
}

func (o *requests) environmentOf(ctx context.Context, branch string) string {
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

// Close implements promote.MergeRequests. The reason can quote people: a freeze or a hold has a reason of its own.
func (o *requests) Close(ctx context.Context, r promote.MergeRequest, why string) error {
	return o.forge.EditMergeRequest(ctx, o.output, r.Number, r.Title, r.Body+"\n\n"+
		report.Block([]string{"Closed: " + safetext.Line(why)}), true)
}
