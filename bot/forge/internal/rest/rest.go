// Package rest is the HTTP client that the forge adapters share: credentials, retries, rate limits, limits on
// answers, conditional requests and redirects. The adapters' libraries build requests and decode answers; a Client
// sends them as an http.RoundTripper.
//
// A Client never sends a credential to another host than the configured one. It repeats a request that creates
// something only if the forge certainly did not process the first one.
package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/internal/retry"
)

const (
	maxTries   = 4
	firstWait  = time.Second
	maxWait    = time.Minute // a longer one is for the caller's queue, not for a request
	tryTimeout = 30 * time.Second
	maxAnswer  = 32 << 20
)

// Credential authorizes requests.
type Credential interface {
	// Key identifies the credential's rate limit.
	Key() string
	// Token returns the bearer token; "" sends none.
	Token(ctx context.Context) (string, error)
	// Refused reports that the forge did not accept a token. It returns true if Token may return another one.
	Refused(token string) bool
}

// Config of a Client. All fields but Sleep and Conditional are required.
type Config struct {
	Base  *url.URL
	Next  http.RoundTripper
	Clock func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error // nil is retry.Sleep
	// Limited reports whether an answer other than 429 is a refusal by a rate limit.
	Limited func(resp *http.Response) bool
	// Conditional means that the forge does not count answers 304: the client caches answers with an ETag.
	Conditional bool
}

// Client sends the requests of an adapter. It is safe for concurrent use.
type Client struct {
	Config
	answers *answers // nil without Conditional

	mu     sync.Mutex
	until  map[string]time.Time // ends of rate limits, by credential, and by repository under it
	quotas map[string]forge.Quota
}

// New returns a client.
func New(c Config) *Client {
	if c.Sleep == nil {
		c.Sleep = retry.Sleep
	}
	if c.Limited == nil {
		c.Limited = func(*http.Response) bool { return false }
	}
	out := &Client{Config: c, until: map[string]time.Time{}, quotas: map[string]forge.Quota{}}
	if c.Conditional {
		out.answers = newAnswers()
	}
	return out
}

// HTTP returns an http.Client that sends its requests through the client. It follows redirects of the forge to the
// new address of a renamed repository, but to no other host.
func (c *Client) HTTP() *http.Client { return &http.Client{Transport: c, CheckRedirect: c.redirect} }

func (c *Client) redirect(req *http.Request, via []*http.Request) error {
	if req.URL.Host != c.Base.Host || req.URL.Scheme != c.Base.Scheme {
		return fmt.Errorf("%w: it redirects to another host, %.100q", forge.ErrUnavailable, req.URL.Host)
	}
	if len(via) > 5 {
		return fmt.Errorf("%w: more than 5 redirects", forge.ErrUnavailable)
	}
	return nil
}

// options are settings for the requests of a context.
type options struct {
	credential Credential
	repeatable bool // although it is a POST
	once       bool // although it is no POST
}

type optionsKey struct{}

func optionsOf(ctx context.Context) options {
	o, ok := ctx.Value(optionsKey{}).(options)
	if !ok {
		return options{}
	}
	return o
}

// With returns a context whose requests carry the credential.
func With(ctx context.Context, c Credential) context.Context {
	return context.WithValue(ctx, optionsKey{}, options{credential: c})
}

// Repeatable returns a context whose requests may be repeated even if they are POSTs: sending one twice has the
// effect of sending it once.
func Repeatable(ctx context.Context) context.Context {
	o := optionsOf(ctx)
	o.repeatable = true
	return context.WithValue(ctx, optionsKey{}, o)
}

// Once returns a context whose requests are not repeated after the forge may have processed them.
func Once(ctx context.Context) context.Context {
	o := optionsOf(ctx)
	o.once = true
	return context.WithValue(ctx, optionsKey{}, o)
}

func (o options) key() string {
	if o.credential == nil {
		return ""
	}
	return o.credential.Key()
}

func (o options) repeats(method string) bool {
	return o.repeatable || !o.once && method != http.MethodPost
}

// RoundTrip implements http.RoundTripper. If the forge keeps failing, it returns the last answer. If the forge's rate
// limit lasts too long, the error is a *forge.RateLimitError. If there is no answer, the error is
// forge.ErrUnavailable.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := read(req)
	if err != nil {
		return nil, err
	}
	refused := false
	policy := retry.Policy{Tries: maxTries, First: firstWait, Max: maxWait, Sleep: c.Sleep}
	resp, err := retry.Do(req.Context(), policy, func(ctx context.Context) (*http.Response, error) {
		o := optionsOf(ctx)
		if err := c.wait(ctx, o.key(), c.within(o.key(), req.URL)); err != nil {
			return nil, err
		}
		token := ""
		if o.credential != nil {
			var err error
			if token, err = o.credential.Token(ctx); err != nil {
				return nil, err
			}
		}
		resp, err := c.ask(req, body, o, token)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil && resp.StatusCode == http.StatusUnauthorized && !refused && o.credential != nil &&
			o.credential.Refused(token) {
			refused = true // the token was revoked: the next one differs
			return resp, retry.Immediately(errAgain)
		}
		return c.judge(req, o, resp, err)
	})
	if resp == nil {
		return nil, err
	}
	// Remove these headers: the libraries would refuse requests by a limit of another credential.
	for _, name := range []string{"Limit", "Remaining", "Reset"} {
		resp.Header.Del("X-RateLimit-" + name)
		resp.Header.Del("RateLimit-" + name)
	}
	return resp, nil
}

var errAgain = errors.New("the forge did not answer as it should")

// judge returns an answer, or the corresponding error. It marks temporary errors for retry.Do.
func (c *Client) judge(req *http.Request, o options, resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		err = fmt.Errorf("%w: %w", forge.ErrUnavailable, err)
		// a request that was not sent can be sent again
		if op, ok := errors.AsType[*net.OpError](err); o.repeats(req.Method) || ok && op.Op == "dial" {
			return nil, retry.Again(err)
		}
		return nil, err
	}
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests || code == http.StatusForbidden && c.Limited(resp):
		d, all := c.limit(resp.Header)
		key := o.key()
		if !all {
			key = c.within(key, req.URL)
		}
		limit := &forge.RateLimitError{Until: c.Clock().Add(d)}
		if c.close(key, limit.Until) {
			return nil, limit
		}
		return nil, retry.Immediately(limit) // wait delays the next try; the forge did not process this one
	case code >= http.StatusInternalServerError && o.repeats(req.Method):
		return resp, retry.After(errAgain, retryAfter(resp.Header, c.Clock()))
	}
	return resp, nil
}

// read reads the body of a request, so that it can be sent again. It returns nil if there is none.
func read(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer func() { _ = req.Body.Close() }() // it is in memory
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	return body, nil
}

// ask sends a request once. If the client has a cached answer, the request is conditional.
func (c *Client) ask(req *http.Request, body []byte, o options, token string) (*http.Response, error) {
	if c.answers == nil || req.Method != http.MethodGet {
		return c.send(req, body, o, token, "")
	}
	key := o.key() + "\n" + req.Header.Get("Accept") + "\n" + req.URL.String()
	have, known := c.answers.get(key)
	resp, err := c.send(req, body, o, token, have.tag)
	if err != nil {
		return nil, err
	}
	if known && resp.StatusCode == http.StatusNotModified {
		return have.response(req)
	}
	return resp, c.answers.put(key, resp)
}

func (c *Client) send(req *http.Request, body []byte, o options, token, tag string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), tryTimeout)
	defer cancel()
	r := req.Clone(ctx)
	if o.credential != nil {
		r.Header.Del("Authorization")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	resp, err := c.Next.RoundTrip(r)
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
	c.count(o.key(), resp.Header)
	return resp, nil
}

// BaseURL parses the address of an API and adds a slash at its end. example is shown in errors. Only loopback
// addresses may be http.
func BaseURL(text, example string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(text, "/") + "/")
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is not the address of an API (write %s)", text, example)
	}
	ip := net.ParseIP(u.Hostname())
	loopback := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback) {
		return nil, fmt.Errorf("%q would send the credential unencrypted (write https://)", text)
	}
	return u, nil
}

// NewTransport returns a transport with the system's proxies and with time limits.
func NewTransport() http.RoundTripper {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   8,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: tryTimeout,
	}
}
