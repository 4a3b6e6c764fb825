// Package gitea is the adapter for Gitea and Forgejo. It implements all roles of package forge with their common REST
// API and the access token of a user. It uses the types of Gitea's client library, but sends the requests by package
// rest: the library has one context for all requests of a client, drops the HTTP status of an error, and lacks the
// pages of some lists. The package decides nothing about fleets.
//
// The package is not API: it can change in every release.
package gitea

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"code.gitea.io/sdk/gitea"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
	"github.com/sluice-gitops/sluice/internal/lru"
)

// Config of the adapter. URL, Token and Clock are required.
type Config struct {
	URL       string            // address of the server, with or without /api/v1
	Token     string            // access token of a user, or of a job of Gitea Actions
	Transport http.RoundTripper // sends the requests; nil is rest.NewTransport
	Clock     func() time.Time
	UserAgent string // "" is sluice
	// Sleep waits between attempts; nil is a timer that ends with the context.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Forge is the adapter. It is safe for concurrent use.
type Forge struct {
	requests  *rest.Client
	http      *http.Client
	base      *url.URL
	token     string
	userAgent string
	clock     func() time.Time

	histories *lru.Cache[*history] // by repository

	mu   sync.Mutex
	self *forge.User
	size int // of pages; 0 is unknown
}

var (
	_ forge.Forge      = (*Forge)(nil)
	_ forge.Protection = (*Forge)(nil)
	_ forge.Budget     = (*Forge)(nil)

	_ forge.Labels         = (*Forge)(nil)
	_ forge.ReviewRequests = (*Forge)(nil)
)

const (
	// commentLimit is GitHub's. Gitea has no limit of its own, but renders long comments slowly.
	commentLimit = 65_536
	pageSize     = 50 // at most; a server can have a lower limit, see Forge.pageSize
	maxHistories = 512
)

// Quota implements forge.Budget. Gitea has no rate limit; a proxy may have one.
func (f *Forge) Quota() (forge.Quota, bool) { return f.requests.Quota() }

// New returns the adapter. It sends no request.
func New(c Config) (*Forge, error) {
	if c.Clock == nil {
		return nil, errors.New("gitea: Config.Clock is not set")
	}
	if c.URL == "" || c.Token == "" {
		return nil, errors.New("gitea: set the address of the server and a token")
	}
	base, err := rest.BaseURL(c.URL, "https://host/api/v1")
	if err != nil {
		return nil, fmt.Errorf("gitea: %w", err)
	}
	if !strings.HasSuffix(base.Path, "/api/v1/") {
		base.Path += "api/v1/"
	}
	if c.Transport == nil {
		c.Transport = rest.NewTransport()
	}
	requests := rest.New(rest.Config{Base: base, Next: c.Transport, Clock: c.Clock, Sleep: c.Sleep})
	return &Forge{
		requests: requests, http: requests.HTTP(), base: base, token: c.Token,
		userAgent: cmp.Or(c.UserAgent, "sluice"), clock: c.Clock, histories: lru.New[*history](maxHistories),
	}, nil
}

// call sends a request and decodes the answer into out, which may be nil. path is relative to the API and escaped. It
// returns the headers of the answer. A refusal is a *refusal.
func (f *Forge) call(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, f.base.String()+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "token "+f.token)
	req.Header.Set("User-Agent", f.userAgent)
	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(resp.Body) // package rest limits it
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, refusalOf(resp.StatusCode, data)
	}
	if out == nil || len(data) == 0 { // 204
		return resp.Header, nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("the answer is not what Gitea documents: %w", err)
	}
	return resp.Header, nil
}

// get reads one object.
func get[T any](ctx context.Context, f *Forge, path string) (T, error) {
	var out T
	_, err := f.call(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

// pages reads all pages of a list. items returns the items of a page.
func pages[P, T any](ctx context.Context, f *Forge, path string, query url.Values, items func(P) []T) ([]T, error) {
	size, err := f.pageSize(ctx)
	if err != nil {
		return nil, err
	}
	return rest.Pages(func(page int) ([]T, int, error) {
		var answer P
		header, err := f.call(ctx, http.MethodGet, onPage(path, query, page, size), nil, &answer)
		if err != nil {
			return nil, 0, err
		}
		some := items(answer)
		return some, nextPage(header, page, len(some), size), nil
	})
}

// nextPage returns the number of the page after one with n items; 0 if there is none. Gitea can leave items out of a
// page that it could not read, so that a short page need not be the last one. Not all lists have the header Link.
func nextPage(h http.Header, page, n, size int) int {
	if n < size && !strings.Contains(h.Get("Link"), `rel="next"`) {
		return 0
	}
	return page + 1
}

// list reads all pages of a list of objects.
func list[T any](ctx context.Context, f *Forge, path string, query url.Values) ([]T, error) {
	return pages(ctx, f, path, query, func(all []T) []T { return all })
}

func onPage(path string, query url.Values, page, size int) string {
	q := url.Values{"page": {strconv.Itoa(page)}, "limit": {strconv.Itoa(size)}}
	maps.Copy(q, query)
	return path + "?" + q.Encode()
}

// pageSize returns the number of items to ask for. A server answers with fewer items than asked for if its setting
// MAX_RESPONSE_ITEMS is lower, so that a page of that size would look like the last one.
func (f *Forge) pageSize(ctx context.Context) (int, error) {
	f.mu.Lock()
	size := f.size
	f.mu.Unlock()
	if size > 0 {
		return size, nil
	}
	limits, err := get[gitea.GlobalAPISettings](ctx, f, "settings/api")
	if err != nil {
		return 0, fmt.Errorf("read the page size of the server: %w", err)
	}
	if size = limits.MaxResponseItems; size <= 0 || size > pageSize {
		size = pageSize
	}
	f.mu.Lock()
	f.size = size
	f.mu.Unlock()
	return size, nil
}

// at returns the path of a resource of a repository. It is an ErrNotFound if the path of the repository does not have
// two parts, as all have on Gitea.
func at(repo forge.Repository, format string, args ...any) (string, error) {
	owner, name, ok := strings.Cut(repo.Path, "/")
	if !ok || owner == "" || name == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("%w: %.200q is not the path of a repository (owner/name)", forge.ErrNotFound, repo.Path)
	}
	return "repos/" + url.PathEscape(owner) + "/" + url.PathEscape(name) + fmt.Sprintf(format, args...), nil
}

func when(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
