package bot

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
)

// oneForge is the forge of several replicas. It keeps statuses by commit and context, as forges do.
type oneForge struct {
	*sharedHead
	during func() // called once, before the next write arrives
}

func (o *oneForge) SetStatus(ctx context.Context, repo forge.Repository, commit string, s forge.Status) error {
	if do := o.during; do != nil {
		o.during = nil
		do()
	}
	return o.sharedHead.SetStatus(ctx, repo, commit, s)
}

func (o *oneForge) Statuses(ctx context.Context, repo forge.Repository, commit string) ([]forge.Status, error) {
	return o.CommitStatuses(ctx, repo, commit)
}

func (o *oneForge) CommitStatuses(context.Context, forge.Repository, string) ([]forge.Status, error) {
	newest := map[string]forge.Status{}
	for _, s := range o.written {
		newest[s.Context] = s
	}
	var out []forge.Status
	for _, s := range newest {
		out = append(out, s)
	}
	return out, nil
}

// brokenVerdicts is a store that does not answer.
type brokenVerdicts struct{}

var errNoAnswer = errors.New("no answer")

func (brokenVerdicts) Verdict(context.Context, hint.Place, int, string) (string, error) {
	return "", errNoAnswer
}
func (brokenVerdicts) Record(context.Context, hint.Place, int, string, string) error { return nil }

// replicas returns two replicas of a service, their forge, and the numbers of the merge requests whose reviews they
// enqueue.
func replicas(t *testing.T, verdicts Verdicts, open ...*forge.MergeRequest) (a, b *task, f *oneForge, enqueued *[]int) {
	t.Helper()
	enqueued = new([]int)
	a, shared := sharing(t, enqueued, open...)
	b, _ = sharing(t, enqueued)
	f = &oneForge{sharedHead: shared}
	for _, j := range []*task{a, b} {
		c := j.Config
		c.Verdicts = verdicts
		j.Bot = New(c)
		j.forge = statusForge{f, j.place, newStatuses(j.Clock)}
		j.statuses = j.forge.statuses
		j.remember(trunkKey, "main")
	}
	return a, b, f, enqueued
}

func say(t *testing.T, j *task, mr *forge.MergeRequest, state forge.StatusState, text string) {
	t.Helper()
	if err := j.say(t.Context(), mr, state, text); err != nil {
		t.Fatal(err)
	}
}

// Two merge requests have one head. A replica that reviewed one of them long ago must not go by that verdict after
// another replica reviewed it again.
func TestVerdictsOfOtherReplicas(t *testing.T) {
	t.Parallel()
	one, two := request(1, "main"), request(2, "main")
	a, b, f, enqueued := replicas(t, newOwnVerdicts(), one, two)
	say(t, a, one, forge.Success, "one")
	say(t, a, two, forge.Success, "two")
	if got := f.last("sluice"); got != forge.Success {
		t.Fatalf("the status is %q after two good reviews", got)
	}
	say(t, b, one, forge.Failure, "the policy fails")
	say(t, a, two, forge.Success, "two, again")
	if got := f.last("sluice"); got != forge.Failure {
		t.Errorf("the status is %q: the replica goes by an old verdict", got)
	}
	if want := []int{2}; !slices.Equal(*enqueued, want) { // by the first review, when the second one was unknown
		t.Errorf("enqueued %v, want %v: a verdict that another replica recorded is known", *enqueued, want)
	}
}

// A replica knows the statuses that it wrote. One that another replica wrote since must not keep it from writing its
// own again.
func TestStatusOfAnotherReplicaIsReplaced(t *testing.T) {
	t.Parallel()
	one := request(1, "main")
	a, b, f, _ := replicas(t, newOwnVerdicts(), one)
	say(t, a, one, forge.Failure, "the policy fails")
	say(t, b, one, forge.Success, "an exemption")
	say(t, a, one, forge.Failure, "the policy fails")
	if got := f.last("sluice"); got != forge.Failure {
		t.Errorf("the status is %q", got)
	}
}

// While the green status of a merge request is on its way to the forge, another replica reviews a second one of the
// same head. The green status arrives last and must not stay.
func TestStatusesOfReplicasCross(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"known before": true, "opened meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two := request(1, "main"), request(2, "main")
			a, b, f, _ := replicas(t, newOwnVerdicts(), one)
			if known {
				f.open = append(f.open, two)
				say(t, a, two, forge.Success, "two")
			}
			f.during = func() {
				if !known {
					f.open = append(f.open, two)
				}
				say(t, b, two, forge.Failure, "the policy fails")
			}
			say(t, a, one, forge.Success, "one")
			if got := f.last("sluice"); got != forge.Failure {
				t.Errorf("the status is %q", got)
			}
		})
	}
}

// A verdict that cannot be read is no good one: the review fails and is repeated.
func TestUnreadableVerdict(t *testing.T) {
	t.Parallel()
	one, two := request(1, "main"), request(2, "main")
	a, _, f, _ := replicas(t, brokenVerdicts{}, one, two)
	if err := a.say(t.Context(), one, forge.Success, "one"); !errors.Is(err, errNoAnswer) {
		t.Errorf("the error is %v", err)
	}
	if len(f.written) > 0 {
		t.Errorf("written: %v", f.written)
	}
}

// A merge request that was closed and is opened again counts as not reviewed.
func TestVerdictsEndWithTheMergeRequest(t *testing.T) {
	t.Parallel()
	one, two := request(1, "main"), request(2, "main")
	a, b, f, _ := replicas(t, newOwnVerdicts(), one, two)
	say(t, a, one, forge.Success, "one")
	if err := b.forgetVerdicts(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	say(t, b, two, forge.Success, "two")
	if got := f.last("sluice"); got != forge.Pending {
		t.Errorf("the status is %q", got)
	}
}
