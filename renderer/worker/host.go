package worker

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Trust says what the work of an owner is.
type Trust string

// The trust levels: Trusted is what is on a repository's trunk, Untrusted is what a merge request brings.
const (
	Trusted   Trust = "trusted"
	Untrusted Trust = "untrusted"
)

// Owner is who a process belongs to. Processes of different owners are never exchanged. Owner is comparable.
type Owner struct {
	Repository string // its URL or mirror; "" for the only one of a command line
	Trust      Trust
}

// Limits bound one process.
type Limits struct {
	Memory    int64         `json:"memory"`    // bytes; 0 means none
	CPU       time.Duration `json:"cpu"`       // in the life of a process; 0 means none
	Files     int           `json:"files"`     // open descriptors
	Processes int           `json:"processes"` // threads, where the process has a user namespace
}

// DefaultLimits hold one rendering of every public chart that we know.
func DefaultLimits() Limits {
	return Limits{Memory: 1 << 30, CPU: 24 * time.Hour, Files: 256, Processes: 512}
}

// Options say how a Host starts children and what they may use.
type Options struct {
	Command  []string      // a program that calls Serve
	Mode     Mode          // "" means Degraded
	Size     int           // calls at once, at least 1
	Reserved int           // of Size: kept free of untrusted owners, at most Size-1
	Warm     int           // processes started before somebody needs them
	Limits   Limits        // zero fields take those of DefaultLimits
	Timeout  time.Duration // of a call that sets none; 0 means one minute
	CPU      time.Duration // of a call that sets none; 0 means no bound but Timeout
	MaxCalls int           // of one process, which is replaced then; 0 means 100,000
}

// Call is one task for a child.
type Call struct {
	Job       string
	Input     []byte
	MaxOutput int           // bytes of the answer; 0 means 64 MiB
	Timeout   time.Duration // 0 means the Host's
	CPU       time.Duration // CPU time; 0 means the Host's
	// Answer answers the job's questions; nil refuses them all. It runs in the parent, up to 32 times at once, on input that
	// the child chose. Its error's text goes to the child.
	Answer func(ctx context.Context, name string, input []byte) ([]byte, error)
}

const (
	defaultMaxOutput = 64 << 20
	maxInput         = 1 << 30
	maxQuestion      = 16 << 20 // bytes of one question
	startTimeout     = time.Minute
	defaultMaxCalls  = 100_000
)

// Host starts children and shares Size slots between owners. Waiting owners take turns, so that many calls of one do not
// delay those of another. Safe for concurrent use.
type Host struct {
	opts   Options
	starts chan startRequest // to the thread that starts children
	done   chan struct{}     // closed when that thread must end

	mu        sync.Mutex
	closed    bool
	running   int           // calls
	untrusted int           // of them, by untrusted owners
	idle      []idleProcess // least recently used first
	queues    map[Owner][]*waiter
	turns     []Owner // owners that wait, next one first
	live      map[*process]bool
	chosen    int // index into separations
}

type idleProcess struct {
	owner   Owner
	key     string // of the granted paths
	warm    bool   // no owner yet
	process *process
}

type waiter struct{ ready chan struct{} }

type startRequest struct {
	s     separation
	reply chan startReply
}

type startReply struct {
	process *process
	err     error
}

// NewHost makes a Host. Processes start when they are first needed, or now if Options.Warm says so.
func NewHost(opts Options) *Host {
	opts.Mode = cmp.Or(opts.Mode, Degraded)
	opts.Size = max(opts.Size, 1)
	opts.Reserved = min(max(opts.Reserved, 0), opts.Size-1)
	opts.Timeout = cmp.Or(opts.Timeout, time.Minute)
	opts.MaxCalls = cmp.Or(opts.MaxCalls, defaultMaxCalls)
	d := DefaultLimits()
	opts.Limits = Limits{
		Memory: cmp.Or(opts.Limits.Memory, d.Memory), CPU: cmp.Or(opts.Limits.CPU, d.CPU),
		Files: cmp.Or(opts.Limits.Files, d.Files), Processes: cmp.Or(opts.Limits.Processes, d.Processes),
	}
	h := &Host{opts: opts, starts: make(chan startRequest), done: make(chan struct{}), queues: map[Owner][]*waiter{}, live: map[*process]bool{}}
	go h.startThread()
	for range opts.Warm {
		go h.warm()
	}
	return h
}

// startThread starts all children on one thread that lives as long as the Host: the kernel kills a child when the thread
// that started it ends.
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

// Workers are the children of one owner.
type Workers struct {
	host  *Host
	owner Owner
	paths []string
}

// For returns the children of an owner, which may read the given files and folders, and nothing else. It starts nothing.
func (h *Host) For(owner Owner, paths ...string) *Workers {
	return &Workers{host: h, owner: owner, paths: slices.Clone(paths)}
}

// Check starts a child, has it try its walls, and returns what it found. In the mode Required, a missing wall is a
// *ConfinementError.
func (h *Host) Check(ctx context.Context) (Report, error) {
	p, err := h.start(ctx)
	if err != nil {
		return Report{}, err
	}
	defer h.end(p)
	err = p.configure(ctx, h.config(nil))
	return p.report, err
}

func (h *Host) config(paths []string) config {
	return config{Mode: h.opts.Mode, Limits: h.opts.Limits, Paths: paths}
}

// Call runs a job in a child of the owner and returns its answer. Errors: those of ctx, ErrTimeout, ErrCPU, ErrMemory,
// ErrOutput and ErrCrashed for what ended the child, *JobError for what the job says, ErrProtocol, ErrUnknownJob,
// *ConfinementError, ErrClosed, or that of starting a process.
func (w *Workers) Call(ctx context.Context, c Call) ([]byte, error) {
	c.MaxOutput = min(cmp.Or(c.MaxOutput, defaultMaxOutput), maxInput)
	c.Timeout = cmp.Or(c.Timeout, w.host.opts.Timeout)
	c.CPU = cmp.Or(c.CPU, w.host.opts.CPU)
	if err := w.host.acquire(ctx, w.owner); err != nil {
		return nil, err
	}
	defer w.host.release(w.owner)
	p, err := w.process(ctx)
	if err != nil {
		return nil, err
	}
	answer, alive, err := p.call(ctx, &c)
	if alive && p.calls < w.host.opts.MaxCalls {
		w.host.keep(idleProcess{owner: w.owner, key: w.key(), process: p})
	} else {
		w.host.end(p)
	}
	return answer, err
}

func (w *Workers) key() string {
	return strings.Join(w.paths, "\x00")
}

// process takes an idle child of the owner, or starts one.
func (w *Workers) process(ctx context.Context) (*process, error) {
	if p := w.host.take(func(i idleProcess) bool { return !i.warm && i.owner == w.owner && i.key == w.key() }); p != nil {
		return p, nil
	}
	p := w.host.take(func(i idleProcess) bool { return i.warm })
	if p != nil {
		go w.host.warm() //nolint:gosec // the process is for a later caller
	} else {
		var err error
		if p, err = w.host.start(ctx); err != nil {
			return nil, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.configure(limited, w.host.config(w.paths)); err != nil {
		w.host.end(p)
		return nil, err
	}
	return p, nil
}

// take removes the idle process used last that fits, or returns nil.
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

// warm starts a process for whoever needs one next. A failure shows when somebody does.
func (h *Host) warm() {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if p, err := h.start(ctx); err == nil {
		h.keep(idleProcess{warm: true, process: p})
	}
}

// start starts a process, with as many namespaces as the kernel permits.
func (h *Host) start(ctx context.Context) (*process, error) {
	choices := separations(h.opts.Mode)
	h.mu.Lock()
	choice, closed := h.chosen, h.closed
	h.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	for ; ; choice++ {
		reply := make(chan startReply, 1)
		if !h.request(startRequest{choices[choice], reply}) {
			return nil, ErrClosed
		}
		r := <-reply
		if r.err != nil && choice+1 < len(choices) && refusesNamespaces(r.err) {
			continue
		}
		if r.err != nil {
			return nil, r.err
		}
		h.mu.Lock()
		h.chosen = max(h.chosen, choice)
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

// Release ends the idle children of an owner, such as one whose repository goes away.
func (w *Workers) Release() {
	for {
		p := w.host.take(func(i idleProcess) bool { return !i.warm && i.owner == w.owner })
		if p == nil {
			return
		}
		w.host.end(p)
	}
}

// Close ends all children, those at work included. Calls fail from then on.
func (h *Host) Close() {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return
	}
	h.closed = true
	var all []*process
	for p := range h.live {
		all = append(all, p)
	}
	h.idle = nil
	for _, queue := range h.queues {
		for _, w := range queue {
			close(w.ready)
		}
	}
	h.queues, h.turns = map[Owner][]*waiter{}, nil
	h.mu.Unlock()
	var wait sync.WaitGroup
	for _, p := range all {
		wait.Go(func() { h.end(p) })
	}
	wait.Wait()
	close(h.done)
}

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
	return owner.Trust == Trusted || h.untrusted < h.opts.Size-h.opts.Reserved
}

func (h *Host) occupy(owner Owner, n int) {
	h.running += n
	if owner.Trust != Trusted {
		h.untrusted += n
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

// IsLimit reports whether an error says that a call exceeded one of its limits or crashed its process: the same content
// would do so again.
func IsLimit(err error) bool {
	return slices.ContainsFunc([]error{ErrTimeout, ErrCPU, ErrMemory, ErrOutput, ErrCrashed}, func(e error) bool { return errors.Is(err, e) })
}
