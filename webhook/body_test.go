package webhook_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/webhook"
)

// Large bodies that stall take at most one half of the memory.
func TestBodiesAreBounded(t *testing.T) {
	const kib = 1 << 10
	h, err := webhook.New(webhook.Config{
		Endpoints: []webhook.Endpoint{{Forge: "hub", Kind: "github", Path: "/hooks/hub", Secrets: []string{secret}}},
		Sink:      &sink{}, Clock: now, Log: slog.New(slog.DiscardHandler), Reading: 1024 * kib,
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func(body io.Reader) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/hooks/hub", body)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-GitHub-Event", "push")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	var stalled sync.WaitGroup
	var ends []*io.PipeWriter
	for range 2 { // from unknown senders
		from, to := io.Pipe()
		ends = append(ends, to)
		stalled.Go(func() {
			if w := send(from); w.Code != http.StatusUnauthorized && w.Code != http.StatusServiceUnavailable {
				t.Errorf("a body of an unknown sender: %d", w.Code)
			}
			_ = from.Close()
		})
		_, _ = to.Write(make([]byte, 300*kib))
	}
	if w := send(bytes.NewReader(make([]byte, 600*kib))); w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") == "" {
		t.Errorf("one more large body: %d %v", w.Code, w.Header())
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, hub("push", []byte(`{"ref":"refs/heads/main","after":"1","repository":{"full_name":"a/b"}}`)))
	if w.Code != http.StatusAccepted {
		t.Errorf("a small one: %d %s", w.Code, w.Body)
	}
	for _, to := range ends {
		_ = to.Close()
	}
	stalled.Wait()
	if w := send(bytes.NewReader(make([]byte, 400*kib))); w.Code != http.StatusUnauthorized {
		t.Errorf("the memory was not given back: %d", w.Code)
	}
}

// Bodies of every size arrive completely.
func TestBodySizes(t *testing.T) {
	for _, size := range []int{0, 1, 64<<10 - 90, 64 << 10, 64<<10 + 1, 3 << 20} {
		s := &sink{}
		payload := fmt.Appendf(nil, `{"ref":"refs/heads/main","after":"1","repository":{"full_name":"a/b"},"pad":%q}`,
			strings.Repeat("x", size))
		w := httptest.NewRecorder()
		handler(t, s, io.Discard).ServeHTTP(w, hub("push", payload))
		if w.Code != http.StatusAccepted || len(s.got()) != 1 {
			t.Errorf("%d bytes: %d %s", len(payload), w.Code, w.Body)
		}
	}
}

// An unverified request does not add a series to the metrics.
func TestObservedEvents(t *testing.T) {
	var counted []string
	h, err := webhook.New(webhook.Config{
		Endpoints: []webhook.Endpoint{
			{Forge: "hub", Kind: "github", Path: "/hooks/hub", Secrets: []string{secret}},
			{Forge: "lab", Kind: "gitlab", Path: "/hooks/lab", Secrets: []string{secret}},
		},
		Sink: &sink{}, Clock: now, Log: slog.New(slog.DiscardHandler),
		Observe: func(forge, event, _ string, _ time.Duration) { counted = append(counted, forge+" "+event) },
	})
	if err != nil {
		t.Fatal(err)
	}
	unsigned := hub("push", []byte("{}"))
	unsigned.Header.Set("X-Hub-Signature-256", "sha256=00")
	note := hub("-", []byte("{}"))
	note.URL.Path = "/hooks/lab"
	note.Header.Set("X-Gitlab-Event", "Note Hook")
	note.Header.Set("X-Gitlab-Token", secret)
	for _, r := range []*http.Request{unsigned, hub("ping", []byte("{}")), hub("star", []byte("{}")), note} {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if want := []string{"hub unverified", "hub other", "hub other", "lab Note Hook"}; !slices.Equal(counted, want) {
		t.Errorf("%q, not %q", counted, want)
	}
}
