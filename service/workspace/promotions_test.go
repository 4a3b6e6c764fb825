package workspace

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
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
