package bot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review"
)

// bombForge has one merge request, by an author with write access.
type bombForge struct {
	sharedHead
	mr forge.MergeRequest
}

func (b *bombForge) MergeRequest(context.Context, forge.Repository, int) (*forge.MergeRequest, error) {
	mr := b.mr
	return &mr, nil
}

func (b *bombForge) MergeRequestRef(int) string { return "head" }

func (b *bombForge) Access(context.Context, forge.Repository, string) (forge.Access, error) {
	return forge.AccessWrite, nil
}

// bombSpace is a repository whose reviews exceed a limit.
type bombSpace struct {
	Commits
	Fleets
	Reviews
	head    gitstore.Hash
	trunk   byte
	reviews int
	review  *report.Review // nil: the review has no report
}

// trunkOf is Commits.Trunk by Commits.Revision.
func trunkOf(ctx context.Context, c interface {
	Revision(ctx context.Context, rev string, also ...string) (gitstore.Commit, error)
}, named func(context.Context, gitstore.Commit) string,
) (gitstore.Commit, error) {
	head, err := c.Revision(ctx, "HEAD")
	if err != nil {
		return head, err
	}
	name := named(ctx, head)
	if name == "" {
		return head, nil
	}
	tip, err := c.Revision(ctx, "refs/heads/"+name)
	if errors.Is(err, gitstore.ErrNoRef) {
		return head, nil
	}
	return tip, err
}

func (b *bombSpace) Revision(_ context.Context, revision string, _ ...string) (gitstore.Commit, error) {
	if revision == "head" {
		return gitstore.Commit{Hash: b.head}, nil
	}
	return gitstore.Commit{Hash: gitstore.Hash{9, b.trunk}, Tree: gitstore.Hash{8, b.trunk}}, nil
}

func (b *bombSpace) Trunk(ctx context.Context, named func(context.Context, gitstore.Commit) string) (gitstore.Commit,
	error,
) {
	return trunkOf(ctx, b, named)
}

func (b *bombSpace) MergeBase(_ context.Context, a, _ gitstore.Commit) (gitstore.Commit, error) {
	return a, nil
}

func (b *bombSpace) Fleet(context.Context, gitstore.Hash) (*fleet.Fleet, fleet.Problems, error) {
	return &fleet.Fleet{}, nil, nil
}

func (b *bombSpace) Changed(context.Context, gitstore.Hash, gitstore.Hash) ([]string, error) {
	return nil, nil
}

func (b *bombSpace) HasFleet(context.Context, gitstore.Hash) (bool, error) { return true, nil }

func (b *bombSpace) Review(context.Context, review.Request) (*review.Result, error) {
	b.reviews++
	if b.review != nil {
		out := *b.review
		out.Head = b.head.String()
		return &review.Result{Review: &out}, nil
	}
	return nil, fmt.Errorf("%w: the task used too much memory", ErrStopped)
}

// bot returns a Bot that reviews merge request 7 of the repository, and its forge.
func (b *bombSpace) bot() (*talkingForge, *Bot) {
	f := &talkingForge{bombForge: bombForge{mr: forge.MergeRequest{
		Number: 7, Head: b.head.String(), State: forge.Open,
		TargetBranch: "main",
	}}}
	return f, New(Config{
		Clock: func() time.Time { return time.Unix(0, 0) }, Log: slog.New(slog.DiscardHandler),
		Forges:   func(string) (Forge, bool) { return f, true },
		Settings: func(hint.Place) Settings { return Settings{Context: "sluice", Drafts: true} },
		Open: func(context.Context, hint.Place) (*Workspace, error) {
			return &Workspace{Commits: b, Fleets: b, Reviews: b, Close: func() {}}, nil
		},
	})
}

// If a review exceeds a limit, the merge request shows the limit, or the targets that were not rendered in time. The
// review runs again only for another head or after a retry.
func TestStoppedReview(t *testing.T) {
	t.Parallel()
	late := &report.Review{Verdict: report.VerdictError, Stopped: true, Changes: &diff.ChangeSet{
		Withheld: []diff.Withheld{{
			App: "shop", Cluster: "prod-1", Environment: "prod",
			Message: "not rendered: too late",
		}}, Compared: 2,
	}}
	for name, c := range map[string]struct {
		review       *report.Review
		status, text string
		checks       bool
		refused      error // of check runs
	}{
		"no report": {
			nil, "too much memory", "the review was stopped: the task used too much memory",
			false, nil,
		},
		"a report of a part": {
			late, "1 target cannot be rendered",
			"`shop` on `prod/prod-1`: not rendered: too late", false, nil,
		},
		"a check run":           {nil, "too much memory", "used too much memory", true, nil},
		"check runs forbidden":  {nil, "too much memory", "used too much memory", true, forge.ErrForbidden},
		"a forge without those": {nil, "too much memory", "used too much memory", true, forge.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			space := &bombSpace{head: gitstore.Hash{1}, review: c.review}
			f, b := space.bot()
			f.checks = c.refused
			b.Settings = func(hint.Place) Settings {
				return Settings{
					Context: "sluice", Drafts: true,
					Checks: c.checks,
				}
			}
			for step, c := range []struct {
				head     byte
				force    bool
				expected int
			}{{1, false, 1}, {1, false, 1}, {1, true, 2}, {1, false, 2}, {2, false, 3}} {
				space.head = gitstore.Hash{c.head}
				f.mr.Head = space.head.String()
				if err := b.Do(t.Context(), hint.Hint{
					Place: "hub:acme/fleet", Kind: hint.Review, Number: 7,
					Force: c.force,
				}); err != nil {
					t.Fatal(err)
				}
				space.trunk++ // a commit that concerns every merge request
				if space.reviews != c.expected {
					t.Errorf("step %d: %d reviews, expected %d", step, space.reviews, c.expected)
				}
			}
			if s := f.statuses[len(f.statuses)-1]; s.State != forge.Failure ||
				!strings.Contains(s.Description, c.status) || s.Check != (c.checks && c.refused == nil) {
				t.Errorf("the status is %+v", s)
			}
			if text := strings.Join(f.comments, "\n"); !strings.Contains(text, c.text) ||
				c.review == nil && strings.Contains(text, `Sluice `+"`") {
				t.Errorf("the comments are %q", text)
			}
			if c.review == nil { // another process reads it from the forge
				if err := New(b.Config).Do(t.Context(), hint.Hint{
					Place: "hub:acme/fleet", Kind: hint.Review,
					Number: 7,
				}); err != nil || space.reviews != 3 {
					t.Errorf("%d reviews after a restart, expected 3 (%v)", space.reviews, err)
				}
				return
			}
			complete := *late // the retry stays within the limits: the next commit of the trunk is looked at
			complete.Stopped = false
			space.review = &complete
			for _, force := range []bool{true, false} {
				if err := b.Do(t.Context(), hint.Hint{
					Place: "hub:acme/fleet", Kind: hint.Review, Number: 7,
					Force: force,
				}); err != nil {
					t.Fatal(err)
				}
				space.trunk++
			}
			if space.reviews != 5 {
				t.Errorf("%d reviews after a retry, expected 5", space.reviews)
			}
		})
	}
}

// A review whose status the forge does not take is repeated, also one that exceeds a limit: otherwise its head never
// gets a status.
func TestStoppedReviewWithoutStatus(t *testing.T) {
	t.Parallel()
	for name, review := range map[string]*report.Review{
		"no report":          nil,
		"a report of a part": {Verdict: report.VerdictError, Stopped: true, Changes: &diff.ChangeSet{}},
	} {
		space := &bombSpace{head: gitstore.Hash{1}, review: review}
		f, b := space.bot()
		f.refuse = 1
		h := hint.Hint{Place: "hub:acme/fleet", Kind: hint.Review, Number: 7}
		if err := b.Do(t.Context(), h); err == nil {
			t.Fatalf("%s: the test is void: the status was written", name)
		}
		if err := b.Do(t.Context(), h); err != nil || len(f.statuses) == 0 ||
			f.statuses[len(f.statuses)-1].State != forge.Failure {
			t.Errorf("%s: %v; statuses %+v", name, err, f.statuses)
		}
	}
}

// A forge that takes no comment gets the status of a stopped review all the same, and the review is not repeated for
// the comment.
func TestStoppedReviewWithoutComment(t *testing.T) {
	t.Parallel()
	space := &bombSpace{head: gitstore.Hash{1}}
	f, b := space.bot()
	f.mute = true
	for range 2 {
		if err := b.Do(t.Context(), hint.Hint{Place: "hub:acme/fleet", Kind: hint.Review, Number: 7}); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.statuses) != 1 || f.statuses[0].State != forge.Failure || space.reviews != 1 || len(f.comments) > 0 {
		t.Errorf("%d reviews, statuses %+v, comments %q", space.reviews, f.statuses, f.comments)
	}
}

// A task that is cancelled between the comment and the status has not ended: the status is missing.
func TestStoppedReviewThatIsCancelled(t *testing.T) {
	t.Parallel()
	space := &bombSpace{head: gitstore.Hash{1}}
	f, b := space.bot()
	ctx, cancel := context.WithCancel(t.Context())
	f.said = cancel
	h := hint.Hint{Place: "hub:acme/fleet", Kind: hint.Review, Number: 7}
	if err := b.Do(ctx, h); !errors.Is(err, context.Canceled) || len(f.comments) == 0 {
		t.Errorf("the task ends with %v, comments %q, statuses %+v", err, f.comments, f.statuses)
	}
	if err := b.Do(t.Context(), h); err != nil || len(f.statuses) == 0 ||
		f.statuses[len(f.statuses)-1].State != forge.Failure {
		t.Errorf("%v; statuses %+v", err, f.statuses)
	}
}

// If the cleanup of a closed merge request is interrupted and the merge request is reopened, it is reviewed again.
func TestClosedForgetsTheReview(t *testing.T) {
	t.Parallel()
	b := New(Config{
		Clock: func() time.Time { return time.Unix(0, 0) }, Log: slog.New(slog.DiscardHandler),
		Open: func(context.Context, hint.Place) (*Workspace, error) { return nil, context.Canceled }, // a newer hint arrived
	})
	j := &task{Bot: b, place: "hub:acme/fleet", log: b.Log}
	j.update(7, func(s *headState) { s.own.input = input{head: "head"} })
	if err := (&reviewTask{task: j, mr: &forge.MergeRequest{
		Number: 7,
		State:  forge.Closed,
	}}).closed(t.Context()); err == nil {
		t.Fatal("the cleanup was not interrupted")
	}
	if j.state(7).own.input.head == "head" {
		t.Error("the review before the closing still counts")
	}
}
