package app

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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/github"
	"github.com/sluice-gitops/sluice/bot/forge/gitlab"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/queue"
	"github.com/sluice-gitops/sluice/cmd/internal/config"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/notify"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/webhook"
)

const renderMemory = 1 << 30

// configured is a forge with its adapter.
type configured struct {
	config.Forge
	adapter Forge
	tokens  func(ctx context.Context, repo forge.Repository) (string, error) // of the GitHub App; nil without one
	base    Environment
}

// environment gives Git the forge's credential: the one that pushes, or the one that reads.
func (f *configured) environment(ctx context.Context, repo forge.Repository, push bool) (Environment, error) {
	secret := f.GitToken
	if push && f.PushToken.Set() {
		secret = f.PushToken
	}
	token := string(secret.Bytes())
	if token == "" {
		token = string(f.Token.Bytes())
	}
	if token == "" && f.tokens != nil {
		var err error
		if token, err = f.tokens(ctx, repo); err != nil {
			return Environment{}, err
		}
	}
	user := "oauth2"
	if f.Kind == "github" {
		user = "x-access-token"
	}
	env, outer := f.base, f.base.Getenv
	env.Getenv = func(name string) string {
		switch name {
		case "SLUICE_GIT_USERNAME":
			return user
		case "SLUICE_GIT_TOKEN":
			return token
		case "SLUICE_GIT_PASSWORD":
			return ""
		}
		return outer(name)
	}
	return env, nil
}

// notifier tells the receivers of a repository.
func (f *configured) notifier(repository string) *notify.Notifier {
	var list []config.Receiver
	for _, r := range f.Receivers {
		if r.Concerns(repository) {
			list = append(list, r)
		}
	}
	return newNotifier(list)
}

func configure(f config.Forge, env Environment, transport http.RoundTripper, clock func() time.Time) (*configured, error) {
	out := &configured{Forge: f, base: env}
	agent := "sluice/" + Version()
	if f.Kind == "gitlab" {
		a, err := gitlab.New(gitlab.Config{URL: f.API, Token: string(f.Token.Bytes()), Transport: transport, Clock: clock, UserAgent: agent})
		out.adapter = a
		return out, err
	}
	c := github.Config{URL: f.API, Token: string(f.Token.Bytes()), Transport: transport, Clock: clock, UserAgent: agent}
	if f.App.ID != 0 {
		c.Token, c.App = "", &github.App{ID: f.App.ID, PrivateKey: f.App.Key.Bytes()}
	}
	a, err := github.New(c)
	if err != nil {
		return nil, err
	}
	out.adapter = a
	if c.App != nil {
		out.tokens = a.GitToken
	}
	return out, nil
}

// ServiceOptions are what a Service is made of.
type ServiceOptions struct {
	Env       Environment
	Load      func() (*config.Config, error) // reads the configuration, again on Reload
	Log       *slog.Logger
	Transport http.RoundTripper // to forges; nil is each adapter's own
	Clock     func() time.Time  // nil is the system's
	Retry     time.Duration     // wait after a first failure; 0 is the queue's default
}

// Service receives webhooks and does what they ask for, on one machine or many.
type Service struct {
	o           ServiceOptions
	config      *config.Config // as it was at the start: what a reload does not change
	log         *slog.Logger
	clock       func() time.Time
	key         []byte
	jobs        int
	pool        *renderer.Pool
	renderer    renderer.Renderer // the pool, or a farm of all replicas
	inFlight    int               // renderings that it can make use of at once
	mirrors     *mirrors
	queue       *queue.Queue
	bot         *bot.Bot
	metrics     *metrics
	now         atomic.Pointer[reloadable]
	seen        sync.Map // places that a hint named
	listings    *listings
	telling     sync.WaitGroup // receivers
	barren      sync.Map       // place → when it was found to be no fleet
	verdicts    *verdicts
	undelivered *redeliveries
}

// reloadable is what a reload changes.
type reloadable struct {
	config *config.Config
	forges map[string]*configured
	hooks  http.Handler
	signer gitstore.Signer // of rendered commits; nil: they are not signed
}

func (s *Service) state() *reloadable { return s.now.Load() }

// NewService opens the queue and makes all parts. Everything that is wrong with the configuration is told at once.
func NewService(ctx context.Context, o ServiceOptions) (*Service, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	c, err := o.Load()
	if err != nil {
		return nil, err
	}
	s := &Service{o: o, config: c, log: o.Log, clock: o.Clock, key: c.Fingerprint.Bytes(), jobs: c.Jobs, undelivered: newRedeliveries(o.Log, o.Clock), listings: newListings(o.Log, o.Clock), verdicts: newVerdicts()}
	if len(s.key) == 0 {
		s.key = []byte(rand.Text())
		s.log.Warn("no fingerprint key is configured: fingerprints of secrets change when the service starts again")
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
	s.mirrors = &mirrors{dir: filepath.Join(c.Data, "mirrors"), most: int64(c.Mirrors), busy: map[string]int{}, bad: map[string]bool{}}
	s.pool = newPool(o.Env, Options{Jobs: s.jobs, RenderTimeout: time.Minute, RenderMemory: renderMemory})
	host, _ := os.Hostname()
	s.queue, err = queue.Open(ctx, queue.Config{
		URL: c.Queue.URL, Dir: filepath.Join(c.Data, "queue"), Replicas: c.Queue.Replicas, Credentials: c.Queue.Credentials, Name: host, Clock: o.Clock,
		Log: o.Log, Grace: c.Drain, Backoff: o.Retry, OnPark: s.parked,
	})
	if err != nil {
		s.pool.Close()
		return nil, fmt.Errorf("queue: %w", err)
	}
	s.renderer, s.inFlight = countedRenderer{s.pool, s.metrics}, s.jobs
	if s.shared() {
		s.renderer, s.inFlight = renderer.NewFarm(s.renderer, s.jobs, s.queue, shardVersion()), renderer.FarmInFlight
	}
	s.bot = bot.New(bot.Config{
		Forges: botForges{s}, Workspaces: workspaces{s}, Settings: s.settings, Again: s.put, Unpark: s.unpark, Cancel: s.cancel, Clock: o.Clock, Log: o.Log, Observe: s.metrics.task,
	})
	return s, nil
}

// apply makes what a configuration says of forges and hooks.
func (s *Service) apply(c *config.Config) error {
	next := &reloadable{config: c, forges: map[string]*configured{}}
	var endpoints []webhook.Endpoint
	var problems []error
	for _, f := range c.Forges {
		one, err := configure(f, s.o.Env, s.metrics.transport(f.Name, s.o.Transport, s.log), s.clock)
		if err != nil {
			problems = append(problems, fmt.Errorf("forge %s: %w", f.Name, err))
			continue
		}
		next.forges[f.Name] = one
		e := webhook.Endpoint{Forge: f.Name, Kind: f.Kind, Path: "/hooks/" + f.Name}
		for _, secret := range f.Secrets {
			e.Secrets = append(e.Secrets, string(secret.Bytes()))
		}
		for _, secret := range f.Signing {
			e.Signing = append(e.Signing, string(secret.Bytes()))
		}
		endpoints = append(endpoints, e)
	}
	if c.SignKey != "" {
		signer, err := s.o.Env.signer(c.SignKey)
		problems, next.signer = append(problems, wrapped("signKey", err)), &oneAtATime{signer: signer}
	}
	hooks, err := webhook.New(webhook.Config{Endpoints: endpoints, Sink: sink{s}, Clock: s.clock, Log: s.log, Observe: s.metrics.webhook})
	if err = errors.Join(append(problems, err)...); err != nil {
		return err
	}
	next.hooks = hooks
	s.now.Store(next)
	return nil
}

func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Reload reads the configuration again: forges, secrets, repositories and settings. With an error all stays as it was.
func (s *Service) Reload() error {
	c, err := s.o.Load()
	if err != nil {
		return err
	}
	if err := s.apply(c); err != nil {
		return err
	}
	if later := config.Restart(s.config, c); len(later) > 0 {
		s.log.Warn("some settings change only when the service starts again", "settings", strings.Join(later, ", "))
	}
	return nil
}

// shared says that replicas render large hydrations together.
func (s *Service) shared() bool {
	if s.config.Queue.Shards != nil {
		return *s.config.Queue.Shards
	}
	return s.config.Queue.URL != ""
}

// shardVersion is what a rendering depends on besides its bundle: replicas of other versions render otherwise.
func shardVersion() string { return hydrate.Epoch + " of " + Version() }

// shard renders a part of some replica's hydration.
func (s *Service) shard(ctx context.Context, job []byte) ([]byte, error) {
	out, err := renderer.RenderShard(ctx, countedRenderer{s.pool, s.metrics}, shardVersion(), job)
	s.metrics.shards.WithLabelValues(resultOf(err)).Inc()
	return out, err
}

// Run works until the context ends, then drains. It ends with an error when the queue is stuck: whoever started the process
// starts it again, and what the queue holds is on disk.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	shards, drained := context.WithCancel(context.WithoutCancel(ctx)) // what drains may wait for a shard
	group.Go(func() error {
		defer drained()
		return s.queue.Run(ctx, s.config.Workers, s.do)
	})
	if s.shared() {
		for range s.jobs {
			group.Go(func() error { return s.queue.RunShards(shards, s.shard) })
		}
	}
	group.Go(func() error { return s.watch(ctx) })
	group.Go(func() error { s.every(ctx, s.config.Sweep, s.sweep); return nil })
	group.Go(func() error { s.every(ctx, s.config.Promote, s.promotions); return nil })
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}

// tell tells receivers of branches that moved, while the work goes on.
func (s *Service) tell(ctx context.Context, n *notify.Notifier, repository string, moves []notify.Move) {
	const most = time.Minute
	s.telling.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
		defer cancel()
		err := n.Tell(ctx, repository, moves)
		s.metrics.notified.WithLabelValues(resultOf(err)).Inc()
		if err != nil {
			s.log.Warn("receivers were not told of all branches that moved: they find out at their next look", "repository", repository, "error", err)
		}
	})
}

// watch looks at the queue until it is stuck.
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

// Close ends the queue and the render processes.
func (s *Service) Close() error {
	s.telling.Wait()
	s.pool.Close()
	return s.queue.Close()
}

func (s *Service) every(ctx context.Context, d time.Duration, do func(context.Context)) {
	do(ctx)
	tick := time.NewTicker(d)
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

// sweep has all repositories looked at, and on GitHub webhooks that did not arrive sent again.
func (s *Service) sweep(ctx context.Context) {
	s.listings.look(ctx, s.state().forges)
	for _, p := range s.places() {
		if err := s.put(ctx, hint.Hint{Place: p, Kind: hint.Sweep}); err != nil && ctx.Err() == nil {
			s.log.Error("sweep", "repository", p.String(), "error", err)
		}
	}
	for name, f := range s.state().forges {
		d, ok := f.adapter.(forge.Deliveries)
		if !ok {
			continue
		}
		s.undelivered.look(ctx, name, d)
	}
}

// promotions has the trunks looked at: what a promotion waits for may have come.
func (s *Service) promotions(ctx context.Context) {
	for _, p := range s.places() {
		if err := s.put(ctx, hint.Hint{Place: p, Kind: hint.Trunk}); err != nil && ctx.Err() == nil {
			s.log.Error("promotions", "repository", p.String(), "error", err)
		}
	}
}

func (s *Service) put(ctx context.Context, h hint.Hint) error {
	h.At = s.clock()
	return s.queue.Put(ctx, h)
}

// do does what a hint asks for. A rate limit is waited out, without counting as a failure.
func (s *Service) do(ctx context.Context, h hint.Hint) error {
	p := h.Place
	if !s.knows(p) {
		return nil // no longer, or never ours
	}
	s.seen.Store(p, true)
	ctx, end := s.metrics.span(ctx, "task "+string(h.Kind), h)
	err := s.bot.Do(ctx, h)
	if errors.Is(err, bot.ErrNoFleet) {
		s.barren.Store(p, s.clock())
		if slices.Contains(s.state().forges[p.Forge()].Repositories, p.Repo().Path) {
			s.log.Warn("the repository has no sluice.yaml on its trunk", "repository", h.Place)
		}
		err = nil
	} else if err == nil && h.Kind == hint.Trunk {
		s.barren.Delete(p)
	}
	end(err)
	if limit, ok := errors.AsType[*forge.RateLimitError](err); ok {
		return &queue.Delay{Until: limit.Until, Err: err}
	}
	if later, ok := errors.AsType[*bot.Later](err); ok {
		return &queue.Delay{Until: later.Until, Err: err}
	}
	if err != nil && ctx.Err() == nil {
		if damaged(err) {
			s.mirrors.suspect(p) // it costs a clone, and Git has all of it
		}
		s.log.Warn("task failed", "repository", h.Place, "kind", h.Kind, "number", h.Number, "delivery", h.ID, "error", err)
	}
	return err
}

// parked tells of a hint that failed too often: on the merge request, if it is one's.
func (s *Service) parked(h hint.Hint, why error) {
	s.log.Error("a task failed too often and is parked", "repository", h.Place, "kind", h.Kind, "number", h.Number, "error", why)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.bot.Parked(ctx, h, why); err != nil {
		s.log.Warn("nobody could be told of a parked task", "repository", h.Place, "kind", h.Kind, "number", h.Number, "error", err)
	}
}

// unpark has what failed too often for a merge request tried again, although it was told that it failed.
func (s *Service) unpark(ctx context.Context, p hint.Place, number int) (n int, err error) {
	list, err := s.queue.Parked(ctx)
	if err != nil {
		return 0, err
	}
	for _, one := range list {
		if one.Hint.Place != p || one.Hint.Number != number {
			continue
		}
		one.Hint.Force = true
		if err := s.queue.Unpark(ctx, one.Hint); err != nil && !errors.Is(err, queue.ErrNotParked) {
			return n, err
		}
		n++
	}
	return n, nil
}

func (s *Service) settings(p hint.Place) bot.Settings {
	f := s.state().forges[p.Forge()]
	if f == nil {
		return bot.Settings{}
	}
	c := f.For(p.Repo().Path)
	yes := func(b *bool, otherwise bool) bool {
		if b == nil {
			return otherwise
		}
		return *b
	}
	const previewCap = 2000
	out := bot.Settings{
		Context: c.Context, Drafts: yes(c.Drafts, true), Labels: c.Labels, SkipLabels: c.SkipLabels, Previews: yes(c.Previews, true),
		PreviewCap: c.PreviewCap, PerPush: c.PerPush, Checks: yes(c.Checks, f.App.ID != 0),
	}
	if out.Context == "" {
		out.Context = "sluice"
	}
	if out.PreviewCap == 0 {
		out.PreviewCap = previewCap
	}
	return out
}

// botForges are the forges of the moment.
type botForges struct{ s *Service }

// Forge implements bot.Forges.
func (b botForges) Forge(name string) (bot.Forge, bool) {
	f := b.s.state().forges[name]
	if f == nil {
		return nil, false
	}
	return f.adapter, true
}

// sink takes the webhooks' hints.
type sink struct{ s *Service }

// Put implements webhook.Sink. It drops hints for repositories that the configuration does not name.
func (k sink) Put(ctx context.Context, h hint.Hint) error {
	if h.Place.Repo().Path == "" {
		for _, p := range k.s.places() {
			if p.Forge() != h.Place.Forge() {
				continue
			}
			one := h
			one.Place = p
			if err := k.s.put(ctx, one); err != nil {
				return err
			}
		}
		return nil
	}
	if !k.s.knows(h.Place) {
		return nil
	}
	k.s.seen.Store(h.Place, true)
	err := k.s.put(ctx, h)
	if err == nil && h.Urgent {
		k.s.urgent(ctx, h)
	}
	return err
}

// urgent interrupts what a command should not wait for, if whoever gave it may, while the webhook is answered.
func (s *Service) urgent(ctx context.Context, t hint.Hint) {
	const most = 30 * time.Second
	s.telling.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
		defer cancel()
		yes, number, err := s.bot.Urgent(ctx, t)
		if err == nil && yes {
			err = s.queue.Interrupt(t.Place, number)
		}
		if err != nil {
			s.log.Warn("a command waits for its turn", "repository", t.Place.String(), "number", t.Number, "error", err)
		}
	})
}

// cancel takes back the review of a merge request that waits.
func (s *Service) cancel(ctx context.Context, p hint.Place, number int) (bool, error) {
	return s.queue.Drop(ctx, hint.Hint{Place: p, Kind: hint.Review, Number: number})
}

// Known implements webhook.Sink.
func (k sink) Known(ctx context.Context, id string) (bool, error) { return k.s.queue.Known(ctx, id) }

// Note implements webhook.Sink.
func (k sink) Note(ctx context.Context, id string) error {
	_, err := k.s.queue.Seen(ctx, id)
	return err
}
