package renderer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gitops/sluice/renderer/worker"
)

// Limits of one call to a child that renders several bundles. Only light bundles share a call. A call costs the wake-up
// of both processes, after which each Go runtime looks for work every 20 µs for a while. Calls of 64 bundles take an
// eighth less processor time than calls of 16. The bundles of one call have at most maxBatch × LightBytes of YAML.
// Their values are bounded too: the child reads those of all bundles, and the parent sends them again for the bundles
// without an answer.
const (
	maxBatch   = 64
	batchInput = 1 << 20               // bytes of values and the like; a bundle with more has a call of its own
	batchTime  = 50 * time.Millisecond // the child answers after the bundle during which this ends
	// then the child is stopped, and each bundle is rendered alone, with its full time
	batchTimeout = 5 * time.Second
)

// InFlight is the number of concurrent calls of Render, for each process, from which a Pool benefits: one batch is
// rendered while the calls of the next one arrive. With a single batch, a child that ends one finds only the first
// callers that have come back.
const InFlight = 2 * maxBatch

// batcher renders in at most n children at once. Bundles that wait share a call, because a call costs as much as
// rendering a small chart. If a call of several bundles fails for any reason, each is rendered alone, so that one
// bundle never fails another. It is safe for concurrent use.
type batcher struct {
	pool *Pool
	n    int

	mu      sync.Mutex
	waiting []*pending
	running int
}

// pending is one call of Render.
type pending struct {
	ctx     context.Context //nolint:containedctx // that of the call
	bundle  *Bundle
	content sourceSet
	input   int           // bytes
	alone   bool          // shares no call
	done    chan struct{} // closed when out and err are set
	out     *Rendering
	err     error
}

func (p *pending) finish(out *Rendering, err error) {
	p.out, p.err = out, err
	close(p.done)
}

// Render implements Renderer.
func (l *batcher) Render(ctx context.Context, b *Bundle) (*Rendering, error) {
	content := sourceSet{l.pool.workers.Owner(), b.contentKey()}
	if err := l.pool.breaker.check(content); err != nil {
		return nil, err
	}
	p := &pending{ctx: ctx, bundle: b, content: content, input: b.inputSize(), alone: !b.Light ||
		l.pool.breaker.suspects(content), done: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, p)
	start := l.running < l.n
	if start {
		l.running++
	}
	l.mu.Unlock()
	if start {
		go l.run() //nolint:contextcheck // for all calls that wait, each with its own context
	}
	select {
	case <-p.done:
		return p.out, p.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run renders until no call waits.
func (l *batcher) run() {
	for batch := l.next(); batch != nil; batch = l.next() {
		if len(batch) == 1 {
			batch[0].finish(l.pool.renderAlone(batch[0]))
		} else {
			l.renderTogether(batch)
		}
	}
}

// next takes the calls that a child gets next, and nil if none waits. The other children get their share.
func (l *batcher) next() []*pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(p *pending) bool { return p.ctx.Err() != nil })
	if len(l.waiting) == 0 {
		l.running--
		return nil
	}
	share := min((len(l.waiting)+l.n-1)/l.n, maxBatch)
	if l.waiting[0].alone {
		share = 1
	}
	var batch, rest []*pending
	input := 0
	for _, p := range l.waiting {
		if len(batch) == 0 || len(batch) < share && !p.alone && input+p.input <= batchInput {
			batch = append(batch, p)
			input += p.input
		} else {
			rest = append(rest, p)
		}
	}
	l.waiting = rest
	return batch
}

// renderTogether renders bundles in one call. Those without an answer wait again.
func (l *batcher) renderTogether(batch []*pending) {
	ctx, cancel := together(batch)
	defer cancel()
	answers, err := l.pool.call(ctx, min(batchTimeout, l.pool.opts.Timeout), batch)
	if err != nil {
		for _, p := range batch {
			p.alone = true
			if worker.IsLimit(err) {
				l.pool.breaker.suspect(p.content)
			}
		}
	}
	for i := range answers {
		batch[i].finish(answers[i].result())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.Concat(batch[len(answers):], l.waiting)
}

// together returns a context that ends when those of all calls have ended.
func together(batch []*pending) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	var ended atomic.Int64
	stops := make([]func() bool, len(batch))
	for i, p := range batch {
		stops[i] = context.AfterFunc(p.ctx, func() {
			if ended.Add(1) == int64(len(batch)) {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// renderAlone renders one bundle with its full time.
func (p *Pool) renderAlone(one *pending) (*Rendering, error) {
	if err := p.breaker.check(one.content); err != nil {
		return nil, err
	}
	answers, err := p.call(one.ctx, p.opts.Timeout, []*pending{one})
	if worker.IsLimit(err) {
		p.breaker.add(one.content, err)
		return nil, p.advise(err)
	}
	if err != nil {
		return nil, err
	}
	return answers[0].result()
}

// call renders bundles in a child, which answers at least the first one. It validates the answers.
func (p *Pool) call(ctx context.Context, timeout time.Duration, batch []*pending) ([]answer, error) {
	bundles := make([]Bundle, len(batch))
	for i, one := range batch {
		bundles[i] = one.bundle.stripped()
	}
	input, err := p.codec.enc.Marshal(bundles)
	if err != nil {
		return nil, fmt.Errorf("write a bundle: %w", err)
	}
	limits := DefaultLimits()
	data, err := p.workers.Call(ctx, worker.Call{
		Job: JobRender, Input: input, Timeout: timeout,
		MaxOutput: limits.MaxOutput + limits.Objects*objectOverhead,
		Answer: func(_ context.Context, name string, digest []byte) ([]byte, error) {
			return supply(p.codec, batch, name, digest)
		},
	})
	if err != nil {
		return nil, err
	}
	return p.codec.answers(data, bundles)
}
