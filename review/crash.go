package review

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// call runs a job in a worker process. An error that wraps *LimitError means that the job exceeded a limit.
func (p *parent) call(ctx context.Context, workers *worker.Workers, job string, task any) ([]byte, error) {
	input, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}
	data, err := callWithRetry(ctx, p.session.Runtime.Clock, workers, worker.Call{
		Job: job, Input: input, MaxOutput: reviewOutput, Timeout: reviewTimeout, CPU: reviewCPU, Answer: p.answer,
		Large: isLarge,
	}, func(crash error) error {
		if report := p.session.Runtime.Crashed; report != nil {
			report(crash)
		}
		return p.reset()
	})
	switch {
	case worker.IsLimit(err):
		return nil, &LimitError{err}
	case err != nil:
		return nil, p.explain(err)
	}
	return data, nil
}

// callWithRetry runs a job. If its process ends without having reached a limit, it calls reset and runs the job once
// more in another process: the system may have killed the first one, which may have been idle since another job, or the
// content met a mistake that depends on the order of events. Content that always ends its process costs no more than
// the limits of one job.
func callWithRetry(ctx context.Context, clock func() time.Time, workers *worker.Workers, c worker.Call,
	reset func(crash error) error,
) ([]byte, error) {
	var spent time.Duration
	c.Spent = &spent
	began := clock()
	data, err := workers.Call(ctx, c)
	c.Timeout, c.CPU = c.Timeout-clock().Sub(began), c.CPU-spent
	if !errors.Is(err, worker.ErrCrashed) || ctx.Err() != nil || c.Timeout <= 0 || c.CPU <= 0 {
		return data, err
	}
	if err := reset(err); err != nil {
		return nil, err
	}
	return workers.Call(ctx, c)
}

// reset forgets what a worker process sent and asked. No answer may be in progress.
func (p *parent) reset() error {
	server, err := renderer.NewRemoteServer(p.budget, reviewContents)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renderer, p.failed, p.unreached, p.asked = server, nil, false, 0
	return nil
}
