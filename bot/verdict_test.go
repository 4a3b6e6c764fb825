package bot

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
)

// sharedHead is a forge whose open merge requests have the same head.
type sharedHead struct {
	Forge
	open    []*forge.MergeRequest
	written []forge.Status
}

func (s *sharedHead) OpenMergeRequests(context.Context, forge.Repository, string) ([]*forge.MergeRequest, error) {
	var out []*forge.MergeRequest
	for _, mr := range s.open {
		if mr.State == forge.Open {
			out = append(out, mr)
		}
	}
	return out, nil
}

// Statuses is what a job writes a status after.
func (s *sharedHead) Statuses(ctx context.Context, repo forge.Repository, commit string) ([]forge.Status, error) {
	return s.CommitStatuses(ctx, repo, commit)
}

func (s *sharedHead) CommitStatuses(context.Context, forge.Repository, string) ([]forge.Status, error) {
	return nil, nil
}

func (s *sharedHead) SetStatus(_ context.Context, _ forge.Repository, _ string, status forge.Status) error {
	s.written = append(s.written, status)
	return nil
}

func (s *sharedHead) Access(_ context.Context, _ forge.Repository, login string) (forge.Access, error) {
	if login == "eve" {
		return forge.AccessRead, nil
	}
	return forge.AccessWrite, nil
}

func (s *sharedHead) last(context string) forge.StatusState {
	for _, v := range slices.Backward(s.written) {
		if v.Context == context {
			return v.State
		}
	}
	return ""
}

func sharing(t *testing.T, enqueued *[]int, open ...*forge.MergeRequest) (*task, *sharedHead) {
	t.Helper()
	clock := func() time.Time { return time.Unix(0, 0) }
	b := New(Config{
		Clock: clock, Log: slog.New(slog.DiscardHandler),
		Enqueue: func(_ context.Context, h hint.Hint) error {
			*enqueued = append(*enqueued, h.Number)
			return nil
		},
	})
	f := &sharedHead{open: open}
	j := &task{
		Bot: b, forge: statusForge{f, "hub:acme/fleet", newStatuses(clock)}, place: "hub:acme/fleet",
		settings: Settings{Context: "sluice", Drafts: true}, log: b.Log,
	}
	j.remember(trunkKey, "main")
	return j, f
}

func request(number int, target string) *forge.MergeRequest {
	return &forge.MergeRequest{Number: number, Head: "abc", State: forge.Open, TargetBranch: target}
}

// A merge request of the same head into a branch with a lax policy must not change the required status.
func TestAnotherTargetDoesNotTurnTheStatusGreen(t *testing.T) {
	t.Parallel()
	var enqueued []int
	strict, lax := request(1, "main"), request(2, "lax")
	j, f := sharing(t, &enqueued, strict, lax)
	if err := j.say(t.Context(), strict, forge.Failure, "policy fails"); err != nil {
		t.Fatal(err)
	}
	if err := j.say(t.Context(), lax, forge.Success, "no policy there"); err != nil {
		t.Fatal(err)
	}
	if got := f.last("sluice"); got != forge.Failure {
		t.Errorf("the required status is %q", got)
	}
	if got := f.last("sluice into lax"); got != forge.Success {
		t.Errorf("the status of the other branch is %q", got)
	}
	if len(enqueued) > 0 {
		t.Errorf("enqueued %v", enqueued)
	}
}

// If two merge requests have the same head and target, the status is the worse verdict, in either order. A merge
// request without a verdict blocks and is reviewed. A closed one no longer counts.
func TestWorstVerdictOfAHead(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][2]forge.StatusState{
		"red first":   {forge.Failure, forge.Success},
		"green first": {forge.Success, forge.Failure},
	} {
		var enqueued []int
		a, b := request(1, "main"), request(2, "main")
		j, f := sharing(t, &enqueued, a, b)
		if err := j.say(t.Context(), a, order[0], "a"); err != nil {
			t.Fatal(err)
		}
		if order[0] == forge.Success && f.last("sluice") != forge.Pending {
			t.Errorf("%s: the status is %q before the other merge request was reviewed", name, f.last("sluice"))
		}
		if len(enqueued) != 1 || enqueued[0] != 2 {
			t.Errorf("%s: enqueued %v, not the review of 2", name, enqueued)
		}
		if err := j.say(t.Context(), b, order[1], "b"); err != nil {
			t.Fatal(err)
		}
		if got := f.last("sluice"); got != forge.Failure {
			t.Errorf("%s: the status is %q", name, got)
		}
		red, green := a, b
		if order[0] == forge.Success {
			red, green = b, a
		}
		enqueued, red.State = nil, forge.Closed
		j.listings.known.Purge() // another task, later
		others, err := j.status(red, verdictOwn).sameHead(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := j.reviewAgain(t.Context(), others); err != nil {
			t.Fatal(err)
		}
		if len(enqueued) != 1 || enqueued[0] != green.Number {
			t.Errorf("%s: closing %d enqueued %v", name, red.Number, enqueued)
		}
		if err := j.say(t.Context(), green, forge.Success, "again"); err != nil {
			t.Fatal(err)
		}
		if got := f.last("sluice"); got != forge.Success {
			t.Errorf("%s: the status is %q after the failing merge request was closed", name, got)
		}
	}
}
