package bot

import (
	"context"
	"sync"
)

// heads holds one lock for each head. Merge requests with the same head share a status, which is the worst of their verdicts. A task
// holds the lock while it reads the verdicts and writes the status. Merge requests with other heads do not wait. heads is safe for
// concurrent use.
type heads struct {
	mu   sync.Mutex
	held map[string]*headLock // by place and head
}

type headLock struct {
	turn  chan struct{} // has a token while somebody has the head
	users int           // who have it or wait for it
}

func newHeads() *heads { return &heads{held: map[string]*headLock{}} }

// lock waits for a head. The caller calls unlock once, unless there is an error, which is that of the context.
func (h *heads) lock(ctx context.Context, head string) (unlock func(), err error) {
	if ctx.Err() != nil { // select would choose at random
		return nil, ctx.Err()
	}
	h.mu.Lock()
	l := h.held[head]
	if l == nil {
		l = &headLock{turn: make(chan struct{}, 1)}
		h.held[head] = l
	}
	l.users++
	h.mu.Unlock()
	leave := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(h.held, head)
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
