package service

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// isolation starts the worker processes that untrusted content is processed in. Processes belong to one repository and trust level,
// and repositories take turns for them. It is safe for concurrent use.
type isolation struct {
	host    *worker.Host  // renders
	reviews *worker.Host  // reviews merge requests; apart, because a review waits for renderings
	report  worker.Report // of the self-test at the start

	mu    sync.Mutex
	pools map[worker.Owner]*renderer.Pool // they remember which charts exceed their limits
}

// newIsolation starts a worker and has it try what it must not be able to do. In the mode required a missing wall is an error.
func newIsolation(ctx context.Context, command []string, mode worker.Mode, jobs, reviews int) (*isolation, error) {
	size := max(jobs, 2) // one slot is never taken by merge requests
	host := worker.NewHost(worker.Options{
		Command: command, Mode: mode, Size: size, Reserved: max(size/4, 1), Timeout: renderTimeout, Limits: worker.Limits{Memory: renderMemory},
	})
	report, err := host.Check(ctx)
	if err != nil {
		host.Close()
		return nil, fmt.Errorf("isolation: %w", err)
	}
	reviewers := worker.NewHost(worker.Options{Command: command, Mode: mode, Size: reviews, Limits: worker.Limits{Memory: reviewMemory}})
	return &isolation{host: host, reviews: reviewers, report: report, pools: map[worker.Owner]*renderer.Pool{}}, nil
}

// renderer returns what renders the content of a repository's trunk or of its merge requests.
func (i *isolation) renderer(p hint.Place, trust worker.Trust) renderer.Renderer {
	owner := worker.Owner{Repository: p.String(), Trust: trust}
	i.mu.Lock()
	defer i.mu.Unlock()
	pool := i.pools[owner]
	if pool == nil {
		pool = renderer.NewPool(renderer.PoolOptions{Workers: i.host.For(owner), Timeout: renderTimeout, MemoryLimit: renderMemory})
		i.pools[owner] = pool
	}
	return pool
}

// reviewers returns the workers that review the merge requests of a repository.
func (i *isolation) reviewers(repository string, folders ...string) *worker.Workers {
	return i.reviews.For(worker.Owner{Repository: repository, Trust: worker.Untrusted}, folders...)
}

// close ends all workers.
func (i *isolation) close() {
	i.reviews.Close()
	i.host.Close()
}

// missing counts the walls that do not stand.
func (i *isolation) missing() int { return len(i.report.Missing()) }
