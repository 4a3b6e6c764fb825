package bot

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/internal/retry"
)

// locks are by name. Tasks with other names do not wait. It is safe for concurrent use.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	turn  chan struct{} // has a token while somebody has the lock
	users int           // who have it or wait for it
}

func newLocks() *locks { return &locks{held: map[string]*lock{}} }

// lock waits for a lock. The caller calls unlock once, unless there is an error, which is that of the context.
func (h *locks) lock(ctx context.Context, name string) (unlock func(), err error) {
	if ctx.Err() != nil { // select would choose at random
		return nil, ctx.Err()
	}
	h.mu.Lock()
	l := h.held[name]
	if l == nil {
		l = &lock{turn: make(chan struct{}, 1)}
		h.held[name] = l
	}
	l.users++
	h.mu.Unlock()
	leave := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(h.held, name)
		}
	}
	select {
	case l.turn <- struct{}{}:
		return func() { <-l.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// Claims keep processes from writing Sluice's comments on one merge request at the same time.
type Claims interface {
	// Claim waits until no process has the claim of the merge request, and takes it. A claim of a process that died
	// ends by itself.
	Claim(ctx context.Context, p hint.Place, number int) (release func(), err error)
}

// answerIn is how long a write that has begun may go on when its task is cancelled.
const answerIn = 10 * time.Second

// commenting calls a function that writes Sluice's comments on a merge request. The review and the commands of a merge
// request are tasks of two queues, so they can run at the same time, also in two replicas: the lock and the claim keep
// each from writing over what the other one has read, and from creating a second comment. A cancelled task awaits the
// answer to what it has sent, because the forge may write it only after the next task has read the comment.
func (t *task) commenting(ctx context.Context, number int, write func(context.Context) error) error {
	unlock, err := t.commentLocks.lock(ctx, headKey(t.place, number))
	if err != nil {
		return err
	}
	defer unlock()
	if t.Claims != nil {
		release, err := t.Claims.Claim(ctx, t.place, number)
		if err != nil {
			return err
		}
		defer release()
	}
	ctx, end := retry.Grace(ctx, answerIn)
	defer end()
	return write(ctx)
}
