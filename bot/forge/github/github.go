// Package github is the adapter of GitHub, github.com and GitHub Enterprise Server alike: it plays all roles of bot/forge
// over GitHub's REST API, as a user's token, as a workflow's token, or as a GitHub App. It owns requests, retries, credentials
// and the translation of GitHub's words. It must never decide anything about fleets, never read the environment, never
// send a credential to another host than the configured one, and never repeat a request that creates something unless
// GitHub surely did not act on the first.
package github

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// Config says which GitHub, and who Sluice is there. Either Token or App is set.
type Config struct {
	// URL is the base of the API; "" is https://api.github.com. GitHub Enterprise Server has https://host/api/v3.
	URL   string
	Token string
	App   *App
	// Transport carries the requests; nil is a transport of its own with the system's proxies.
	Transport http.RoundTripper
	// Clock tells the time; nil is refused.
	Clock     func() time.Time
	UserAgent string // "" is sluice
	// Sleep waits between tries; nil is a timer that ends with the context.
	Sleep func(ctx context.Context, d time.Duration) error
}

// App is a GitHub App.
type App struct {
	ID             int64  // or
	ClientID       string // the App's client id
	InstallationID int64  // 0: found for each repository
	PrivateKey     []byte // PEM
}

// Forge is GitHub. It is safe for concurrent use.
type Forge struct {
	client *github.Client
	graph  string // the address of the GraphQL API
	token  credential
	app    *app

	self     sync.Mutex
	selfUser *forge.User
}

var (
	_ forge.Forge      = (*Forge)(nil)
	_ forge.Deliveries = (*Forge)(nil)
	_ forge.Protection = (*Forge)(nil)
)

const defaultURL = "https://api.github.com"

// New makes the adapter. It sends nothing.
func New(c Config) (*Forge, error) {
	base, err := baseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if c.Clock == nil {
		return nil, errors.New("github: no clock: set Config.Clock")
	}
	if (c.Token == "") == (c.App == nil) {
		return nil, errors.New("github: set either a token or a GitHub App, and not both")
	}
	if c.Transport == nil {
		c.Transport = newTransport()
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	if c.UserAgent == "" {
		c.UserAgent = "sluice"
	}
	carry := &transport{next: c.Transport, base: base, clock: c.Clock, sleep: c.Sleep, until: map[string]time.Time{}}
	client := github.NewClient(&http.Client{Transport: carry, CheckRedirect: carry.redirect})
	client.BaseURL = base
	client.UserAgent = c.UserAgent
	f := &Forge{client: client, graph: graphURL(base)}
	if c.App == nil {
		f.token = static(c.Token)
		return f, nil
	}
	f.app, err = newApp(*c.App, client, c.Clock)
	return f, err
}

func newApp(a App, client *github.Client, clock func() time.Time) (*app, error) {
	key, err := privateKey(a.PrivateKey)
	if err != nil {
		return nil, err
	}
	issuer := a.ClientID
	if issuer == "" && a.ID > 0 {
		issuer = fmt.Sprint(a.ID)
	}
	if issuer == "" {
		return nil, errors.New("github: the GitHub App has neither an id nor a client id: both are on the App's settings page")
	}
	return &app{
		jwt: jwt{issuer: issuer, private: key, clock: clock}, client: client, clock: clock, fixed: a.InstallationID,
		installations: map[string]int64{}, tokens: map[string]*installation{},
	}, nil
}

// baseURL reads the base of the API, with a slash at its end as go-github wants it.
func baseURL(s string) (*url.URL, error) {
	if s == "" {
		s = defaultURL
	}
	u, err := url.Parse(strings.TrimSuffix(s, "/") + "/")
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("github: %q is no address of an API: write https://api.github.com, or https://host/api/v3", s)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, fmt.Errorf("github: %q would send the credential in the clear: write https://", s)
	}
	return u, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// graphURL is where GraphQL lives beside a REST API: /graphql, and /api/graphql on GitHub Enterprise Server.
func graphURL(base *url.URL) string {
	u := *base
	u.Path = strings.TrimSuffix(u.Path, "v3/") + "graphql"
	return u.String()
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

// GitToken gives a password for Git over HTTPS (user x-access-token) that reads and writes this repository as far as the
// credential may. That of a GitHub App ends within the hour: ask again before each push.
func (f *Forge) GitToken(ctx context.Context, repo forge.Repository) (string, error) {
	_, _, cred, err := f.open(ctx, repo)
	if err != nil {
		return "", wrap("get a token for Git in "+repo.Path, err)
	}
	token, err := cred.token(ctx)
	return token, wrap("get a token for Git in "+repo.Path, err)
}

// place is a repository as requests name it.
type place struct{ owner, name string }

// open finds the credential of a repository and gives a context in which requests carry it.
func (f *Forge) open(ctx context.Context, repo forge.Repository) (context.Context, place, credential, error) {
	p, err := parsePath(repo)
	if err != nil {
		return nil, p, nil, err
	}
	cred := f.token
	if f.app != nil {
		if cred, err = f.app.of(ctx, p); err != nil {
			return nil, p, nil, err
		}
	}
	return carrying(ctx, cred), p, cred, nil
}

// privateKeyError says what to do about a key.
func privateKeyError(why string, err error) (*rsa.PrivateKey, error) {
	const next = "give the PEM file that the App's settings page makes under «Private keys»"
	if err != nil {
		return nil, fmt.Errorf("github: the App's private key %s: %w: %s", why, err, next)
	}
	return nil, fmt.Errorf("github: the App's private key %s: %s", why, next)
}
