package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/worker"
	"github.com/sluice-gitops/sluice/service/config"
)

// If workers lose a mechanism after the start, the log, the metric and /readyz report it until it is back.
func TestLostIsolationIsReported(t *testing.T) {
	complete := worker.Report{
		Means:        []string{"user namespace", "seccomp"},
		Restrictions: []worker.Restriction{{Name: "files", Enforced: true}},
	}
	fewer := complete
	fewer.Means = []string{"seccomp"}
	var log bytes.Buffer
	i := &isolation{
		report: complete, latest: map[*worker.Host]worker.Report{},
		log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	i.host, i.reviews = &worker.Host{}, &worker.Host{}
	if i.missing() != 0 {
		t.Errorf("%d missing at the start", i.missing())
	}
	i.changed(i.reviews, fewer)
	i.changed(i.host, complete)
	if n, text := i.state(); n != 1 || !strings.Contains(text, "lost since the start: user namespace") {
		t.Errorf("%d missing: %s", n, text)
	}
	if out := log.String(); !strings.Contains(out, "level=WARN") || !strings.Contains(out, `lost="user namespace"`) {
		t.Error(out)
	}
	i.changed(i.reviews, complete)
	if n, text := i.state(); n != 0 || strings.Contains(text, "lost") {
		t.Errorf("%d missing: %s", n, text)
	}
}

type failing struct{ err error }

func (f failing) Render(context.Context, *renderer.Bundle) (*renderer.Rendering, error) {
	return nil, f.err
}

// A light rendering that is too large is made again. Its metric is not that of an error.
func TestResultsOfRenderings(t *testing.T) {
	for want, err := range map[string]error{
		"ok": nil, "error": errors.New("x"),
		"heavy": fmt.Errorf("x: %w", renderer.ErrHeavy),
	} {
		m := &metrics{renders: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "x"}, []string{"result"})}
		_, _ = observedRenderer{failing{err}, time.Now, m}.Render(t.Context(), nil) // its error is the given one
		registry := prometheus.NewRegistry()
		registry.MustRegister(m.renders)
		all, bad := registry.Gather()
		if bad != nil || len(all) != 1 || len(all[0].GetMetric()) != 1 {
			t.Fatal(all, bad)
		}
		if got := all[0].GetMetric()[0].GetLabel()[0].GetValue(); got != want {
			t.Errorf("the error is %v: the result of GetValue is %s, want %s", err, got, want)
		}
	}
}

// The renderers of a service have worker processes for jobs other than renderings, such as the own policies of
// workspaces, which must not run in the process of the service.
func TestRenderersOfAServiceHaveWorkers(t *testing.T) {
	i := &isolation{
		atOnce: 1, trunk: 1, size: 2, pools: map[worker.Owner]*renderer.Pool{},
		host: worker.NewHost(worker.Options{Command: []string{"/nonexistent/sluice"}}),
	}
	defer i.host.Close()
	s := &Service{isolation: i, clock: time.Now, metrics: &metrics{}, initial: &config.Config{}}
	for _, trust := range []worker.Trust{worker.Trusted, worker.Untrusted} {
		workers, ok := renderer.CallerOf(s.renderer("acme", trust))
		if !ok {
			t.Errorf("%s: the renderer has no worker processes", trust)
			continue
		}
		if _, err := workers.Call(t.Context(), worker.Call{Job: "policy"}); err == nil ||
			errors.Is(err, renderer.ErrNoWorkers) {
			t.Errorf("%s: got %v, want the error of a process that does not start", trust, err)
		}
	}
}
