package service

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/worker"
)

// If workers lose a mechanism after the start, the log, the metric and /readyz report it until it is back.
func TestLostIsolationIsReported(t *testing.T) {
	complete := worker.Report{Means: []string{"user namespace", "seccomp"}, Walls: []worker.Wall{{Name: "files", Stands: true}}}
	fewer := complete
	fewer.Means = []string{"seccomp"}
	var log bytes.Buffer
	i := &isolation{report: complete, latest: map[*worker.Host]worker.Report{}, log: slog.New(slog.NewTextHandler(&log, nil))}
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
