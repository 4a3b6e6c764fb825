package rest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

const (
	// longestRetryAfter is the longest wait that a forge may ask for with Retry-After. GitHub and GitLab ask for
	// seconds to a minute; what is longer comes from a broken proxy, for example.
	longestRetryAfter = 5 * time.Minute
	// longestQuota is the longest period of a quota: GitHub's is an hour, GitLab's a minute.
	longestQuota = time.Hour
)

// wait waits until the rate limits of the credential and of the repository end, or fails if that takes too long.
func (c *Client) wait(ctx context.Context, keys ...string) error {
	c.mu.Lock()
	var until time.Time
	for _, key := range keys {
		if end := c.until[key]; end.After(until) {
			until = end
		}
	}
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

// close blocks requests with the key until the given time. It returns true if a request should not wait that long.
func (c *Client) close(key string, until time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock()
	maps.DeleteFunc(c.until, func(_ string, end time.Time) bool { return !end.After(now) })
	if until.After(c.until[key]) {
		c.until[key] = until
	}
	return until.Sub(now) > maxWait
}

// within names the repository of a request under a credential; another request is on its own.
func (c *Client) within(key string, u *url.URL) string {
	rest := strings.TrimPrefix(u.EscapedPath(), c.Base.EscapedPath())
	parts := strings.Split(rest, "/")
	switch { // the paths of GitHub and GitLab
	case parts[0] == "repos" && len(parts) > 2:
		rest = strings.Join(parts[:3], "/")
	case parts[0] == "projects" && len(parts) > 1:
		rest = strings.Join(parts[:2], "/")
	}
	return key + "\n" + rest
}

// limit returns how long the forge asks to wait, and whether that concerns the credential or only the repository of
// the request. If the forge does not say, it is a minute, as GitHub documents. A Retry-After above longestRetryAfter
// blocks only the repository, for longestRetryAfter: the next request then shows whether the forge meant it.
func (c *Client) limit(h http.Header) (d time.Duration, all bool) {
	q, known := quotaOf(h)
	empty := known && q.Remaining == 0 && !q.Reset.IsZero()
	switch d := retryAfter(h, c.Clock()); {
	case d > longestRetryAfter && !empty:
		return longestRetryAfter, false
	case d > 0 && d <= longestRetryAfter:
		return d, true
	}
	if empty {
		return min(max(q.Reset.Sub(c.Clock())+time.Second, time.Second), longestQuota), true
	}
	return time.Minute, true
}

// retryAfter parses Retry-After: seconds or a date. It returns 0 if there is none, and at most a day.
func retryAfter(h http.Header, now time.Time) time.Duration {
	const most = 24 * time.Hour
	v := strings.TrimSpace(h.Get("Retry-After"))
	n, err := strconv.ParseInt(v, 10, 64)
	if errors.Is(err, strconv.ErrRange) && n > 0 { // digits
		return most
	}
	if err == nil {
		return time.Duration(min(max(n, 1), int64(most/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return min(max(at.Sub(now), time.Second), most)
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
