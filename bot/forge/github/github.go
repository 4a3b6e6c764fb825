// Package github is the adapter of GitHub, github.com and GitHub Enterprise Server alike: it plays all roles of bot/forge
// over GitHub's REST API, as a user's token, as a workflow's token, or as a GitHub App. It owns requests, retries, credentials
// and the translation of GitHub's words. It must never decide anything about fleets, never read the environment, never
// send a credential to another host than the configured one, and never repeat a request that creates something unless
// GitHub surely did not act on the first.
package github

import (
	"cmp"
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
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
	requests *rest.Client
	client   *github.Client
	graph    string // the address of the GraphQL API
	token    rest.Credential
	app      *app

	self     sync.Mutex
	selfUser *forge.User
}

var (
	_ forge.Forge      = (*Forge)(nil)
	_ forge.Deliveries = (*Forge)(nil)
	_ forge.Protection = (*Forge)(nil)
	_ forge.Budget     = (*Forge)(nil)
)

const defaultURL = "https://api.github.com"

// Quota implements forge.Budget.
func (f *Forge) Quota() (forge.Quota, bool) { return f.requests.Quota() }

// New makes the adapter. It sends nothing.
func New(c Config) (*Forge, error) {
	base, err := rest.BaseURL(cmp.Or(c.URL, defaultURL), "https://api.github.com, or https://host/api/v3")
	if err != nil {
		return nil, fmt.Errorf("github: %w", err)
	}
	if c.Clock == nil {
		return nil, errors.New("github: no clock: set Config.Clock")
	}
	if (c.Token == "") == (c.App == nil) {
		return nil, errors.New("github: set either a token or a GitHub App, and not both")
	}
	if c.Transport == nil {
		c.Transport = rest.NewTransport()
	}
	requests, err := rest.New(rest.Config{Base: base, Next: c.Transport, Clock: c.Clock, Sleep: c.Sleep, Limited: limited, Conditional: true})
	if err != nil {
		return nil, fmt.Errorf("github: %w", err)
	}
	client := github.NewClient(requests.HTTP())
	client.BaseURL = base
	client.UserAgent = cmp.Or(c.UserAgent, "sluice")
	f := &Forge{requests: requests, client: client, graph: graphURL(base)}
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

// graphURL is where GraphQL lives beside a REST API: /graphql, and /api/graphql on GitHub Enterprise Server.
func graphURL(base *url.URL) string {
	u := *base
	u.Path = strings.TrimSuffix(u.Path, "v3/") + "graphql"
	return u.String()
}

// GitToken gives a password for Git over HTTPS (user x-access-token) that reads and writes this repository as far as the
// credential may. That of a GitHub App ends within the hour: ask again before each push.
func (f *Forge) GitToken(ctx context.Context, repo forge.Repository) (string, error) {
	_, _, cred, err := f.open(ctx, repo)
	if err != nil {
		return "", wrap("get a token for Git in "+repo.Path, err)
	}
	token, err := cred.Token(ctx)
	return token, wrap("get a token for Git in "+repo.Path, err)
}

// place is a repository as requests name it.
type place struct{ owner, name string }

// open finds the credential of a repository and gives a context in which requests carry it.
func (f *Forge) open(ctx context.Context, repo forge.Repository) (context.Context, place, rest.Credential, error) {
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
	return rest.With(ctx, cred), p, cred, nil
}

// privateKeyError says what to do about a key.
func privateKeyError(why string, err error) (*rsa.PrivateKey, error) {
	const next = "give the PEM file that the App's settings page makes under «Private keys»"
	if err != nil {
		return nil, fmt.Errorf("github: the App's private key %s: %w: %s", why, err, next)
	}
	return nil, fmt.Errorf("github: the App's private key %s: %s", why, next)
}
