package service

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// isolation starts the worker processes for untrusted content. Processes belong to one repository and trust level, and
// repositories take turns using the slots. Each of several reviews of one repository leaves slots to the others. It is
// safe for concurrent use.
type isolation struct {
	host    *worker.Host // for renderings
	size    int          // renderings at once
	atOnce  int          // renderings of one review
	trunk   int          // renderings of one task of a trunk
	reviews *worker.Host // for reviews of merge requests; separate, because a review waits for renderings
	log     *slog.Logger

	mu     sync.Mutex
	report worker.Report                   // of the self-test when the service started
	latest map[*worker.Host]worker.Report  // of hosts whose workers are now confined differently
	pools  map[worker.Owner]*renderer.Pool // kept, because they record which charts exceed their limits
}

// niceness gives the content of merge requests about a tenth of a busy processor beside the service itself and its
// trunks, so that a command is quick while merge requests use every processor.
const niceness = 10

// isolationOptions configure the workers of a service.
type isolationOptions struct {
	command []string
	mode    worker.Mode
	jobs    int // renderings at once
	workers int // reviews at once
	reviews int // of them, of one repository
	log     *slog.Logger
}

// newIsolation starts a worker, which attempts everything that it must not be able to do. In the mode required, a
// missing restriction is an error.
func newIsolation(ctx context.Context, o isolationOptions) (*isolation, error) {
	slots := max(o.jobs, 2)
	reserved := max(slots/4, 1) // slots that merge requests never use
	// one more for each further review of a repository, even if the first one uses all that it may
	beside := o.reviews - 1
	i := &isolation{
		log: o.log, size: slots + beside + 1, atOnce: slots - reserved, trunk: o.jobs + 1,
		latest: map[*worker.Host]worker.Report{}, pools: map[worker.Owner]*renderer.Pool{},
	}
	i.host = worker.NewHost(worker.Options{
		// one more slot is for another repository
		Command: o.command, Mode: o.mode, Size: i.size, Reserved: reserved, PerOwner: i.atOnce + beside,
		Timeout: renderTimeout, Limits: worker.Limits{Memory: renderMemory}, Nice: niceness,
		Changed: func(_, now worker.Report) { i.changed(i.host, now) },
	})
	var err error
	if i.report, err = i.host.Check(ctx); err != nil {
		i.host.Close()
		return nil, fmt.Errorf("isolation: %w", err)
	}
	i.reviews = worker.NewHost(worker.Options{
		Command: o.command, Mode: o.mode, Size: o.workers, Limits: worker.Limits{Memory: reviewMemory}, Nice: niceness,
		Changed: func(_, now worker.Report) { i.changed(i.reviews, now) },
	})
	return i, nil
}

// changed records that new workers of a host are confined differently than earlier ones.
func (i *isolation) changed(host *worker.Host, now worker.Report) {
	i.mu.Lock()
	i.latest[host] = now
	lost := now.Lost(i.report)
	i.mu.Unlock()
	if len(lost) > 0 || !now.Complete() {
		i.log.Warn("worker processes are confined less than at the start", "lost", strings.Join(lost, ", "), "report",
			now.String())
		return
	}
	i.log.Info("worker processes are confined as at the start", "report", now.String())
}

// renderer returns the renderer for the content of a repository's trunk or of one of its merge requests, for one task.
// A trunk has one process more than processors, so that a slow target does not stop the others; with all processes that
// other repositories leave, each would get fewer targets in a call, and learn every chart: an eighth more processor
// time for a large hydration on one processor.
func (i *isolation) renderer(p hint.Place, trust worker.Trust) renderer.Renderer {
	n := i.trunk
	if trust == worker.Untrusted {
		n = i.atOnce
	}
	return i.pool(p, trust).AtOnce(n)
}

// pool returns the workers of a repository's trunk, or of its merge requests.
func (i *isolation) pool(p hint.Place, trust worker.Trust) *renderer.Pool {
	owner := worker.Owner{Repository: p.String(), Trust: trust}
	i.mu.Lock()
	defer i.mu.Unlock()
	pool := i.pools[owner]
	if pool == nil {
		pool = renderer.NewPool(renderer.PoolOptions{
			Workers: i.host.For(owner), Size: i.size, Timeout: renderTimeout,
			MemoryLimit: renderMemory,
		})
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

// missing returns the number of missing restrictions, and of mechanisms that the self-test at the start had and workers
// have lost since.
func (i *isolation) missing() int {
	n, _ := i.state()
	return n
}

// state returns the number of missing restrictions and a line for people.
func (i *isolation) state() (missing int, text string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	missing, text = len(i.report.Missing()), i.report.String()
	for _, now := range i.latest {
		lost := now.Lost(i.report)
		if n := len(now.Missing()) + len(lost); n > missing {
			missing, text = n, now.String()+"; lost since the start: "+strings.Join(lost, ", ")
		}
	}
	return missing, text
}

// restrictions returns the result of the self-test at the start.
func (i *isolation) restrictions() []worker.Restriction {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.report.Restrictions)
}
