// Package service is the long-running process. It puts webhooks and sweeps into the queue, processes hints with the
// bot, evaluates promotions at intervals, reloads its configuration, and serves metrics and probes.
//
// All state is in Git and on the forge: the data folder can be deleted at any time. The package names no concrete
// forge and reads neither files nor the environment: Options carry functions and values for both.
//
// The package is not API: it can change in every release.
package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/queue"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/worker"
	"github.com/sluice-gitops/sluice/review"
	"github.com/sluice-gitops/sluice/service/check"
	"github.com/sluice-gitops/sluice/service/config"
	"github.com/sluice-gitops/sluice/service/events"
	"github.com/sluice-gitops/sluice/service/mirrors"
	"github.com/sluice-gitops/sluice/service/promotions"
	"github.com/sluice-gitops/sluice/service/repository"
	"github.com/sluice-gitops/sluice/service/reviews"
)

const (
	renderMemory  = 1 << 30 // bytes of one render process
	renderTimeout = time.Minute
	reviewMemory  = 2 << 30 // bytes of one review process
)

// Options configure a Service.
type Options struct {
	Load      func() (*config.Config, error) // reads the configuration; Reload calls it again
	Connect   Connect
	Signer    func(keyFile string) (gitstore.Signer, error)
	Runtime   session.Runtime // for all sessions; each session gets the Git credential of its repository
	Log       *slog.Logger
	Transport http.RoundTripper // to forges; nil is the default of each adapter
	Retry     time.Duration     // wait after the first failure of a hint; 0 is the queue's default
}

// Service receives webhooks and executes the tasks that they ask for, on one machine or many. Its methods are safe
// for concurrent use.
type Service struct {
	o          Options
	initial    *config.Config // the configuration at the start, for settings that a reload does not change
	log        *slog.Logger
	clock      func() time.Time
	jobs       int // render processes
	isolation  *isolation
	queue      *queue.Queue
	bot        *bot.Bot
	metrics    *metrics
	sessions   repository.Config
	current    atomic.Pointer[reloadable]
	seen       sync.Map // hint.Place → true: places that occurred in a hint
	notFleets  sync.Map // hint.Place → time.Time at which the trunk had no sluice.yaml
	listings   *listings
	deliveries *redeliveries
	sweeps     *sweepTimes
	writable   *writable
	background sync.WaitGroup // notifications and interrupts
	mirrors    *mirrors.Mirrors
	reviews    *reviews.Store // nil without pages
	events     *events.Ledger // nil without receivers
}

// New opens the queue and connects all parts. The error lists every mistake in the configuration.
func New(ctx context.Context, o Options) (*Service, error) {
	c, err := o.Load()
	if err != nil {
		return nil, err
	}
	clock := o.Runtime.Clock
	s := &Service{
		o: o, initial: c, log: o.Log, clock: clock, jobs: c.Jobs, deliveries: newRedeliveries(o.Log, clock),
		listings: newListings(o.Log, clock),
	}
	s.sweeps = newSweepTimes(c.Sweep, clock)
	s.writable = &writable{dir: c.Data, clock: clock}
	if o.Runtime.Fingerprint = c.Fingerprint.Bytes(); len(o.Runtime.Fingerprint) == 0 {
		o.Runtime.Fingerprint = []byte(rand.Text())
		s.log.Warn("no fingerprint key is configured: fingerprints of secrets change with each start of the service")
	}
	if o.Runtime.Guard, err = fetch.NewGuard(c.Network.Allow...); err != nil {
		return nil, fmt.Errorf("network.allow: %w", err)
	}
	o.Runtime.Crashed = func(err error) {
		s.log.Warn("the process of a review ended; the review runs again", "error",
			err)
	}
	if s.jobs == 0 {
		s.jobs = runtime.GOMAXPROCS(0)
	}
	s.metrics = newMetrics(s)
	if err := s.apply(c); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	if c.Pages.Listen != "" {
		if s.reviews, err = reviews.Open(filepath.Join(c.Data, "reports"),
			reviews.Limits{Bytes: int64(c.Pages.Reports)}, clock); err != nil {
			return nil, err
		}
	}
	if err := s.openQueue(ctx, c); err != nil {
		return nil, err
	}
	if s.events, err = s.newEvents(c); err != nil {
		return nil, errors.Join(err, s.queue.Close())
	}
	if err := s.isolate(ctx, c, o.Runtime.Child); err != nil {
		return nil, errors.Join(err, s.queue.Close())
	}
	s.wire(c, o.Runtime)
	return s, nil
}

func (s *Service) openQueue(ctx context.Context, c *config.Config) error {
	host, err := os.Hostname()
	if err != nil {
		host = "" // the queue has a default name
	}
	s.queue, err = queue.Open(ctx, queue.Config{
		URL: c.Queue.URL, Dir: filepath.Join(c.Data, "queue"), Replicas: c.Queue.Replicas,
		Credentials: c.Queue.Credentials, Name: host, Clock: s.clock,
		Log: s.log, Reviews: c.Reviews, Grace: c.Drain, Backoff: s.o.Retry, OnPark: s.parked,
	})
	if err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	return nil
}

// wire connects renderer, sessions and bot.
func (s *Service) wire(c *config.Config, r session.Runtime) {
	s.mirrors = mirrors.New(filepath.Join(c.Data, "mirrors"), int64(c.Mirrors))
	s.sessions = repository.Config{
		Runtime: r, Renderers: s.renderer, ReviewWorkers: s.isolation.reviewers, Jobs: s.jobs, Mirrors: s.mirrors,
		Verdicts: review.NewCache(), Authors: promotions.NewAuthors(), Protections: repository.NewProtections(),
		Outputs: new(repository.Outputs), Statuses: new(repository.Statuses),
		Checked: lru.New[hydrate.EnvironmentResult](4096), Candidates: promote.NewCandidates(),
		Checks: check.New("sluice/"+r.Version, r.Guard.Transport()), Observe: s.metrics.sessions(),
	}
	shared := bot.Config{}
	// other replicas may review merge requests of the same head, and write comments on the same merge request
	if c.Queue.URL != "" {
		shared.Verdicts, shared.Claims = queue.NewVerdicts(s.queue), queue.NewClaims(s.queue)
		shareReports(s)
	}
	s.bot = bot.New(bot.Config{
		Verdicts: shared.Verdicts, Claims: shared.Claims, Outcomes: queue.NewOutcomes(s.queue),
		Forges: s.forge, Open: s.open, Settings: s.settings,
		PlaceOf: func(address string) (hint.Place, bool) { return s.listings.placeOf(s.state().forges, address) },
		Found:   s.found, Enqueue: s.put, Unpark: s.unpark, Cancel: s.cancel, Reports: newReports(s), Clock: s.clock, Log: s.log,
		Observe: s.metrics.task, EnvironmentPage: s.environmentPage,
	})
}

// isolate starts the workers and logs their confinement.
func (s *Service) isolate(ctx context.Context, c *config.Config, command []string) error {
	var err error
	if s.isolation, err = newIsolation(ctx, isolationOptions{
		command, c.Isolation, s.jobs, c.Workers, c.Reviews,
		s.log,
	}); err != nil {
		return err
	}
	if missing, text := s.isolation.state(); missing > 0 {
		s.log.Warn("worker processes are not fully confined", "mode", c.Isolation, "missing", missing, "report", text)
	} else {
		s.log.Info("worker processes are confined", "mode", c.Isolation, "report", text)
	}
	return nil
}

// renderer returns the renderer for the content of a repository.
func (s *Service) renderer(p hint.Place, trust worker.Trust) renderer.Renderer {
	return observedRenderer{s.isolation.renderer(p, trust), s.clock, s.metrics}
}

// Run processes hints until the context ends, then drains. It returns an error if the queue is stuck: restart the
// process; the hints are on disk.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.queue.Run(ctx, s.initial.Workers, s.do) })
	group.Go(func() error { return followReports(ctx, s) })
	group.Go(func() error { return s.watch(ctx) })
	if s.events != nil {
		group.Go(func() error { s.events.Run(ctx); return nil })
	}
	group.Go(func() error { s.every(ctx, s.initial.Sweep, s.sweep); return nil })
	group.Go(func() error { s.every(ctx, s.initial.Promote, s.promotions); return nil })
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}

// watch returns an error when the queue is stuck.
func (s *Service) watch(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.queue.Stuck(); err != nil {
				return err
			}
		}
	}
}

// Close waits for notifications and closes the queue and the render processes.
func (s *Service) Close() error {
	s.background.Wait()
	s.isolation.close()
	return s.queue.Close()
}

// every calls do at intervals.
func (s *Service) every(ctx context.Context, interval time.Duration, do func(context.Context)) {
	do(ctx)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do(ctx)
		}
	}
}

// sweep enqueues a hint for each repository of the forges that are due, and asks GitHub to send failed webhooks
// again.
func (s *Service) sweep(ctx context.Context) {
	due := map[string]*connected{}
	for name, f := range s.state().forges {
		if s.sweepDue(name, f) {
			due[name] = f
		}
	}
	s.listings.refresh(ctx, due)
	s.enqueueAll(ctx, hint.Sweep, func(p hint.Place) bool { return due[p.Forge()] != nil })
	for name, f := range due {
		if f.Adapter.Deliveries != nil {
			s.deliveries.redeliver(ctx, name, f.Adapter.Deliveries)
		}
	}
}

// promotions enqueues a hint for each trunk, because a gate may have passed.
func (s *Service) promotions(ctx context.Context) {
	s.enqueueAll(ctx, hint.Trunk, func(hint.Place) bool { return true })
}

// enqueueAll enqueues a hint for each selected place.
func (s *Service) enqueueAll(ctx context.Context, kind hint.Kind, selected func(hint.Place) bool) {
	for _, p := range s.places() {
		if !selected(p) {
			continue
		}
		if err := s.put(ctx, hint.Hint{Place: p, Kind: kind}); err != nil && ctx.Err() == nil {
			s.log.Error("cannot enqueue a hint", "repository", p.String(), "kind", kind, "error", err)
		}
	}
}

func (s *Service) put(ctx context.Context, h hint.Hint) error {
	h.At = s.clock()
	return s.queue.Put(ctx, h)
}

// configured reports whether the configuration names a repository itself, not by a pattern.
func (s *Service) configured(p hint.Place) bool {
	f := s.state().forges[p.Forge()]
	return f != nil && slices.Contains(f.Repositories, p.Repo().Path)
}
