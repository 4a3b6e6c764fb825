package app

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sluice-gitops/sluice/bot/hint"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.26.0"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// metrics counts what a service does. Labels are names of forges, kinds and results: never of repositories, which are too many.
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
	shards   *prometheus.CounterVec
	notified *prometheus.CounterVec
	tracer   oteltrace.Tracer
}

func newMetrics(s *Service) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), tracer: noop.NewTracerProvider().Tracer("sluice")}
	m.hooks = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_webhooks_total", Help: "Webhooks by forge, event and result."}, []string{"forge", "event", "result"})
	m.hookTime = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_webhook_seconds", Help: "Time to answer a webhook.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 12)}, []string{"forge"})
	m.tasks = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_task_seconds", Help: "Time of tasks by kind and result.", Buckets: prometheus.ExponentialBuckets(0.05, 2, 14)}, []string{"kind", "result"})
	m.calls = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_forge_request_seconds", Help: "Requests to forges by method and status.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 12)}, []string{"forge", "method", "status"})
	m.limit = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "sluice_forge_rate_limit_remaining", Help: "Requests that the forge still takes, as its last answer said."}, []string{"forge"})
	m.renders = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "sluice_render_seconds", Help: "Renderings done by this replica, by result.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16)}, []string{"result"})
	m.targets = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_targets_total", Help: "Targets of hydrations: rendered, or taken from a branch as they are (reused)."}, []string{"how"})
	m.pushes = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_branch_moves_total", Help: "Branches that were to move, by what became of it; conflict: somebody else was faster."}, []string{"result"})
	m.shards = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_shards_total", Help: "Shards of large hydrations that this replica rendered, by result."}, []string{"result"})
	m.notified = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_notifications_total", Help: "Pushes that receivers of Flux and Argo CD were told of, by result."}, []string{"result"})
	m.registry.MustRegister(m.notified, m.renders, m.targets, m.pushes, m.shards)
	m.registry.MustRegister(m.hooks, m.hookTime, m.tasks, m.calls, m.limit, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &queueCollector{s})
	return m
}

func (m *metrics) webhook(forge, event, result string, took time.Duration) {
	m.hooks.WithLabelValues(forge, event, result).Inc()
	m.hookTime.WithLabelValues(forge).Observe(took.Seconds())
}

func (m *metrics) task(what, result string, took time.Duration) {
	m.tasks.WithLabelValues(what, result).Observe(took.Seconds())
}

// transport counts the requests to a forge, and logs those that failed with the id that its operators ask for.
func (m *metrics) transport(forge string, next http.RoundTripper, log *slog.Logger) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return counted{m, forge, next, log}
}

type counted struct {
	m     *metrics
	forge string
	next  http.RoundTripper
	log   *slog.Logger
}

// RoundTrip implements http.RoundTripper.
func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := c.next.RoundTrip(r)
	status := "error"
	if err == nil {
		status = strconv.Itoa(resp.StatusCode)
		for _, name := range []string{"X-RateLimit-Remaining", "RateLimit-Remaining"} {
			if n, err := strconv.ParseFloat(resp.Header.Get(name), 64); err == nil {
				c.m.limit.WithLabelValues(c.forge).Set(n)
			}
		}
	}
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		id := cmp.Or(resp.Header.Get("X-GitHub-Request-Id"), resp.Header.Get("X-Request-Id"))
		c.log.DebugContext(r.Context(), "a request to the forge failed", "forge", c.forge, "method", r.Method, "path", r.URL.Path, "status", status, "request", id)
	}
	c.m.calls.WithLabelValues(c.forge, r.Method, status).Observe(time.Since(began).Seconds())
	return resp, err
}

// queueCollector asks the queue when it is asked.
type queueCollector struct{ s *Service }

func (c *queueCollector) descs() map[string]*prometheus.Desc {
	d := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("sluice_queue_"+name, help, nil, nil)
	}
	return map[string]*prometheus.Desc{
		"depth": d("depth", "Hints that are not done."), "age": d("oldest_seconds", "Age of the oldest hint."), "flight": d("in_flight", "Repositories being worked on."),
		"parked": d("parked", "Hints that failed too often."), "shards": d("shards", "Shards that wait or are rendered."), "bytes": d("bytes", "Bytes of the queue."),
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
		return // readiness tells
	}
	for name, value := range map[string]float64{
		"depth": float64(st.Depth), "age": st.Oldest.Seconds(), "flight": float64(st.InFlight), "parked": float64(st.Parked), "shards": float64(st.Shards), "bytes": float64(st.Bytes),
	} {
		out <- prometheus.MustNewConstMetric(c.descs()[name], prometheus.GaugeValue, value)
	}
}

// span traces a task.
func (m *metrics) span(ctx context.Context, name string, h hint.Hint) (context.Context, func(error)) {
	ctx, span := m.tracer.Start(ctx, name, oteltrace.WithAttributes(
		attribute.String("sluice.repository", h.Place.String()), attribute.Int("sluice.merge_request", h.Number), attribute.String("sluice.delivery", h.ID)))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "failed")
		}
		span.End()
	}
}

// Trace sends spans to an OTLP receiver over HTTP until stop is called.
func (s *Service) Trace(ctx context.Context, address string) (stop func(context.Context) error, err error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(address))
	if err != nil {
		return nil, err
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(resource.NewSchemaless(semconv.ServiceName("sluice"), semconv.ServiceVersion(Version()))))
	s.metrics.tracer = provider.Tracer("sluice")
	return provider.Shutdown, nil
}

// Handler serves webhooks and probes, and metrics unless they have an address of their own.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/hooks/", func(w http.ResponseWriter, r *http.Request) { s.state().hooks.ServeHTTP(w, r) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := s.queue.Ready(ctx); err != nil {
			http.Error(w, "the queue is not ready", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ready\n"))
	})
	if s.config.Metrics == "" {
		mux.Handle("GET /metrics", s.MetricsHandler())
	}
	return mux
}

// MetricsHandler serves Prometheus metrics.
func (s *Service) MetricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	return mux
}

// DebugHandler serves pprof.
func DebugHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
