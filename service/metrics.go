package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.26.0"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/artifacts"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/service/otlp"
	"github.com/sluice-gitops/sluice/service/repository"
)

// metrics holds the metrics of a service. Labels are names of forges, kinds and results, never of repositories,
// because there may be thousands.
type metrics struct {
	registry *prometheus.Registry
	hooks    *prometheus.CounterVec
	hookTime *prometheus.HistogramVec
	tasks    *prometheus.HistogramVec
	calls    *prometheus.HistogramVec
	limit    *prometheus.GaugeVec
	renders  *prometheus.HistogramVec
	targets  *prometheus.CounterVec
	pushes   *prometheus.CounterVec
	notified *prometheus.CounterVec
	told     *prometheus.CounterVec
	artifact *prometheus.CounterVec
	stretch  *prometheus.GaugeVec
	tracer   oteltrace.Tracer
}

func newMetrics(s *Service) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), tracer: noop.NewTracerProvider().Tracer("sluice")}
	m.hooks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_webhooks_total", Help: "Webhooks received, by forge, event and result.",
	}, []string{"forge", "event", "result"})
	m.hookTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sluice_webhook_seconds", Help: "Time to answer a webhook, in seconds.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 12),
	}, []string{"forge"})
	m.tasks = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sluice_task_seconds", Help: "Duration of tasks in seconds, by kind and result.",
		Buckets: prometheus.ExponentialBuckets(0.05, 2, 14),
	}, []string{"kind", "result"})
	m.calls = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sluice_forge_request_seconds", Help: "Duration of requests to forges in seconds, by method and status.",
		Buckets: prometheus.ExponentialBuckets(0.01, 2, 12),
	}, []string{"forge", "method", "status"})
	m.limit = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sluice_forge_rate_limit_remaining",
		Help: "Requests left in the rate limit of the forge, from its last answer.",
	}, []string{"forge"})
	m.renders = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "sluice_render_seconds",
		Help:    "Duration of renderings on this replica in seconds, with the wait for a worker, by result.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
	}, []string{"result"})
	m.targets = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_targets_total", Help: "Targets of hydrations: rendered, or reused from a branch.",
	}, []string{"how"})
	m.pushes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_branch_moves_total",
		Help: "Branch updates, by result; conflict means that another writer moved the branch first.",
	}, []string{"result"})
	m.notified = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_notifications_total",
		Help: "Notifications of Flux and Argo CD receivers, one for each push, by result.",
	}, []string{"result"})
	m.artifact = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_artifacts_total",
		Help: "Artifacts of cluster branches by result: pushed, present, held, failed; waiting counts runs that a registry ended early.",
	}, []string{"result"})
	m.registry.MustRegister(m.artifact)
	m.told = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_events_total", Help: "Attempts to tell a receiver of events, by kind of receiver and result.",
	}, []string{"kind", "result"})
	m.registry.MustRegister(m.told)
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_isolation_missing_restrictions",
		Help: "Restrictions of worker processes that are missing, and mechanisms lost since the start; 0 is complete.",
	}, func() float64 {
		if s.isolation == nil {
			return 0
		}
		return float64(s.isolation.missing())
	}))
	m.stretch = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sluice_sweep_stretch",
		Help: "Factor by which sweeps of a forge are less frequent than configured, because its rate limit runs low.",
	}, []string{"forge"})
	m.registry.MustRegister(m.stretch)
	mode := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sluice_isolation_mode",
		Help: "1 for the configured mode of isolation: required, degraded or off.",
	}, []string{"mode"})
	mode.WithLabelValues(string(s.initial.Isolation)).Set(1)
	m.registry.MustRegister(mode)
	m.registry.MustRegister(m.notified, m.renders, m.targets, m.pushes)
	m.registry.MustRegister(m.hooks, m.hookTime, m.tasks, m.calls, m.limit, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &queueCollector{s})
	return m
}

func (m *metrics) webhook(forge, event, result string, took time.Duration) {
	m.hooks.WithLabelValues(forge, event, result).Inc()
	m.hookTime.WithLabelValues(forge).Observe(took.Seconds())
}

func (m *metrics) task(what, result string, took time.Duration) {
	m.tasks.WithLabelValues(what, result).Observe(took.Seconds())
}

// transport measures the requests to a forge. It logs failed ones with the request ID that the operators of the forge
// ask for.
func (m *metrics) transport(forge string, next http.RoundTripper, log *slog.Logger,
	clock func() time.Time,
) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return observedTransport{m, forge, next, log, clock}
}

type observedTransport struct {
	m     *metrics
	forge string
	next  http.RoundTripper
	log   *slog.Logger
	clock func() time.Time
}

// RoundTrip implements http.RoundTripper.
func (c observedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	began := c.clock()
	resp, err := c.next.RoundTrip(r)
	status := "error"
	if err == nil {
		status = strconv.Itoa(resp.StatusCode)
		other := resp.Header.Get("X-RateLimit-Resource") // GitHub has separate quotas for GraphQL and searches
		for _, name := range []string{"X-RateLimit-Remaining", "RateLimit-Remaining"} {
			if n, err := strconv.ParseFloat(resp.Header.Get(name), 64); err == nil && (other == "" || other == "core") {
				c.m.limit.WithLabelValues(c.forge).Set(n)
			}
		}
	}
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		id := cmp.Or(resp.Header.Get("X-GitHub-Request-Id"), resp.Header.Get("X-Request-Id"))
		c.log.DebugContext(r.Context(), "request to the forge failed", "forge", c.forge, "method", r.Method, "path",
			r.URL.Path, "status", status, "request", id)
	}
	c.m.calls.WithLabelValues(c.forge, r.Method, status).Observe(c.clock().Sub(began).Seconds())
	return resp, err
}

// queueCollector reads the state of the queue for each scrape.
type queueCollector struct{ s *Service }

func (c *queueCollector) descs() map[string]*prometheus.Desc {
	d := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("sluice_queue_"+name, help, nil, nil)
	}
	return map[string]*prometheus.Desc{
		"depth":  d("depth", "Hints in the queue, waiting or being worked on."),
		"age":    d("oldest_seconds", "Age of the oldest hint in seconds."),
		"flight": d("in_flight", "Tasks that a worker works on."),
		"parked": d("parked", "Hints that failed too often and wait for a retry command."),
		"bytes":  d("bytes", "Size of the hints in the queue in bytes."),
	}
}

// Describe implements prometheus.Collector.
func (c *queueCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs() {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *queueCollector) Collect(out chan<- prometheus.Metric) {
	if c.s.queue == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	st, err := c.s.queue.Stats(ctx)
	if err != nil {
		return // /readyz reports it
	}
	for name, value := range map[string]float64{
		"depth": float64(st.Depth), "age": st.Oldest.Seconds(), "flight": float64(st.InFlight),
		"parked": float64(st.Parked), "bytes": float64(st.Bytes),
	} {
		out <- prometheus.MustNewConstMetric(c.descs()[name], prometheus.GaugeValue, value)
	}
}

// span traces a task.
func (m *metrics) span(ctx context.Context, name string, h hint.Hint) (context.Context, func(error)) {
	ctx, span := m.tracer.Start(ctx, name, oteltrace.WithAttributes(
		attribute.String("sluice.repository", h.Place.String()), attribute.Int("sluice.merge_request", h.Number),
		attribute.String("sluice.delivery", h.ID)))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "failed")
		}
		span.End()
	}
}

// Trace sends spans to an OTLP receiver over HTTP until stop is called. getenv returns the variables of otlp.Config.
func (s *Service) Trace(ctx context.Context, address string,
	getenv func(string) string,
) (stop func(context.Context) error, err error) {
	exporter, err := otlp.New(ctx, otlp.Config{URL: address, Getenv: getenv})
	if err != nil {
		return nil, err
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter),
		trace.WithResource(resource.NewSchemaless(semconv.ServiceName("sluice"),
			semconv.ServiceVersion(s.o.Runtime.Version))))
	s.metrics.tracer = provider.Tracer("sluice")
	return provider.Shutdown, nil
}

// resultOf returns the value of the label result.
func resultOf(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// sessions counts the results of sessions.
func (m *metrics) sessions() repository.Observer {
	return repository.Observer{
		Targets: func(rendered, reused int) {
			m.targets.WithLabelValues("rendered").Add(float64(rendered))
			m.targets.WithLabelValues("reused").Add(float64(reused))
		},
		Pushed: func(results []gitstore.MoveResult, err error) {
			for _, r := range results {
				m.pushes.WithLabelValues(string(r.State)).Inc()
			}
			if err != nil {
				m.pushes.WithLabelValues("error").Inc()
			}
		},
		Published: func(r *artifacts.Result) {
			for _, a := range r.Artifacts {
				m.artifact.WithLabelValues(string(a.Status)).Inc()
			}
			if r.Unfinished != "" {
				m.artifact.WithLabelValues("waiting").Inc()
			}
		},
	}
}

// observedRenderer measures renderings.
type observedRenderer struct {
	renderer.Renderer
	clock func() time.Time
	m     *metrics
}

// Unwrap implements renderer.Wrapper: a Renderer without it has no worker processes for jobs other than renderings.
func (r observedRenderer) Unwrap() renderer.Renderer { return r.Renderer }

// Render implements renderer.Renderer.
func (r observedRenderer) Render(ctx context.Context, b *renderer.Bundle) (*renderer.Rendering, error) {
	began := r.clock()
	out, err := r.Renderer.Render(ctx, b)
	result := resultOf(err)
	if errors.Is(err, renderer.ErrHeavy) {
		result = "heavy"
	}
	r.m.renders.WithLabelValues(result).Observe(r.clock().Sub(began).Seconds())
	return out, err
}
