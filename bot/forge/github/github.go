// Package github is the adapter for github.com and GitHub Enterprise Server. It implements all roles of package forge
// with GitHub's REST API, with the token of a user or of a workflow, or as a GitHub App. It holds the credentials and
// translates GitHub's types and errors; it decides nothing about fleets. Package rest sends the requests.
//
// The package is not API: it can change in every release.
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

// Config of the adapter. Exactly one of Token and App is set.
type Config struct {
	// URL is the base of the API; "" is https://api.github.com. GitHub Enterprise Server has https://host/api/v3.
	URL   string
	Token string
	App   *App
	// Transport sends the requests; nil is rest.NewTransport.
	Transport http.RoundTripper
	// Clock is required.
	Clock     func() time.Time
	UserAgent string // "" is sluice
	// Sleep waits between attempts; nil is a timer that ends with the context.
	Sleep func(ctx context.Context, d time.Duration) error
}

// App is a GitHub App.
type App struct {
	ID             int64  // or
	ClientID       string // the App's client id
	InstallationID int64  // 0: the adapter finds it for each repository
	PrivateKey     []byte // PEM
}

// Forge is the adapter. It is safe for concurrent use.
type Forge struct {
	requests *rest.Client
	client   *github.Client
	graph    string // the address of the GraphQL API
	token    rest.Credential
	app      *app

	*bulk

	self     sync.Mutex
	selfUser *forge.User
}

var (
	_ forge.Forge      = (*Forge)(nil)
	_ forge.Deliveries = (*Forge)(nil)
	_ forge.Protection = (*Forge)(nil)
	_ forge.Budget     = (*Forge)(nil)

	_ forge.BulkStatuses = (*Forge)(nil)

	_ forge.Labels         = (*Forge)(nil)
	_ forge.ReviewRequests = (*Forge)(nil)
	_ forge.Deployments    = (*Forge)(nil)
)

const defaultURL = "https://api.github.com"

// Quota implements forge.Budget.
func (f *Forge) Quota() (forge.Quota, bool) { return f.requests.Quota() }

// New returns the adapter. It sends no request.
func New(c Config) (*Forge, error) {
	base, err := rest.BaseURL(cmp.Or(c.URL, defaultURL), "https://api.github.com, or https://host/api/v3")
	if err != nil {
		return nil, fmt.Errorf("github: %w", err)
	}
	if c.Clock == nil {
		return nil, errors.New("github: Config.Clock is not set")
	}
	if (c.Token == "") == (c.App == nil) {
		return nil, errors.New("github: set either a token or a GitHub App, and not both")
	}
	if c.Transport == nil {
		c.Transport = rest.NewTransport()
	}
	requests := rest.New(rest.Config{
		Base: base, Next: c.Transport, Clock: c.Clock, Sleep: c.Sleep, Limited: limited,
		Conditional: true,
	})
	client := github.NewClient(requests.HTTP())
	client.BaseURL = base
	client.UserAgent = cmp.Or(c.UserAgent, "sluice")
	f := &Forge{requests: requests, client: client, graph: graphURL(base)}
	f.bulk = &bulk{forge: f, quotas: map[string]forge.Quota{}}
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
		return nil, errors.New("github: the GitHub App has neither an id nor a client id (see the settings page of the App)")
	}
	return &app{
		jwt: jwt{issuer: issuer, private: key, clock: clock}, client: client, clock: clock, fixed: a.InstallationID,
		installations: map[string]int64{}, tokens: map[string]*installation{},
	}, nil
}

// graphURL returns the address of the GraphQL API: /graphql, and /api/graphql on GitHub Enterprise Server.
func graphURL(base *url.URL) string {
	u := *base
	u.Path = strings.TrimSuffix(u.Path, "v3/") + "graphql"
	return u.String()
}

// GitToken returns a password for Git over HTTPS (user x-access-token) with the credential's permissions in
// this repository. The token of a GitHub App expires within an hour: call GitToken before each push.
func (f *Forge) GitToken(ctx context.Context, repo forge.Repository) (string, error) {
	_, _, cred, err := f.open(ctx, repo)
	if err != nil {
		return "", wrap("get a token for Git in "+repo.Path, err)
	}
	token, err := cred.Token(ctx)
	return token, wrap("get a token for Git in "+repo.Path, err)
}

// place is the owner and the name of a repository.
type place struct{ owner, name string }

// open determines the credential for a repository and returns a context whose requests carry it.
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

// privateKeyError returns an error with the next step.
func privateKeyError(why string, err error) (*rsa.PrivateKey, error) {
	const next = "use the PEM file that the settings page of the App generates under \"Private keys\""
	if err != nil {
		return nil, fmt.Errorf("github: the App's private key %s: %w: %s", why, err, next)
	}
	return nil, fmt.Errorf("github: the App's private key %s: %s", why, next)
}
