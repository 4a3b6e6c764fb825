package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// timeline has the times of a shared hydration as the servers see them. It is safe for concurrent use.
type timeline struct {
	now func() time.Duration // since the start

	mu       sync.Mutex
	fetched  time.Duration // Git has answered the last fetch
	first    time.Duration // the first shard is published
	last     time.Duration // the last result is announced
	pushes   time.Duration // the first request of the push, which lists refs
	sends    time.Duration // the packfile begins to arrive
	received time.Duration // it has arrived
	pushed   time.Duration // Git has answered
	shards   int
}

// String returns the times in seconds.
func (t *timeline) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := fmt.Sprintf("fetched %.2f", t.fetched.Seconds())
	if t.shards > 0 {
		out += fmt.Sprintf(", first of %d shards %.2f, last result %.2f", t.shards, t.first.Seconds(), t.last.Seconds())
	}
	return out + fmt.Sprintf(", push %.2f, packfile %.2f to %.2f, answer %.2f", t.pushes.Seconds(), t.sends.Seconds(), t.received.Seconds(), t.pushed.Seconds())
}

// server is the time between the first byte of the packfile and the answer. The replicas are idle, because the packfile arrives as fast as
// Git unpacks it.
func (t *timeline) server() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pushed - t.sends
}

func (t *timeline) note(at *time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*at = t.now()
}

// noteFetch notes that Git has answered a fetch, before the push.
func (t *timeline) noteFetch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pushes == 0 {
		t.fetched = t.now()
	}
}

// git notes the requests that a Git server answers.
func (t *timeline) git(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch push := strings.HasSuffix(r.URL.Path+r.URL.RawQuery, "git-receive-pack"); {
		case push && r.Method == http.MethodGet:
			t.note(&t.pushes)
		case push:
			t.note(&t.sends)
			r.Body = &notedBody{ReadCloser: r.Body, end: func() { t.note(&t.received) }}
			defer t.note(&t.pushed)
		case r.Method == http.MethodPost:
			defer t.noteFetch()
		}
		h.ServeHTTP(w, r)
	})
}

type notedBody struct {
	io.ReadCloser
	end func()
}

func (b *notedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

// queue notes the shards that are published, and their results.
func (t *timeline) queue(url string) (stop func(), err error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	_, err = nc.Subscribe("sluice.shard.*", func(*nats.Msg) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.shards == 0 {
			t.first = t.now()
		}
		t.shards++
	})
	if err == nil {
		_, err = nc.Subscribe("sluice.note.shard", func(*nats.Msg) { t.note(&t.last) })
	}
	return nc.Close, err
}
