package service

import (
	"context"
	"io"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// Handler serves webhooks and probes. Everybody who can send webhooks can request the probes, so their answers
// contain no details.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/hooks/", func(w http.ResponseWriter, r *http.Request) { s.state().hooks.ServeHTTP(w, r) })
	// the client is gone
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		const patience = 1500 * time.Millisecond // who probes waits for two seconds
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		if err := s.writable.check(ctx); err != nil {
			s.log.Warn("the data folder cannot be written", "error", err)
			http.Error(w, "the data folder cannot be written", http.StatusServiceUnavailable)
			return
		}
		if err := s.queue.Ready(ctx); err != nil {
			http.Error(w, "the queue is not ready", http.StatusServiceUnavailable)
			return
		}
		answer := "ready\n"
		if s.isolation.missing() > 0 {
			answer = "ready; isolation is incomplete\n"
		}
		_, _ = w.Write([]byte(answer)) // the client is gone
	})
	return mux
}

// MetricsHandler serves Prometheus metrics, and at /isolation the report of the workers' self-test. Serve it on an
// address that only operators can reach.
func (s *Service) MetricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /isolation", func(w http.ResponseWriter, _ *http.Request) {
		_, text := s.isolation.state()
		text = safetext.Line(text) + "\n"
		for _, restriction := range s.isolation.restrictions() {
			state := "stands"
			if !restriction.Enforced {
				state = "missing"
			}
			text += restriction.Name + ": " + state + ": " + safetext.Line(restriction.Detail) + "\n"
		}
		_, _ = io.WriteString(w, text) // the client is gone
	})
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
