package rest

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// wait waits until the credential's rate limit resets, or fails if that takes too long.
func (c *Client) wait(ctx context.Context, key string) error {
	c.mu.Lock()
	until := c.until[key]
	c.mu.Unlock()
	d := until.Sub(c.Clock())
	switch {
	case d <= 0:
		return nil
	case d > maxWait:
		return &forge.RateLimitError{Until: until}
	}
	return c.Sleep(ctx, d)
}

// close blocks requests with the credential until the given time. It returns true if a request should not wait that
// long.
func (c *Client) close(key string, until time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until.After(c.until[key]) {
		c.until[key] = until
	}
	return until.Sub(c.Clock()) > maxWait
}

// limit returns how long the forge asks to wait. If the forge does not say, it is a minute, as GitHub documents.
func (c *Client) limit(h http.Header) time.Duration {
	if d := retryAfter(h, c.Clock()); d > 0 {
		return d
	}
	if q, ok := quotaOf(h); ok && q.Remaining == 0 && !q.Reset.IsZero() {
		return max(q.Reset.Sub(c.Clock())+time.Second, time.Second)
	}
	return time.Minute
}

// retryAfter parses Retry-After: seconds or a date. It returns 0 if there is none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil {
		return time.Duration(min(max(n, 1), 24*3600)) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(at.Sub(now), time.Second)
	}
	return 0
}

// quotaOf parses X-RateLimit-… (GitHub) or RateLimit-… (GitLab).
func quotaOf(h http.Header) (forge.Quota, bool) {
	number := func(name string) (int64, bool) {
		n, err := strconv.ParseInt(cmp.Or(h.Get("X-RateLimit-"+name), h.Get("RateLimit-"+name)), 10, 64)
		return n, err == nil
	}
	remaining, ok := number("Remaining")
	if !ok {
		return forge.Quota{}, false
	}
	q := forge.Quota{Remaining: int(remaining)}
	if n, ok := number("Limit"); ok {
		q.Limit = int(n)
	}
	if n, ok := number("Reset"); ok {
		q.Reset = time.Unix(n, 0).UTC()
	}
	return q, true
}

// count records the remaining quota of the credential.
func (c *Client) count(key string, h http.Header) {
	// GitHub has separate quotas for searches and GraphQL.
	if resource := h.Get("X-RateLimit-Resource"); resource != "" && resource != "core" {
		return
	}
	q, ok := quotaOf(h)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quotas[key] = q
}

// Quota returns the quota with the smallest remaining share. It ignores quotas whose period has ended.
func (c *Client) Quota() (forge.Quota, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var least forge.Quota
	found := false
	for _, q := range c.quotas {
		if !q.Reset.IsZero() && !c.Clock().Before(q.Reset) {
			continue
		}
		if !found || q.Share() < least.Share() {
			least, found = q, true
		}
	}
	return least, found
}
