// Package gitlab is the adapter for gitlab.com and self-managed GitLab. It implements all roles of package forge with
// GitLab's REST API, with a personal, group or project access token, or with the token of a CI job. It translates
// GitLab's types and errors; it decides nothing about fleets. Package rest sends the requests.
//
// The package is not API: it can change in every release.
package gitlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/xanzy/go-gitlab"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
	"github.com/sluice-gitops/sluice/internal/lru"
)

// Config of the adapter. Exactly one of Token and JobToken is set.
type Config struct {
	URL       string            // base of the API, as CI_API_V4_URL has it; "" is https://gitlab.com/api/v4
	Token     string            // personal, group or project access token with the scope api
	JobToken  string            // CI_JOB_TOKEN, which has few permissions
	Transport http.RoundTripper // sends the requests; nil is rest.NewTransport
	Clock     func() time.Time  // required
	UserAgent string            // "" is sluice
	// Sleep waits between attempts; nil is a timer that ends with the context.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Forge is the adapter. It is safe for concurrent use.
type Forge struct {
	requests *rest.Client
	client   *gitlab.Client //nolint:staticcheck // the successor of the library has the same API
	job      bool           // the credential is a job's

	clock    func() time.Time
	projects *lru.Cache[*knownProject] // by id
	users    *lru.Cache[int]           // ids by lower-case name

	mu   sync.Mutex
	self *forge.User
}

var (
	_ forge.Forge      = (*Forge)(nil)
	_ forge.Protection = (*Forge)(nil)
	_ forge.Budget     = (*Forge)(nil)

	_ forge.BulkStatuses = (*Forge)(nil)

	_ forge.Labels         = (*Forge)(nil)
	_ forge.ReviewRequests = (*Forge)(nil)
	_ forge.Deployments    = (*Forge)(nil)
)

const (
	defaultURL = "https://gitlab.com/api/v4"
	// https://docs.gitlab.com/administration/instance_limits/#size-of-comments-and-descriptions-of-issues-merge-requests-and-epics
	commentLimit = 1_000_000
	pageSize     = 100
	maxProjects  = 4096 // whose paths are cached
	maxUsers     = 4096 // whose ids are cached: everybody who can comment on a public project is looked up
)

// Quota implements forge.Budget.
func (f *Forge) Quota() (forge.Quota, bool) { return f.requests.Quota() }

// New returns the adapter. It sends no request.
func New(c Config) (*Forge, error) {
	base, err := baseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if c.Clock == nil {
		return nil, errors.New("gitlab: Config.Clock is not set")
	}
	if (c.Token == "") == (c.JobToken == "") {
		return nil, errors.New("gitlab: set either a token or the token of a job, and not both")
	}
	if c.Transport == nil {
		c.Transport = rest.NewTransport()
	}
	requests := rest.New(rest.Config{Base: base, Next: c.Transport, Clock: c.Clock, Sleep: c.Sleep})
	options := []gitlab.ClientOptionFunc{
		gitlab.WithBaseURL(base.String()), gitlab.WithoutRetries(), gitlab.WithCustomLimiter(unlimited{}),
		gitlab.WithHTTPClient(requests.HTTP()),
	}
	f := &Forge{
		requests: requests, job: c.JobToken != "", clock: c.Clock,
		projects: lru.New[*knownProject](maxProjects), users: lru.New[int](maxUsers),
	}
	if f.job {
		f.client, err = gitlab.NewJobClient(c.JobToken, options...) //nolint:staticcheck // see the field
	} else {
		f.client, err = gitlab.NewClient(c.Token, options...) //nolint:staticcheck // see the field
	}
	if err != nil {
		return nil, fmt.Errorf("gitlab: %w", err)
	}
	f.client.UserAgent = cmp.Or(c.UserAgent, "sluice")
	return f, nil
}

// unlimited prevents the library from asking the server for its limits first.
type unlimited struct{}

// Wait implements the library's rate limiter. It returns at once.
func (unlimited) Wait(context.Context) error { return nil }

// baseURL parses the address of the API. The path /api/v4 may be missing.
func baseURL(s string) (*url.URL, error) {
	u, err := rest.BaseURL(cmp.Or(s, defaultURL), "https://host/api/v4")
	if err != nil {
		return nil, fmt.Errorf("gitlab: %w", err)
	}
	if !strings.HasSuffix(u.Path, "/api/v4/") {
		u.Path += "api/v4/"
	}
	return u, nil
}

// pages reads all pages of a list.
func pages[T any](list func(o gitlab.ListOptions) ([]T, *gitlab.Response, error)) ([]T, error) {
	return rest.Pages(func(page int) ([]T, int, error) {
		some, resp, err := list(gitlab.ListOptions{Page: page, PerPage: pageSize})
		if err != nil {
			return nil, 0, err
		}
		return some, resp.NextPage, nil
	})
}

func with(ctx context.Context) gitlab.RequestOptionFunc { return gitlab.WithContext(ctx) }

func when(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
