package renderer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// Reasons that end a child before it answers. Rendering the same bundle again would end the same way.
var (
	ErrTimeout = worker.ErrTimeout
	ErrMemory  = worker.ErrMemory
	ErrCrashed = worker.ErrCrashed
)

// ErrNoWorkers means that a renderer has no worker processes for Caller.
var ErrNoWorkers = errors.New("the renderer has no worker processes")

// PoolOptions configure how children start and their limits.
type PoolOptions struct {
	Command     []string        // the program that calls worker.Serve with Jobs
	Size        int             // children used at once, at least 1
	Timeout     time.Duration   // for one bundle; 0 means one minute
	MemoryLimit int64           // bytes that a child may use; 0 means that of worker.DefaultLimits
	Workers     *worker.Workers // children of an existing worker.Host; if set, Command and MemoryLimit are ignored
	Mode        worker.Mode     // for a new Host; "" means worker.Degraded
}

// Pool renders in child processes; see package worker for their confinement. If a child dies, only its bundle fails.
// After three bundles of a source exceeded their limits, a Pool refuses the source. It is safe for concurrent use.
type Pool struct {
	opts    PoolOptions
	host    *worker.Host // nil if another component owns it
	workers *worker.Workers
	codec   codec
	err     error
	breaker *breaker
	all     *batcher
}

// NewPool returns a pool. Children start when they are first needed.
func NewPool(opts PoolOptions) *Pool {
	p := &Pool{opts: opts, workers: opts.Workers, breaker: newBreaker()}
	if p.opts.Timeout == 0 {
		p.opts.Timeout = time.Minute
	}
	if p.opts.MemoryLimit == 0 {
		p.opts.MemoryLimit = worker.DefaultLimits().Memory
	}
	if p.workers == nil {
		p.host = worker.NewHost(worker.Options{
			Command: opts.Command, Mode: opts.Mode, Size: opts.Size, Limits: worker.Limits{Memory: p.opts.MemoryLimit},
			Timeout: p.opts.Timeout,
		})
		p.workers = p.host.For(worker.Owner{Trust: worker.Trusted})
	}
	p.codec, p.err = newCodec()
	p.all = &batcher{pool: p, n: max(opts.Size, 1)}
	return p
}

// Prepare starts a child for a later call, in the background. A pool whose Host belongs to another component starts
// none.
func (p *Pool) Prepare() {
	if p.host != nil && p.err == nil {
		p.host.Prepare()
	}
}

// Render sends the bundle to a child and waits for its answer.
func (p *Pool) Render(ctx context.Context, b *Bundle) (*Rendering, error) {
	if p.err != nil {
		return nil, p.err
	}
	return p.all.Render(ctx, b)
}

// AtOnce returns a renderer that uses at most n of the pool's children at once. Reviews that share the worker processes
// of a repository get one each, so that none of them takes all processes.
func (p *Pool) AtOnce(n int) Renderer {
	if p.err != nil {
		return p
	}
	return &batcher{pool: p, n: n}
}

// objectOverhead is the number of bytes that an object may take in an answer in addition to its YAML.
const objectOverhead = 4 << 10

// Caller runs jobs other than renderings in the worker processes of a Renderer. Such a job reads input of a merge
// request that is not a bundle, such as the repository of another tool. It is safe for concurrent use.
type Caller interface {
	Call(ctx context.Context, c worker.Call) ([]byte, error)
}

// Wrapper is a Renderer that adds something to another one, such as measurements.
type Wrapper interface {
	Renderer
	Unwrap() Renderer
}

// CallerOf returns the worker processes of a renderer. It reports false if the renderer has none of its own.
func CallerOf(r Renderer) (Caller, bool) {
	switch r := r.(type) {
	case *batcher:
		return r.pool, true
	case Caller:
		return r, true
	case Wrapper:
		return CallerOf(r.Unwrap())
	}
	return nil, false
}

// A Pool has worker processes. An Engine renders in this process, and a Remote is in a worker already.
var _ Caller = (*Pool)(nil)

// Call implements Caller.
func (p *Pool) Call(ctx context.Context, c worker.Call) ([]byte, error) {
	return p.workers.Call(ctx, c)
}

// safe escapes all texts that are shown and not part of an object.
func (r *Rendering) safe() *Rendering {
	for i, n := range r.Notes {
		r.Notes[i] = safetext.Message(n, 1, errorWidth)
	}
	for i := range r.Objects {
		r.Objects[i].Source = safetext.Brief(r.Objects[i].Source, errorPath)
	}
	return r
}

// advise adds the next step to the error that ended a child.
func (p *Pool) advise(err error) error {
	switch {
	case errors.Is(err, worker.ErrTimeout):
		return fmt.Errorf("%w: simplify the templates or raise --render-timeout", err)
	case errors.Is(err, worker.ErrMemory):
		return fmt.Errorf("%w (more than %d MiB): look for a template that repeats without end, or raise --render-memory", err, p.opts.MemoryLimit>>20)
	default:
		return err
	}
}

// Close ends the children, unless another component owns the Host.
func (p *Pool) Close() {
	if p.host != nil {
		p.host.Close()
	}
}
