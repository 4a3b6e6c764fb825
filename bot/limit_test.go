package bot

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
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
	reviews int
}

func (b *bombSpace) Revision(context.Context, string) (gitstore.Commit, error) {
	return gitstore.Commit{Hash: b.head}, nil
}

func (b *bombSpace) MergeBase(_ context.Context, a, _ gitstore.Commit) (gitstore.Commit, error) {
	return a, nil
}

func (b *bombSpace) Fleet(context.Context, gitstore.Hash) (*fleet.Fleet, fleet.Problems, error) {
	return &fleet.Fleet{}, nil, nil
}

func (b *bombSpace) HasFleet(context.Context, gitstore.Hash) (bool, error) { return true, nil }

func (b *bombSpace) Review(context.Context, ReviewRequest) (*report.Review, *compare.PreviewResult, error) {
	b.reviews++
	return nil, nil, fmt.Errorf("%w: the task used too much memory", ErrStopped)
}

// If a review exceeds a limit, the merge request shows the limit. The review runs again only for another head or
// after a retry.
func TestStoppedReview(t *testing.T) {
	t.Parallel()
	space := &bombSpace{head: gitstore.Hash{1}}
	f := &bombForge{mr: forge.MergeRequest{Number: 7, Head: space.head.String(), State: forge.Open, TargetBranch: "main"}}
	b := New(Config{
		Clock: func() time.Time { return time.Unix(0, 0) }, Log: slog.New(slog.DiscardHandler),
		Forges:   func(string) (Forge, bool) { return f, true },
		Settings: func(hint.Place) Settings { return Settings{Context: "sluice", Drafts: true} },
		Open: func(context.Context, hint.Place) (*Workspace, error) {
			return &Workspace{Commits: space, Fleets: space, Reviews: space, Close: func() {}}, nil
		},
	})
	for step, c := range []struct {
		head     byte
		force    bool
		expected int
	}{{1, false, 1}, {1, false, 1}, {1, true, 2}, {1, false, 2}, {2, false, 3}} {
		space.head = gitstore.Hash{c.head}
		f.mr.Head = space.head.String()
		if err := b.Do(t.Context(), hint.Hint{Place: "hub:acme/fleet", Kind: hint.Review, Number: 7, Force: c.force}); err != nil {
			t.Fatal(err)
		}
		if space.reviews != c.expected {
			t.Errorf("step %d: %d reviews, expected %d", step, space.reviews, c.expected)
		}
	}
	if s := f.written[len(f.written)-1]; s.State != forge.Failure || !strings.Contains(s.Description, "too much memory") {
		t.Errorf("the status is %+v", s)
	}
}

// If the cleanup of a closed merge request is interrupted and the merge request is reopened, it is reviewed again.
func TestClosedForgetsTheReview(t *testing.T) {
	t.Parallel()
	b := New(Config{
		Clock: func() time.Time { return time.Unix(0, 0) }, Log: slog.New(slog.DiscardHandler),
		Open: func(context.Context, hint.Place) (*Workspace, error) { return nil, context.Canceled }, // a newer hint arrived
	})
	j := &job{Bot: b, place: "hub:acme/fleet", log: b.Log}
	j.remember("mr/7", "head on target")
	if err := j.closed(t.Context(), &forge.MergeRequest{Number: 7, State: forge.Closed}); err == nil {
		t.Fatal("the cleanup was not interrupted")
	}
	if j.seen("mr/7", "head on target") {
		t.Error("the review before the closing still counts")
	}
}
