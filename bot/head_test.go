package bot

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/gitstore"
)

// blankForge has no commit statuses.
type blankForge struct{ quietForge }

func (*blankForge) CommitStatuses(context.Context, forge.Repository, string) ([]forge.Status, error) {
	return nil, nil
}

// A sweep repeats a review that lacked something, with a growing wait, a bounded number of times, and not after one
// that lacked nothing.
func TestSweepsRepeatReviewsThatLackContent(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	space := &quietSpace{tips: map[string]gitstore.Hash{"refs/heads/main": {1}}}
	b := New(Config{
		Clock: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler), Reports: &keeper{},
		Forges:   func(string) (Forge, bool) { return &blankForge{}, true },
		Settings: func(hint.Place) Settings { return Settings{} },
		Open: func(context.Context, hint.Place) (*Workspace, error) {
			return &Workspace{Commits: space, Reviews: space, Close: func() {}}, nil
		},
	})
	j := &task{
		Bot: b, place: "hub:acme/fleet", forge: statusForge{&blankForge{}, "hub:acme/fleet", b.statuses},
		trunkIs: "main",
	}
	mr := &forge.MergeRequest{Number: 1, Head: "head", State: forge.Open, TargetBranch: "main"}
	reviewed := func(lacks bool) {
		t.Helper()
		if err := j.status(mr, verdictOwn).record(t.Context(), forge.Failure, basisOf(mr, "")); err != nil {
			t.Fatal(err)
		}
		j.update(mr.Number, func(s *headState) {
			s.own.input, s.own.lacks = inputOf(mr, gitstore.Hash{1}, ""),
				(&reviewTask{task: j, mr: mr}).lacked(s.own.lacks, lacks)
		})
	}
	due := func() bool {
		skip, err := (&reviewTask{
			task: j, mr: mr,
			target: gitstore.Commit{Hash: gitstore.Hash{1}},
		}).reviewed(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		unchanged := (&sweepTask{task: j}).unchanged(t.Context(), mr)
		if skip != unchanged {
			t.Errorf("the sweep says unchanged: %t, and the review skips it: %t", unchanged, skip)
		}
		return !unchanged
	}
	repeats := func() (waits []time.Duration) {
		const step, most = 5 * time.Minute, 60 * 24 * time.Hour
		for wait := time.Duration(0); wait < most; wait += step {
			if due() {
				waits = append(waits, wait)
				reviewed(true)
				wait = 0
			}
			now = now.Add(step)
		}
		return waits
	}
	reviewed(false)
	if due() {
		t.Error("a review that lacked nothing is repeated")
	}
	reviewed(true)
	if due() {
		t.Error("a review is repeated at once")
	}
	if waits := repeats(); len(waits) != maxRepeats || waits[len(waits)-1] < 100*waits[0] {
		t.Errorf("repeated after %v", waits)
	}
	mr.Head = "newer"
	for range 2 * maxRepeats { // the trunk moves in the meantime, which is no repetition
		reviewed(true)
	}
	now = now.Add(firstRepeat)
	if !due() {
		t.Error("the review of a newer head is not repeated")
	}
	reviewed(false)
	if now = now.Add(24 * time.Hour); due() {
		t.Error("a review that no longer lacks something is repeated")
	}
}

// A label that a review sets must not start the next one, and a label of others must.
func TestOwnLabelsStartNoReview(t *testing.T) {
	t.Parallel()
	mr := &forge.MergeRequest{Number: 7, Head: "h", TargetBranch: "main", Labels: []string{"bug"}}
	labelled, other := *mr, *mr
	labelled.Labels = []string{"bug", "sluice/prod", "risk/high"}
	other.Labels = []string{"bug", "urgent"}
	if inputOf(mr, gitstore.Hash{1}, "") != inputOf(&labelled, gitstore.Hash{1}, "") || basisOf(mr, "") != basisOf(&labelled, "") {
		t.Error("labels of Sluice: got another input of the review, want the same")
	}
	if inputOf(mr, gitstore.Hash{1}, "") == inputOf(&other, gitstore.Hash{1}, "") || basisOf(mr, "") == basisOf(&other, "") {
		t.Error("a label of others: got the same input of the review, want another one")
	}
	if len(labelled.Labels) != 3 {
		t.Errorf("the labels of the merge request: got %q, want them unchanged", labelled.Labels)
	}
}
