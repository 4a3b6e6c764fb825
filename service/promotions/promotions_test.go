package promotions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/session"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
)

// lateForge lists the merge request of a commit with a delay, as forges do.
type lateForge struct {
	Forge
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
	o := &authors{
		session: &session.Session{Runtime: session.Runtime{Clock: func() time.Time { return now }}}, forge: f,
		cache: NewAuthors(),
	}
	for _, step := range []struct {
		list  []*forge.MergeRequest
		pass  time.Duration
		want  []string
		asked int
	}{
		{nil, 0, nil, 1},
		{nil, time.Second, nil, 1},
		{[]*forge.MergeRequest{{Author: forge.User{Login: "alice"}}}, noAuthorsFor, []string{"alice"}, 2},
		{nil, noAuthorsFor - time.Second, []string{"alice"}, 2},
		// the forge lists a merge request late
		{
			[]*forge.MergeRequest{{Author: forge.User{Login: "bob"}}, {Author: forge.User{Login: "bob"}}},
			time.Second,
			[]string{"alice", "bob"},
			3,
		},
		// an author stays
		{nil, noAuthorsFor, []string{"alice", "bob"}, 4},
		// known for two minutes
		{nil, noAuthorsFor, []string{"alice", "bob"}, 4},
		{nil, noAuthorsFor, []string{"alice", "bob"}, 5},
		{nil, 24 * time.Hour, []string{"alice", "bob"}, 6},
		{nil, authorsFor - time.Second, []string{"alice", "bob"}, 6},
		{nil, time.Second, []string{"alice", "bob"}, 7},
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
	Forge
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
	o := &requests{forge: f}
	if err := o.Close(t.Context(), promote.MergeRequest{Number: 1, Body: "Merging this promotes:"},
		"freeze: @all <b>\n```\n/merge"); err != nil {
		t.Fatal(err)
	}
	if want := "Merging this promotes:\n\n````text\nClosed: freeze: @all <b>\\n```\\n/merge\n````\n"; f.body != want {
		t.Errorf("%q\nwant %q", f.body, want)
	}
}

// bulkForge fails requests for the statuses of many commits.
type bulkForge struct {
	Forge
	forge.BulkStatuses
	err error
}

func (f *bulkForge) StatusesOf(context.Context, forge.Repository, []string) (map[string][]forge.Status, error) {
	return nil, f.err
}

// Where a forge, its limit of such requests, or something before it refuses to answer for many commits, each is read
// alone.
func TestBulkRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err   error
		alone bool
	}{
		{forge.ErrUnsupported, true},
		{forge.ErrForbidden, true},
		{forge.ErrNotFound, true},
		{errors.New("GitHub refuses the request: 400"), true},
		{fmt.Errorf("github: %w", &forge.RateLimitError{Until: time.Unix(1, 0)}), true},
		{fmt.Errorf("github: %w: 502", forge.ErrUnavailable), false},
	} {
		_, err := Statuses{Forge: &bulkForge{err: c.err}}.Bulk(t.Context(), []string{"a"})
		if got := errors.Is(err, errors.ErrUnsupported); got != c.alone || !errors.Is(err, c.err) {
			t.Errorf("%v: read alone %t, want %t: %v", c.err, got, c.alone, err)
		}
		if _, none := errors.AsType[*promote.UnavailableError](err); none == c.alone {
			t.Errorf("%v: the forge is unavailable: %t", c.err, none)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Statuses{Forge: &bulkForge{err: context.Canceled}}).Bulk(ctx, nil); errors.Is(err,
		errors.ErrUnsupported) {
		t.Errorf("an end of the service is taken for a refusal: %v", err)
	}
}
