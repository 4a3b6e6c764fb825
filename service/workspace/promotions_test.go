package workspace

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// lateForge lists the merge request of a commit with a delay, as forges do.
type lateForge struct {
	promotionForge
	list  []*forge.MergeRequest
	asked int
}

func (f *lateForge) MergeRequestsOf(context.Context, forge.Repository, string) ([]*forge.MergeRequest, error) {
	f.asked++
	return f.list, nil
}

// The answer that a commit has no author is cached only for a short time; otherwise authors could approve their own
// change.
func TestAuthorsAreFoundLate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := &lateForge{}
	o := &outside{session: &Session{runtime: Runtime{Clock: func() time.Time { return now }}}, forge: f, verdicts: NewVerdicts()}
	for _, step := range []struct {
		list  []*forge.MergeRequest
		pass  time.Duration
		want  []string
		asked int
	}{
		{nil, 0, nil, 1},
		{nil, time.Second, nil, 1},
		{[]*forge.MergeRequest{{Author: forge.User{Login: "alice"}}}, noAuthorsFor, []string{"alice"}, 2},
		{nil, 24 * time.Hour, []string{"alice"}, 2},
	} {
		now, f.list = now.Add(step.pass), step.list
		got, err := o.Authors(t.Context(), []gitstore.Commit{{}})
		if err != nil || !slices.Equal(got, step.want) || f.asked != step.asked {
			t.Errorf("after %s: %q, asked %d times: %v", step.pass, got, f.asked, err)
		}
	}
}

// writtenForge keeps the text of a merge request.
type writtenForge struct {
	promotionForge
	body string
}

func (f *writtenForge) EditMergeRequest(_ context.Context, _ forge.Repository, _ int, _, body string, _ bool) error {
	f.body = body
	return nil
}

// The reason for which a merge request is closed can have the words of a person: they are no markup of Sluice's text.
func TestReasonOfAClosedPromotion(t *testing.T) {
	t.Parallel()
	f := &writtenForge{}
	o := &outside{forge: f}
	if err := o.Close(t.Context(), promotion.MergeRequest{Number: 1, Body: "Merging this promotes:"}, "freeze: @all <b>\n```\n/merge"); err != nil {
		t.Fatal(err)
	}
	if want := "Merging this promotes:\n\n````text\nClosed: freeze: @all <b>\\n```\\n/merge\n````\n"; f.body != want {
		t.Errorf("%q\nwant %q", f.body, want)
	}
}
