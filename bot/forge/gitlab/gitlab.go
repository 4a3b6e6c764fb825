// Package gitlab is the adapter of GitLab, gitlab.com and self-managed alike: it plays all roles of bot/forge over GitLab's REST
// API, with a personal, group or project access token, or with a CI job's own token. It owns requests, retries and the translation
// of GitLab's words. It must never decide anything about fleets, never read the environment, never send a credential to another
// host than the configured one, and never repeat a request that creates something unless GitLab surely did not act on the first.
package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/xanzy/go-gitlab"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// Config says which GitLab, and who Sluice is there. Either Token or JobToken is set.
type Config struct {
	URL       string            // base of the API, as CI_API_V4_URL has it; "" is https://gitlab.com/api/v4
	Token     string            // personal, group or project access token with the scope api
	JobToken  string            // CI_JOB_TOKEN: it may do little
	Transport http.RoundTripper // carries the requests; nil is one of its own with the system's proxies
	Clock     func() time.Time  // tells the time; nil is refused
	UserAgent string            // "" is sluice
	// Sleep waits between tries; nil is a timer that ends with the context.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Forge is GitLab. It is safe for concurrent use.
type Forge struct {
	client *gitlab.Client //nolint:staticcheck // the library is given; its successor has the same API
	job    bool           // the credential is a job's

	mu       sync.Mutex
	self     *forge.User
	projects map[int]string // full paths by id
	users    map[string]int // ids by lower-case name
}

var (
	_ forge.Forge      = (*Forge)(nil)
	_ forge.Protection = (*Forge)(nil)
)

const (
	defaultURL   = "https://gitlab.com/api/v4"
	commentLimit = 1_000_000 // https://docs.gitlab.com/administration/instance_limits/#size-of-comments-and-descriptions-of-issues-merge-requests-and-epics
	pageSize     = 100
	maxPages     = 1_000
)

// New makes the adapter. It sends nothing.
func New(c Config) (*Forge, error) {
	base, err := baseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if c.Clock == nil {
		return nil, errors.New("gitlab: no clock: set Config.Clock")
	}
	if (c.Token == "") == (c.JobToken == "") {
		return nil, errors.New("gitlab: set either a token or a job's token, and not both")
	}
	if c.Transport == nil {
		c.Transport = newTransport()
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	carry := &transport{next: c.Transport, base: base, clock: c.Clock, sleep: c.Sleep}
	options := []gitlab.ClientOptionFunc{
		gitlab.WithBaseURL(base.String()), gitlab.WithoutRetries(), gitlab.WithCustomLimiter(unlimited{}),
		gitlab.WithHTTPClient(&http.Client{Transport: carry, CheckRedirect: carry.redirect}),
	}
	f := &Forge{job: c.JobToken != "", projects: map[int]string{}, users: map[string]int{}}
	if f.job {
		f.client, err = gitlab.NewJobClient(c.JobToken, options...) //nolint:staticcheck // see the field
	} else {
		f.client, err = gitlab.NewClient(c.Token, options...) //nolint:staticcheck // see the field
	}
	if err != nil {
		return nil, fmt.Errorf("gitlab: %w", err)
	}
	f.client.UserAgent = c.UserAgent
	if c.UserAgent == "" {
		f.client.UserAgent = "sluice"
	}
	return f, nil
}

// unlimited keeps go-gitlab from asking the server for its limits first; its answers tell.
type unlimited struct{}

// Wait does not.
func (unlimited) Wait(context.Context) error { return nil }

func baseURL(s string) (*url.URL, error) {
	if s == "" {
		s = defaultURL
	}
	u, err := url.Parse(strings.TrimSuffix(s, "/") + "/")
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("gitlab: %q is no address of an API: write https://host/api/v4", s)
	}
	if !strings.HasSuffix(u.Path, "/api/v4/") {
		u.Path += "api/v4/"
	}
	ip := net.ParseIP(u.Hostname())
	if loopback := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(); u.Scheme != "https" && (u.Scheme != "http" || !loopback) {
		return nil, fmt.Errorf("gitlab: %q would send the credential in the clear: write https://", s)
	}
	return u, nil
}

func newTransport() http.RoundTripper {
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

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// pages asks for all pages of a list.
func pages[T any](ask func(page gitlab.ListOptions) ([]T, *gitlab.Response, error)) ([]T, error) {
	var out []T
	next := gitlab.ListOptions{Page: 1, PerPage: pageSize}
	for range maxPages {
		list, resp, err := ask(next)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
		if resp.NextPage == 0 {
			return out, nil
		}
		next.Page = resp.NextPage
	}
	return nil, fmt.Errorf("%w: a list of more than %d pages", forge.ErrUnavailable, maxPages)
}

func with(ctx context.Context) gitlab.RequestOptionFunc { return gitlab.WithContext(ctx) }

func when(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
