package worker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// Trust is the trust level of an owner's input.
type Trust string

// The trust levels: Trusted is for commits of a repository's trunk, Untrusted for those of merge requests.
const (
	Trusted   Trust = "trusted"
	Untrusted Trust = "untrusted"
)

// Owner identifies the repository and the trust level that a process works for. A process never changes its owner.
// Owner is comparable.
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

// DefaultLimits suffice for one rendering of every public chart that was tried.
func DefaultLimits() Limits {
	return Limits{Memory: 1 << 30, CPU: 24 * time.Hour, Files: 256, Processes: 512}
}

// Options configure how a Host starts children, and their limits.
type Options struct {
	Command  []string      // a program that calls Serve
	Mode     Mode          // "" means Degraded
	Size     int           // calls at once, at least 1
	Reserved int           // of Size: kept free of untrusted owners, at most Size-1
	PerOwner int           // calls at once of one untrusted owner; 0 means no bound
	Warm     int           // processes started before they are needed
	Limits   Limits        // zero fields take those of DefaultLimits
	Timeout  time.Duration // of a call that sets none; 0 means one minute
	CPU      time.Duration // of a call that sets none; 0 means no bound but Timeout
	MaxCalls int           // of one process, which is replaced then; 0 means 100,000
	// added to the nice value of untrusted owners' processes on Linux, so that the parent and trusted owners go first
	Nice int
	// Changed is called when a child reports another confinement than the child before it: the kernel refuses a
	// namespace that it granted before, or grants it again. Calls do not overlap. It may be nil.
	Changed func(before, now Report)
}

// Call is one task for a child.
type Call struct {
	Job       string
	Input     []byte
	MaxOutput int           // bytes of the answer; 0 means 64 MiB
	Timeout   time.Duration // 0 means the Host's
	CPU       time.Duration // CPU time; 0 means the Host's
	// Spent gets the CPU time that the call took, where the system tells how much that is; nil where nobody asks.
	Spent *time.Duration
	// Answer answers the job's questions; nil refuses them all. It runs in the parent, up to 32 times at once, on input
	// that the child chose. Its error's text goes to the child.
	Answer func(ctx context.Context, name string, input []byte) ([]byte, error)
	// Large reports whether answers to a question can be large; nil means never. At most 4 such questions are open at
	// once: a place becomes free when the child has read the answer.
	Large func(name string) bool
}

const (
	defaultMaxOutput = 64 << 20
	maxInput         = 1 << 30
	maxQuestion      = 16 << 20 // bytes of one question
	startTimeout     = time.Minute
	defaultMaxCalls  = 100_000
)

// Host starts children and shares Size slots between owners. Waiting owners take turns, so that many calls of one do
// not delay those of another. Safe for concurrent use.
type Host struct {
	opts   Options
	starts chan startRequest // to the thread that starts children
	done   chan struct{}     // closed when that thread must end
	choose func(Mode) []separation

	mu        sync.Mutex
	closed    bool
	running   int           // calls
	untrusted int           // of them, by untrusted owners
	owners    map[Owner]int // of them, by each untrusted owner
	idle      []idleProcess // least recently used first
	queues    map[Owner][]*waiter
	turns     []Owner // owners that wait, next one first
	live      map[*process]bool

	reports sync.Mutex // held during Options.Changed
	last    *Report    // of the child that was configured last
}

type idleProcess struct {
	owner   Owner
	key     string // of the granted paths
	warm    bool   // no owner yet
	process *process
}

// NewHost returns a Host. It starts Options.Warm processes now, and others when they are first needed.
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
	h := &Host{
		opts: opts, starts: make(chan startRequest), done: make(chan struct{}), choose: separations,
		queues: map[Owner][]*waiter{}, owners: map[Owner]int{}, live: map[*process]bool{},
	}
	go h.startThread()
	for range opts.Warm {
		go h.warm()
	}
	return h
}

// Workers are the children of one owner.
type Workers struct {
	host  *Host
	owner Owner
	paths []string
}

// For returns the children of an owner, which may read the given files and folders, and nothing else. It starts
// nothing.
func (h *Host) For(owner Owner, paths ...string) *Workers {
	return &Workers{host: h, owner: owner, paths: slices.Clone(paths)}
}

// Check starts a child, which applies and tests its restrictions, and returns the child's report. In mode Required, a
// missing restriction is a *ConfinementError.
func (h *Host) Check(ctx context.Context) (Report, error) {
	p, err := h.start(ctx)
	if err != nil {
		return Report{}, err
	}
	defer h.end(p)
	err = h.configure(ctx, p, Untrusted, nil)
	return p.report, err
}

// configure makes a child apply its restrictions. It calls Options.Changed if the child's report differs from that of
// the child before it.
func (h *Host) configure(ctx context.Context, p *process, trust Trust, paths []string) error {
	cfg := config{Mode: h.opts.Mode, Limits: h.opts.Limits, Paths: paths}
	if trust != Trusted {
		cfg.Nice = h.opts.Nice
	}
	err := p.configure(ctx, cfg)
	if err != nil {
		return err
	}
	h.reports.Lock()
	defer h.reports.Unlock()
	before := h.last
	h.last = &p.report
	if before != nil && !before.equal(p.report) && h.opts.Changed != nil {
		h.opts.Changed(*before, p.report)
	}
	return nil
}

// Owner returns whose children they are.
func (w *Workers) Owner() Owner { return w.owner }

// Call runs a job in a child of the owner and returns its answer. If the child ended, the error is ErrTimeout, ErrCPU,
// ErrMemory, ErrOutput or ErrCrashed. If the job returned an error, it is a *JobError. Other errors are those of ctx
// and of starting a process, ErrProtocol, ErrUnknownJob, *ConfinementError and ErrClosed.
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
	if p := w.host.take(func(i idleProcess) bool {
		return !i.warm && i.owner == w.owner &&
			i.key == w.key()
	}); p != nil {
		return p, nil
	}
	p := w.host.take(func(i idleProcess) bool { return i.warm })
	if p != nil && w.host.opts.Warm > 0 {
		go w.host.warm() //nolint:gosec // the process is for a later caller
	}
	if p == nil {
		var err error
		if p, err = w.host.start(ctx); err != nil {
			return nil, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := w.host.configure(limited, p, w.owner.Trust, w.paths); err != nil {
		w.host.end(p)
		return nil, err
	}
	return p, nil
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

// IsLimit reports whether an error says that a call exceeded one of its limits or crashed its process: the same content
// would do so again.
func IsLimit(err error) bool {
	return slices.ContainsFunc([]error{ErrTimeout, ErrCPU, ErrMemory, ErrOutput, ErrCrashed},
		func(e error) bool { return errors.Is(err, e) })
}
