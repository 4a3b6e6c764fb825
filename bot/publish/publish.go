// Package publish posts a review on a merge request: one comment, which it recognizes by author and marker,
// and a commit status or a check run. Every function is idempotent. Review and Comment write nothing if the merge
// request has a newer head than the reviewed one.
//
// Calls for one merge request must not overlap: a forge has no compare-and-swap for comments, so the later of two
// writes would undo the earlier.
//
// The package is not API: it can change in every release.
package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/report"
)

// Forge has the roles of a forge that this package uses.
type Forge interface {
	forge.MergeRequests
	forge.Comments
	forge.Statuses
	forge.Checks
	Self(ctx context.Context) (forge.User, error)
}

// Outcome is the result for the comment.
type Outcome string

// The outcomes.
const (
	Created    Outcome = "created"
	Updated    Outcome = "updated"
	Unchanged  Outcome = "unchanged"
	None       Outcome = "none"       // nothing to report, and no comment yet
	Superseded Outcome = "superseded" // the merge request has a newer head; nothing was written
)

// Options of a publication.
type Options struct {
	ID      string // distinguishes several comments on one merge request; "" for the only one
	Earlier string // ID that the comment had before; "" for none
	Context string // context of the commit status, and name of the check run
	URL     string // of the run or of the full report
	Checks  bool   // write a check run with annotations, if the credential may
	// Asked are keys that the comment keeps, beside those that it has: see Asked.
	Asked []string
}

const (
	margin = 512 // characters, because forges count differently
	steps  = 5   // attempts to shorten a comment that the forge refuses as too long
)

// ContextFor returns the context of the status for merge requests into a branch: the plain name for the trunk, and
// one with the branch in it for other branches. A commit status belongs to a commit, so the plain context must not
// show the verdict of a merge request into another branch. An empty trunk is unknown.
func ContextFor(name, trunk, target string) string {
	if trunk == "" || trunk == target {
		return name
	}
	return name + " into " + target
}

// Review posts a review: first the comment, then the status, so that every status has a published reason.
func Review(ctx context.Context, f Forge, repo forge.Repository, mr *forge.MergeRequest, r *report.Review,
	o Options,
) (Outcome, error) {
	out, err := Comment(ctx, f, repo, mr, r, o)
	if err != nil || out == Superseded {
		return out, err
	}
	return out, Status(ctx, f, repo, r, o)
}

// Comment writes the comment, unless the head of the merge request has changed.
func Comment(ctx context.Context, f Forge, repo forge.Repository, mr *forge.MergeRequest, r *report.Review,
	o Options,
) (Outcome, error) {
	now, err := f.MergeRequest(ctx, repo, mr.Number)
	if err != nil {
		return "", fmt.Errorf("merge request %d: %w", mr.Number, err)
	}
	if now.Head != r.Head {
		return Superseded, nil
	}
	out, err := comment(ctx, f, repo, mr.Number, r, o)
	if err != nil {
		return out, fmt.Errorf("comment on merge request %d: %w", mr.Number, err)
	}
	return out, nil
}

// Status writes the verdict of the head commit: as a check run if Options.Checks is set and the forge allows
// it, and as a commit status otherwise. An unknown verdict is a failure. A review that waits is pending.
func Status(ctx context.Context, f Statuses, repo forge.Repository, r *report.Review, o Options) error {
	state := forge.Failure
	switch r.Verdict {
	case report.VerdictPass, report.VerdictWarn, report.VerdictCaution:
		state = forge.Success
	}
	title := report.Headline(r)
	if state == forge.Success && r.Waits != "" {
		state, title = forge.Pending, r.Waits
	}
	summary := ""
	if o.Checks {
		summary, _ = report.Markdown(r, forgeSummary)
	}
	if err := set(ctx, f, repo, forge.Check{
		Commit: r.Head, State: state, Title: title, Summary: summary,
		Annotations: annotations(r),
	}, o); err != nil {
		return err
	}
	return routine(ctx, f, repo, r, state, o)
}

// routine writes the status that a routine change has beside that of the review. It is never pending, because forges
// that merge only what is green would then wait for it. A head that is not routine any more gets a failure.
func routine(ctx context.Context, f Statuses, repo forge.Repository, r *report.Review,
	state forge.StatusState, o Options,
) error {
	if r.Routine == nil {
		return nil
	}
	name := o.Context + "/routine"
	want := forge.Status{Context: name, State: forge.Success, Description: r.Routine.Why, URL: o.URL}
	list, err := f.CommitStatuses(ctx, repo, r.Head)
	if err != nil {
		return wrap("statuses", err)
	}
	i := slices.IndexFunc(list, func(s forge.Status) bool { return strings.EqualFold(s.Context, name) })
	if !r.Routine.Routine || state != forge.Success {
		if i < 0 || list[i].State != forge.Success {
			return nil
		}
		want.State, want.Description = forge.Failure, "not routine any more: "+r.Routine.Why
	} else if i >= 0 && list[i].State == want.State && list[i].Description == want.Description {
		return nil
	}
	return wrap("commit status", f.SetStatus(ctx, repo, r.Head, want))
}

// Say writes a state of a commit other than the verdict of a review. It uses the same form as Status, because a check
// run does not replace a commit status of the same name. It does not repeat an equal state.
func Say(ctx context.Context, f Statuses, repo forge.Repository, commit string, s forge.Status, o Options) error {
	list, err := f.Statuses(ctx, repo, commit)
	if err != nil {
		return wrap("statuses", err)
	}
	for _, have := range list {
		if strings.EqualFold(have.Context, o.Context) && have.State == s.State && have.Description == s.Description {
			return nil
		}
	}
	return set(ctx, f, repo, forge.Check{Commit: commit, State: s.State, Title: s.Description, Summary: s.Description},
		o)
}

// Statuses has the two roles of a forge for the state of a commit.
type Statuses interface {
	forge.Statuses
	forge.Checks
}

// set writes a check run, or a commit status if check runs are disabled or not allowed.
func set(ctx context.Context, f Statuses, repo forge.Repository, c forge.Check, o Options) error {
	if o.Checks {
		c.Name, c.URL = o.Context, o.URL
		err := f.SetCheck(ctx, repo, c)
		if err == nil || !errors.Is(err, forge.ErrUnsupported) && !errors.Is(err, forge.ErrForbidden) {
			return wrap("check run", err)
		}
	}
	return wrap("commit status", f.SetStatus(ctx, repo, c.Commit,
		forge.Status{Context: o.Context, State: c.State, Description: c.Title, URL: o.URL}))
}

// States returns the states of a commit from where Status and Say write: check runs if Options.Checks is set and the
// forge allows them, and commit statuses otherwise.
func States(ctx context.Context, f Statuses, repo forge.Repository, commit string, o Options) ([]forge.Status, error) {
	if o.Checks {
		runs, err := f.CheckRuns(ctx, repo, commit)
		if !errors.Is(err, forge.ErrUnsupported) && !errors.Is(err, forge.ErrForbidden) {
			return runs, wrap("check runs", err)
		}
	}
	list, err := f.CommitStatuses(ctx, repo, commit)
	return list, wrap("commit statuses", err)
}

// forgeSummary is GitHub's limit for the summary of a check run, minus a margin.
const forgeSummary = 65_535 - margin

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// annotations marks the lines of rendering errors, each cause once, and of findings.
func annotations(r *report.Review) []forge.Annotation {
	var out []forge.Annotation
	if r.Changes != nil {
		for _, g := range report.GroupWithheld(r.Changes.Withheld) {
			if g.File != "" && !g.Before {
				out = append(out, forge.Annotation{
					Path: g.File, Line: max(g.Line, 1), Level: forge.Error,
					Title: g.Label(safetext.Line) + " cannot be rendered", Message: g.Message,
				})
			}
		}
	}
	for i := range r.Findings.Introduced {
		f := &r.Findings.Introduced[i]
		if f.File == "" {
			continue
		}
		level := forge.Notice
		switch f.Severity {
		case report.SeverityError:
			level = forge.Error
		case report.SeverityWarning:
			level = forge.Warning
		}
		out = append(out, forge.Annotation{
			Path: f.File, Line: max(f.Line, 1), Level: level, Title: f.Rule,
			Message: f.Message,
		})
	}
	return out
}

// comment creates or updates the comment.
func comment(ctx context.Context, f Forge, repo forge.Repository, number int, r *report.Review, o Options) (Outcome,
	error,
) {
	own, err := one(ctx, f, repo, number, o.ID)
	if err == nil && own == nil && o.Earlier != "" {
		own, err = one(ctx, f, repo, number, o.Earlier)
	}
	if err != nil {
		return "", err
	}
	if own == nil && silent(r) {
		return None, nil
	}
	var last report.MarkerInfo
	var after string // the blocks that survive
	if own != nil {
		last, _ = report.ParseMarker(own.Body)
		r.Since = report.Since(last, r)
		after = blocks(own.Body)
	}
	had := after
	if len(o.Asked) > 0 {
		after = withAsked(after, o.Asked)
	}
	limit := f.CommentLimit() - margin
	for step := range steps {
		body, digest := render(r, o.ID, last, limit-len(after))
		body += after
		out := Unchanged
		switch {
		case own == nil:
			out = Created
			err = create(ctx, f, repo, number, o.ID, body)
		case last.Digest != digest || last.Head != r.Head || last.ID != o.ID || block(own.Body, blockWaits) != "" ||
			after != had:
			out = Updated
			err = f.EditComment(ctx, repo, number, own.ID, body)
		}
		if errors.Is(err, forge.ErrTooLong) && step < steps-1 {
			limit = limit * 4 / 5
			continue
		}
		if err != nil {
			return "", err
		}
		return out, nil
	}
	return "", err
}

// silent reports whether the review has nothing to report.
func silent(r *report.Review) bool {
	return r.Changes != nil && r.Changes.Empty() && r.Changes.Unclaimed() == 0 && len(r.Errors) == 0 &&
		len(r.Findings.Introduced) == 0 && len(r.Rollout) == 0 && len(r.Log) == 0 && len(r.Companions) == 0
}

func render(r *report.Review, id string, last report.MarkerInfo, limit int) (body, digest string) {
	marked := *r
	next := report.NextMarker(id, r, last)
	marked.Marker = &next
	body, _ = report.Markdown(&marked, limit)
	info, _ := report.ParseMarker(body)
	return body, info.Digest
}

// create creates the comment. If the forge does not answer, it checks whether the comment exists. Another process, such
// as a CI job, may create one at the same time: the next write of either unites the two.
func create(ctx context.Context, f Forge, repo forge.Repository, number int, id, body string) error {
	_, err := f.CreateComment(ctx, repo, number, body)
	if err == nil || !errors.Is(err, forge.ErrUnavailable) {
		return err
	}
	own, again := one(ctx, f, repo, number, id)
	if again == nil && own != nil && marked(*own) {
		return nil
	}
	return err
}
