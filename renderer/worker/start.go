package worker

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
)

type startRequest struct {
	s     separation
	reply chan startReply
}

type startReply struct {
	process *process
	err     error
}

// startThread starts all children on one thread that lives as long as the Host: the kernel kills a child when the
// thread that started it ends.
func (h *Host) startThread() {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	for {
		select {
		case r := <-h.starts:
			p, err := startProcess(h.opts.Command, r.s)
			r.reply <- startReply{p, err}
		case <-h.done:
			return
		}
	}
}

// take removes and returns the most recently used idle process for which fits returns true, or nil.
func (h *Host) take(fits func(idleProcess) bool) *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, idle := range slices.Backward(h.idle) {
		if fits(idle) {
			h.idle = slices.Delete(h.idle, i, i+1)
			return idle.process
		}
	}
	return nil
}

// keep puts a process aside, and ends the one that was not used for longest if there are too many.
func (h *Host) keep(i idleProcess) {
	h.mu.Lock()
	var extra []*process
	if h.closed {
		extra = append(extra, i.process)
	} else {
		h.idle = append(h.idle, i)
		for most := 2*h.opts.Size + h.opts.Warm; len(h.idle) > most; {
			extra = append(extra, h.idle[0].process)
			h.idle = h.idle[1:]
		}
	}
	h.mu.Unlock()
	for _, p := range extra {
		h.end(p)
	}
}

// Prepare starts a process for a later call and does not wait for it: a process takes some hundredths of a second to
// start. Without a later call, the process is idle until Close.
func (h *Host) Prepare() { go h.warm() }

// warm starts an idle process for a later call. It ignores errors: that call starts a process itself and returns the
// error.
func (h *Host) warm() {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if p, err := h.start(ctx); err == nil {
		h.keep(idleProcess{warm: true, process: p})
	}
}

// start starts a process, with as many namespaces as the kernel permits now: a refusal can be temporary, such as that
// of a user who has too many of them.
func (h *Host) start(ctx context.Context) (*process, error) {
	h.mu.Lock()
	closed, choices := h.closed, h.choose(h.opts.Mode)
	h.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	for i, choice := range choices {
		reply := make(chan startReply, 1)
		if !h.request(startRequest{choice, reply}) {
			return nil, ErrClosed
		}
		r := <-reply
		if r.err != nil && i+1 < len(choices) && refusesNamespaces(r.err) {
			continue
		}
		if r.err != nil {
			return nil, r.err
		}
		h.mu.Lock()
		closed := h.closed
		if !closed {
			h.live[r.process] = true
		}
		h.mu.Unlock()
		if closed || ctx.Err() != nil {
			h.end(r.process)
			return nil, cmp.Or(ctx.Err(), ErrClosed)
		}
		return r.process, nil
	}
	return nil, errors.ErrUnsupported // separations always ends with one that works
}

// request hands a request to the starting thread, unless that has ended.
func (h *Host) request(r startRequest) bool {
	select {
	case h.starts <- r:
		return true
	case <-h.done:
		return false
	}
}

// end kills a process.
func (h *Host) end(p *process) {
	p.kill()
	h.mu.Lock()
	delete(h.live, p)
	h.mu.Unlock()
}
