package bot

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/report"
)

// slowStatuses is a forge whose first write of a status takes until the others are written, or for a moment.
type slowStatuses struct {
	*sharedHead
	mu      sync.Mutex
	begun   chan struct{}
	others  chan struct{}
	written []forge.StatusState
	once    sync.Once
}

func (s *slowStatuses) SetStatus(_ context.Context, _ forge.Repository, _ string, status forge.Status) error {
	first := false
	s.once.Do(func() { first = true })
	if first {
		close(s.begun)
		select {
		case <-s.others:
		case <-time.After(300 * time.Millisecond): // the others wait for this one
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = append(s.written, status.State)
	return nil
}

// Two merge requests of one head are reviewed at the same time, and both were green before. The one that is green again
// is slow to write its status: it must not cover the red one of the other.
func TestVerdictsOfAHeadDoNotOverlap(t *testing.T) {
	t.Parallel()
	var enqueued []int
	green, red := request(1, "main"), request(2, "main")
	j, f := sharing(t, &enqueued, green, red)
	slow := &slowStatuses{sharedHead: f, begun: make(chan struct{}), others: make(chan struct{})}
	j.forge.Forge = slow
	for _, mr := range []*forge.MergeRequest{green, red} {
		if err := j.status(mr, verdictOwn).record(t.Context(), forge.Success, ""); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		if err := j.say(t.Context(), green, forge.Success, "green"); err != nil {
			t.Error(err)
		}
	})
	<-slow.begun
	if err := j.say(t.Context(), red, forge.Failure, "red"); err != nil {
		t.Error(err)
	}
	close(slow.others)
	all.Wait()
	if n := len(slow.written); n == 0 || slow.written[n-1] != forge.Failure {
		t.Errorf("written: %v", slow.written)
	}
	if len(j.statusLocks.held) > 0 {
		t.Errorf("%d heads are held at the end", len(j.statusLocks.held))
	}
}

// Nobody waits for a head after the end of its task, and other heads do not wait at all.
func TestHeadsWaitWithTheirContext(t *testing.T) {
	t.Parallel()
	h := newLocks()
	unlock, err := h.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := h.lock(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	other, err := h.lock(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	unlock()
	if unlock, err = h.lock(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	unlock()
	if len(h.held) > 0 {
		t.Errorf("%d are held", len(h.held))
	}
}

// notebook is a forge with the comments of one merge request, which other tasks can change between a read and a write.
type notebook struct {
	talkingForge
	mu  sync.Mutex
	all []forge.Comment
}

func (n *notebook) Comments(context.Context, forge.Repository, int) ([]forge.Comment, error) {
	n.mu.Lock()
	all := slices.Clone(n.all)
	n.mu.Unlock()
	time.Sleep(time.Millisecond) // the answer is on its way
	return all, nil
}

func (n *notebook) CreateComment(_ context.Context, _ forge.Repository, _ int, body string) (*forge.Comment, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, forge.Comment{ID: int64(len(n.all) + 1), Author: forge.User{Login: "sluice"}, Body: body})
	return &n.all[len(n.all)-1], nil
}

func (n *notebook) EditComment(_ context.Context, _ forge.Repository, _ int, id int64, body string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all[id-1].Body = body
	return nil
}

func (*notebook) React(context.Context, forge.Repository, int, int64, forge.Reaction) error {
	return nil
}

// oneClaim is the claim of a merge request in the store of two replicas.
type oneClaim chan struct{}

func (c oneClaim) Claim(ctx context.Context, _ hint.Place, _ int) (func(), error) {
	select {
	case c <- struct{}{}:
		return func() { <-c }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Two replicas write on one merge request at the same time: they make one comment, and lose nothing of each other. If
// the store does not answer, the task fails and is repeated.
func TestReplicasShareAComment(t *testing.T) {
	t.Parallel()
	hub, claim := &notebook{}, make(oneClaim, 1)
	const tasks = 12
	var all sync.WaitGroup
	for i := range tasks {
		j := following(hub, nil)
		j.Claims, j.hint.Number = claim, 7
		all.Go(func() {
			if err := (&commandTask{task: j}).answered(t.Context(), &forge.Comment{ID: int64(100 + i)}, false,
				report.CommandEntry{Who: "mia", Command: "/sluice retry", Outcome: "done"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := publish.Handled(forge.User{Login: "sluice"}, hub.all); len(hub.all) != 1 || len(got) != tasks {
		t.Errorf("%d comments with the commands %v", len(hub.all), got)
	}
	j := following(hub, nil)
	j.Claims, j.hint.Number = brokenClaims{}, 7
	if err := (&commandTask{task: j}).answered(t.Context(), &forge.Comment{ID: 1}, false); !errors.Is(err,
		errNoAnswer) {
		t.Errorf("a store that does not answer: %v", err)
	}
}

type brokenClaims struct{}

func (brokenClaims) Claim(context.Context, hint.Place, int) (func(), error) { return nil, errNoAnswer }

// Tasks that write on one merge request at the same time lose nothing of each other, and make one comment.
func TestTasksShareAComment(t *testing.T) {
	t.Parallel()
	hub := &notebook{}
	j := following(hub, nil)
	j.hint.Number = 7
	const tasks = 12
	var all sync.WaitGroup
	for i := range tasks {
		all.Go(func() {
			if err := (&commandTask{task: j}).answered(t.Context(), &forge.Comment{ID: int64(100 + i)}, false,
				report.CommandEntry{Who: "mia", Command: "/sluice retry", Outcome: "done"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := publish.Handled(forge.User{Login: "sluice"}, hub.all); len(hub.all) != 1 || len(got) != tasks {
		t.Errorf("%d comments with the commands %v", len(hub.all), got)
	}
	if len(j.commentLocks.held) > 0 {
		t.Errorf("%d locks are held at the end", len(j.commentLocks.held))
	}
}
