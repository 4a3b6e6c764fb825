package gitlab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

const (
	maxTries   = 4
	maxWait    = time.Minute // a longer one is for the caller's queue, not for a request
	tryTimeout = 30 * time.Second
	maxAnswer  = 32 << 20
)

// transport sends requests, and sends them again where that is safe and of use. It reads answers whole: one that breaks off is a
// try that failed.
type transport struct {
	next  http.RoundTripper
	base  *url.URL
	clock func() time.Time
	sleep func(context.Context, time.Duration) error

	mu    sync.Mutex
	until time.Time // of the rate limit
}

// redirect follows GitLab to the new name of a project, and to no other host.
func (t *transport) redirect(req *http.Request, via []*http.Request) error {
	if req.URL.Host != t.base.Host || req.URL.Scheme != t.base.Scheme {
		return fmt.Errorf("%w: it redirects to another host, %.100q", forge.ErrUnavailable, req.URL.Host)
	}
	if len(via) > 5 {
		return fmt.Errorf("%w: it redirects without end", forge.ErrUnavailable)
	}
	return nil
}

// RoundTrip sends the request.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	var body []byte
	if req.Body != nil {
		defer func() { _ = req.Body.Close() }() // a reader of memory
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
	}
	for try := 1; ; try++ {
		if err := t.gate(ctx); err != nil {
			return nil, err
		}
		resp, err := t.send(req, body)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil && resp.StatusCode == http.StatusTooManyRequests {
			if until := t.clock().Add(t.wait(resp.Header)); t.close(until) || try == maxTries {
				return nil, &forge.RateLimitError{Until: until}
			}
			continue // the gate waits; GitLab did not act
		}
		if !repeats(req.Method, resp, err) || try == maxTries {
			if err != nil {
				return nil, fmt.Errorf("%w: %w", forge.ErrUnavailable, err)
			}
			return resp, nil
		}
		wait := time.Second << (try - 1)
		if err == nil {
			wait = max(wait, after(resp.Header, t.clock()))
		}
		if err := t.sleep(ctx, min(wait, maxWait)); err != nil {
			return nil, err
		}
	}
}

// repeats says whether another try is safe and of use. A POST creates something: it is repeated only if it was never sent.
func repeats(method string, resp *http.Response, err error) bool {
	if err != nil {
		var op *net.OpError
		return method != http.MethodPost || errors.As(err, &op) && op.Op == "dial"
	}
	return resp.StatusCode >= http.StatusInternalServerError && method != http.MethodPost
}

// send makes one try.
func (t *transport) send(req *http.Request, body []byte) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), tryTimeout)
	defer cancel()
	r := req.Clone(ctx)
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("the answer breaks off: %w", err)
	}
	if len(data) > maxAnswer {
		return nil, fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	return resp, nil
}

// gate waits until the rate limit is over, or refuses if that is long.
func (t *transport) gate(ctx context.Context) error {
	t.mu.Lock()
	until := t.until
	t.mu.Unlock()
	wait := until.Sub(t.clock())
	switch {
	case wait <= 0:
		return nil
	case wait > maxWait:
		return &forge.RateLimitError{Until: until}
	}
	return t.sleep(ctx, wait)
}

// close sends nothing until then; true if that is too long to wait for.
func (t *transport) close(until time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until.After(t.until) {
		t.until = until
	}
	return until.Sub(t.clock()) > maxWait
}

// wait is how long GitLab asks to wait (https://docs.gitlab.com/administration/settings/user_and_ip_rate_limits/#response-headers);
// a minute where it does not say.
func (t *transport) wait(h http.Header) time.Duration {
	if d := after(h, t.clock()); d > 0 {
		return d
	}
	if at, err := strconv.ParseInt(h.Get("RateLimit-Reset"), 10, 64); err == nil {
		return max(time.Unix(at, 0).Sub(t.clock())+time.Second, time.Second)
	}
	return time.Minute
}

// after reads Retry-After; 0 if there is none.
func after(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil {
		return time.Duration(min(max(n, 1), 24*3600)) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(at.Sub(now), time.Second)
	}
	return 0
}
