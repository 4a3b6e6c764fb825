package bot

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/gitstore"
)

// quietForge has open merge requests and counts the calls that send a request.
type quietForge struct {
	Forge
	open  []*forge.MergeRequest
	calls int
}

func (f *quietForge) OpenMergeRequests(context.Context, forge.Repository, string) ([]*forge.MergeRequest, error) {
	f.calls++
	return f.open, nil
}

func (f *quietForge) RecentMergeRequests(context.Context, forge.Repository, time.Time) ([]*forge.MergeRequest, error) {
	f.calls++
	return nil, nil
}

// quietSpace has a branch for each name, and no previews.
type quietSpace struct {
	Commits
	Reviews
	tips map[string]gitstore.Hash
}

func (s *quietSpace) Revision(_ context.Context, rev string, _ ...string) (gitstore.Commit, error) {
	return gitstore.Commit{Hash: s.tips[rev]}, nil
}

func (s *quietSpace) Trunk(ctx context.Context, named func(context.Context, gitstore.Commit) string) (gitstore.Commit,
	error,
) {
	return trunkOf(ctx, s, named)
}

func (s *quietSpace) Previews(context.Context, string) ([]string, error) { return nil, nil }

// A sweep over 100 unchanged reviewed merge requests sends two requests and enqueues no review. It enqueues merge
// requests with another head, other labels, another target branch or another tip of it, those that were never reviewed,
// and those that are closed although the list of reports has them as open. It does not begin running reviews of open
// ones again.
func TestIdleSweep(t *testing.T) {
	t.Parallel()
	f := &quietForge{}
	space := &quietSpace{tips: map[string]gitstore.Hash{"refs/heads/main": {1}, "refs/heads/other": {1}}}
	var reviews []int
	reports := &keeper{}
	b := New(Config{
		Clock: func() time.Time { return time.Unix(0, 0) }, Log: slog.New(slog.DiscardHandler), Reports: reports,
		Forges:   func(string) (Forge, bool) { return f, true },
		Settings: func(hint.Place) Settings { return Settings{Drafts: true} },
		Open: func(context.Context, hint.Place) (*Workspace, error) {
			return &Workspace{Commits: space, Reviews: space, Close: func() {}}, nil
		},
		Enqueue: func(_ context.Context, h hint.Hint) error {
			if h.Kind == hint.Review {
				reviews = append(reviews, h.Number)
				if isOpen := h.Number < 300; h.Unless != isOpen {
					t.Errorf("merge request %d: a sweep begins a running review again, or does not end that of a closed one", h.Number)
				}
			}
			return nil
		},
	})
	j := &task{Bot: b, place: "hub:acme/fleet"}
	for i := range 100 {
		mr := &forge.MergeRequest{Number: i + 1, Head: "head", State: forge.Open, TargetBranch: "main"}
		f.open = append(f.open, mr)
		j.update(mr.Number, func(s *headState) { s.own.input = inputOf(mr, gitstore.Hash{1}, "") })
		if err := j.status(mr, verdictOwn).record(t.Context(), forge.Success, basisOf(mr, "")); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func(what string, want ...int) {
		t.Helper()
		reviews, f.calls = nil, 0
		if err := b.Do(t.Context(), hint.Hint{Place: "hub:acme/fleet", Kind: hint.Sweep}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(reviews, want) || f.calls > 2 {
			t.Errorf("%s: reviews of %v after %d requests, want %v", what, reviews, f.calls, want)
		}
	}
	sweep("nothing changed")
	f.open[0].Head = "newer"
	f.open[1].Labels = []string{"fleet"}
	f.open[2].TargetBranch = "other" // at the same commit
	sweep("three changed", 1, 2, 3)
	f.open = append(f.open[3:10], &forge.MergeRequest{Number: 200, Head: "head", TargetBranch: "main"})
	sweep("a new one", 200)
	stopped := f.open[len(f.open)-1]
	j.update(200, func(s *headState) { s.own.limit = limit{head: stopped.Head} })
	if err := j.status(stopped, verdictOwn).record(t.Context(), forge.Failure, basisOf(stopped, "")); err != nil {
		t.Fatal(err)
	}
	sweep("one that exceeded a limit")
	reports.open = []int{4, 200, 300}
	sweep("one that is listed as open and is not", 300)
	reports.open = nil
	space.tips["refs/heads/main"] = gitstore.Hash{2}
	sweep("the trunk moved", 4, 5, 6, 7, 8, 9, 10)
}
