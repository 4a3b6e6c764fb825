package github

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
	"strings"
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

// transport signs requests, sends them, and sends them again where that is safe and of use. It reads answers whole: one that
// breaks off is a try that failed.
type transport struct {
	next  http.RoundTripper
	base  *url.URL
	clock func() time.Time
	sleep func(context.Context, time.Duration) error

	mu    sync.Mutex
	until map[string]time.Time // rate limits by credential
}

// manner is what a request's context says about how to send it.
type manner struct {
	cred  credential
	again bool // may be repeated, though it is a POST
	once  bool // must not be repeated, though it is none
}

type mannerKey struct{}

func mannerOf(ctx context.Context) manner {
	m, ok := ctx.Value(mannerKey{}).(manner)
	if !ok {
		m.cred = anonymous{}
	}
	return m
}

// carrying gives a context whose requests carry the credential.
func carrying(ctx context.Context, c credential) context.Context {
	return context.WithValue(ctx, mannerKey{}, manner{cred: c})
}

// repeating gives a context whose requests may be repeated: twice has the same effect as once.
func repeating(ctx context.Context) context.Context {
	m := mannerOf(ctx)
	m.again = true
	return context.WithValue(ctx, mannerKey{}, m)
}

// once gives a context whose requests are never repeated after GitHub may have acted.
func once(ctx context.Context) context.Context {
	m := mannerOf(ctx)
	m.once = true
	return context.WithValue(ctx, mannerKey{}, m)
}

func (m manner) repeats(method string) bool {
	return m.again || !m.once && method != http.MethodPost
}

// redirect follows GitHub to the new name of a repository, and to no other host.
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
	m := mannerOf(ctx)
	body, err := whole(req)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		if err := t.gate(ctx, m.cred.key()); err != nil {
			return nil, err
		}
		token, err := m.cred.token(ctx)
		if err != nil {
			return nil, err
		}
		resp, err := t.send(req, body, token)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		v := t.judge(req.Method, m, resp, err)
		if v.unsigned && try == 1 && m.cred.refused(token) {
			continue // the token was withdrawn: the next try has another
		}
		if v.limited {
			if until := t.clock().Add(v.wait); t.close(m.cred.key(), until) || try == maxTries {
				return nil, &forge.RateLimitError{Until: until}
			}
			continue // the gate waits
		}
		if !v.again || try == maxTries {
			if err != nil {
				return nil, fmt.Errorf("%w: %w", forge.ErrUnavailable, err)
			}
			return resp, nil
		}
		if err := t.sleep(ctx, min(max(v.wait, time.Second<<(try-1)), maxWait)); err != nil {
			return nil, err
		}
	}
}

// whole reads a request's body, so that it can be sent again; nil if it has none.
func whole(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer func() { _ = req.Body.Close() }() // a reader of memory
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	return body, nil
}

// send makes one try.
func (t *transport) send(req *http.Request, body []byte, token string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), tryTimeout)
	defer cancel()
	r := req.Clone(ctx)
	r.Header.Del("Authorization")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
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

// gate waits until the credential's rate limit is over, or refuses if that is long.
func (t *transport) gate(ctx context.Context, key string) error {
	t.mu.Lock()
	until := t.until[key]
	t.mu.Unlock()
	wait := until.Sub(t.clock())
	if wait <= 0 {
		return nil
	}
	if wait > maxWait {
		return &forge.RateLimitError{Until: until}
	}
	return t.sleep(ctx, wait)
}

// close sends nothing with the credential until then; true if that is too long to wait for.
func (t *transport) close(key string, until time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until.After(t.until[key]) {
		t.until[key] = until
	}
	return until.Sub(t.clock()) > maxWait
}

// verdict is what to do after a try.
type verdict struct {
	again    bool
	wait     time.Duration // at least
	limited  bool          // GitHub did not act, and wants no more for a while
	unsigned bool          // GitHub does not accept the token
}

func (t *transport) judge(method string, m manner, resp *http.Response, err error) verdict {
	if err != nil {
		var op *net.OpError
		unsent := errors.As(err, &op) && op.Op == "dial"
		return verdict{again: unsent || m.repeats(method)}
	}
	code := resp.StatusCode
	defer forgetLimits(resp.Header)
	switch {
	case code == http.StatusTooManyRequests, code == http.StatusForbidden && secondary(resp):
		return verdict{limited: true, wait: t.wait(resp.Header)}
	case code == http.StatusUnauthorized:
		return verdict{unsigned: true}
	case code >= 500 && m.repeats(method):
		after, _ := retryAfter(resp.Header, t.clock())
		return verdict{again: true, wait: after}
	}
	return verdict{}
}

// forgetLimits keeps go-github from refusing requests by a limit that it saw with another credential.
func forgetLimits(h http.Header) {
	for _, name := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
		h.Del(name)
	}
}

// secondary says whether a 403 is a rate limit: GitHub uses it for both limits, beside 429.
func secondary(resp *http.Response) bool {
	if resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-Ratelimit-Remaining") == "0" {
		return true
	}
	data, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(data))
	text := strings.ToLower(string(data[:min(len(data), 4096)]))
	return err == nil && (strings.Contains(text, "secondary rate limit") || strings.Contains(text, "#abuse-rate-limits") ||
		strings.Contains(text, "#about-secondary-rate-limits"))
}

// wait is how long GitHub asks to wait; a minute, as it documents, where it does not say.
func (t *transport) wait(h http.Header) time.Duration {
	if d, ok := retryAfter(h, t.clock()); ok {
		return d
	}
	if h.Get("X-Ratelimit-Remaining") == "0" {
		if at, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64); err == nil {
			return max(time.Unix(at, 0).Sub(t.clock())+time.Second, time.Second)
		}
	}
	return time.Minute
}

func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	v := h.Get("Retry-After")
	if v == "" {
		return 0, false
	}
	if n, err := strconv.Atoi(v); err == nil {
		return time.Duration(min(max(n, 1), 24*3600)) * time.Second, true
	}
	at, err := http.ParseTime(v)
	return max(at.Sub(now), time.Second), err == nil
}
