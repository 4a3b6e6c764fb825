package worker

import (
	"context"
	"slices"
)

type waiter struct{ ready chan struct{} }

// acquire waits for a slot.
func (h *Host) acquire(ctx context.Context, owner Owner) error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return ErrClosed
	}
	if len(h.queues[owner]) == 0 && h.free(owner) {
		h.occupy(owner, 1)
		h.mu.Unlock()
		return nil
	}
	w := &waiter{ready: make(chan struct{})}
	if len(h.queues[owner]) == 0 {
		h.turns = append(h.turns, owner)
	}
	h.queues[owner] = append(h.queues[owner], w)
	h.mu.Unlock()
	select {
	case <-w.ready:
		return h.admitted()
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	queue := h.queues[owner]
	i := slices.Index(queue, w)
	if i < 0 { // it was admitted meanwhile
		if !h.closed {
			h.occupy(owner, -1)
			h.admit()
		}
		return ctx.Err()
	}
	h.setQueue(owner, slices.Delete(queue, i, i+1))
	return ctx.Err()
}

func (h *Host) admitted() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	return nil
}

func (h *Host) release(owner Owner) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.occupy(owner, -1)
	h.admit()
}

// free reports whether an owner may start a call now. h.mu is held.
func (h *Host) free(owner Owner) bool {
	if h.running >= h.opts.Size {
		return false
	}
	if owner.Trust == Trusted {
		return true
	}
	return h.untrusted < h.opts.Size-h.opts.Reserved && (h.opts.PerOwner == 0 || h.owners[owner] < h.opts.PerOwner)
}

func (h *Host) occupy(owner Owner, n int) {
	h.running += n
	if owner.Trust != Trusted {
		h.untrusted += n
		if h.owners[owner] += n; h.owners[owner] == 0 {
			delete(h.owners, owner)
		}
	}
}

// admit lets waiting calls start, one owner after the other. h.mu is held.
func (h *Host) admit() {
	for {
		i := slices.IndexFunc(h.turns, h.free)
		if i < 0 {
			return
		}
		owner := h.turns[i]
		h.turns = append(slices.Delete(h.turns, i, i+1), owner) // it waits for all others before its next turn
		queue := h.queues[owner]
		h.occupy(owner, 1)
		close(queue[0].ready)
		h.setQueue(owner, queue[1:])
	}
}

func (h *Host) setQueue(owner Owner, queue []*waiter) {
	if len(queue) > 0 {
		h.queues[owner] = queue
		return
	}
	delete(h.queues, owner)
	h.turns = slices.DeleteFunc(h.turns, func(o Owner) bool { return o == owner })
}
