package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// OIDC is a sign-in with an OpenID Connect provider. GitLab is one.
type OIDC struct {
	Issuer       string
	ClientID     string
	ClientSecret string
	Redirect     string   // address of /-/callback
	Claim        string   // that is the person's name. Default: email, which the provider must have verified
	Groups       []string // of the claim groups: one of them is needed; empty admits everybody
	// Rights means that the server asks a forge what each person may read. Without it, only the provider knows who is
	// still a member, and the server asks it again every ten minutes.
	Rights bool
	Client *http.Client
}

// provider is the sign-in with an OIDC. It is safe for concurrent use.
type provider struct {
	OIDC

	mu        sync.Mutex
	connected *connection // nil until the provider has answered
}

// connection is what a provider says of itself.
type connection struct {
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
}

// SignIn returns the sign-in with the provider. It asks the provider when the first person signs in, and again until it
// answers: a service starts and works without it.
func (o OIDC) SignIn() SignIn {
	if o.Claim == "" {
		o.Claim = "email"
	}
	return &provider{OIDC: o}
}

func (p *provider) connect(ctx context.Context) (*connection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.connected != nil {
		return p.connected, nil
	}
	at, err := oidc.NewProvider(oidc.ClientContext(ctx, p.Client), p.Issuer)
	if err != nil {
		return nil, fmt.Errorf("OpenID provider: %w", err)
	}
	p.connected = &connection{
		verifier: at.Verifier(&oidc.Config{ClientID: p.ClientID}),
		oauth: oauth2.Config{
			ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: at.Endpoint(), RedirectURL: p.Redirect,
			Scopes: []string{oidc.ScopeOpenID, "profile", "email"},
		},
	}
	return p.connected, nil
}

// Identity implements SignIn.
func (p *provider) Identity() string {
	groups := slices.Sorted(slices.Values(p.Groups))
	return fmt.Sprintf("OpenID %q %q %q %q", p.Issuer, p.ClientID, p.Claim, groups)
}

// Lasts implements SignIn.
func (p *provider) Lasts() time.Duration {
	if p.Rights {
		return sessionFor
	}
	return renewAfter
}

// URL implements SignIn.
func (p *provider) URL(ctx context.Context, state, nonce, verifier string) (string, error) {
	c, err := p.connect(ctx)
	if err != nil {
		return "", err
	}
	return c.oauth.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), nil
}

// Finish implements SignIn.
func (p *provider) Finish(ctx context.Context, code, nonce, verifier string) (string, error) {
	c, err := p.connect(ctx)
	if err != nil {
		return "", err
	}
	ctx = oidc.ClientContext(ctx, p.Client)
	token, err := c.oauth.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err != nil {
		return "", fmt.Errorf("exchange of the code: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return "", errors.New("the provider sent no ID token")
	}
	id, err := c.verifier.Verify(ctx, raw)
	if err != nil {
		return "", fmt.Errorf("ID token: %w", err)
	}
	if id.Nonce != nonce {
		return "", errors.New("the ID token is of another sign-in")
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return "", fmt.Errorf("ID token: %w", err)
	}
	return p.person(claims)
}

func (p *provider) person(claims map[string]any) (string, error) {
	name, ok := claims[p.Claim].(string)
	if !ok || name == "" {
		return "", fmt.Errorf("the ID token has no claim %s", p.Claim)
	}
	if p.Claim == "email" && claims["email_verified"] != true {
		return "", errors.New("the provider has not verified the address")
	}
	if len(p.Groups) == 0 {
		return name, nil
	}
	groups, _ := claims["groups"].([]any)
	if !slices.ContainsFunc(groups, func(g any) bool {
		text, ok := g.(string)
		return ok &&
			slices.Contains(p.Groups, text)
	}) {
		return "", ErrNotAllowed
	}
	return name, nil
}

// GitHub is a sign-in with the user authorization of a GitHub App or an OAuth App. It asks for no scope: only the login
// is read.
type GitHub struct {
	Web          string // https://github.com
	API          string // https://api.github.com
	ClientID     string
	ClientSecret string
	Redirect     string // address of /-/callback
	Client       *http.Client
}

func (g GitHub) oauth() oauth2.Config {
	web := strings.TrimSuffix(g.Web, "/")
	return oauth2.Config{
		ClientID: g.ClientID, ClientSecret: g.ClientSecret, RedirectURL: g.Redirect,
		Endpoint: oauth2.Endpoint{AuthURL: web + "/login/oauth/authorize", TokenURL: web + "/login/oauth/access_token"},
	}
}

// Identity implements SignIn.
func (g GitHub) Identity() string { return fmt.Sprintf("GitHub %q %q %q", g.Web, g.API, g.ClientID) }

// Lasts implements SignIn: the rights of a person come from GitHub, which the server asks regularly.
func (GitHub) Lasts() time.Duration { return sessionFor }

// URL implements SignIn.
func (g GitHub) URL(_ context.Context, state, _, verifier string) (string, error) {
	c := g.oauth()
	return c.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier)), nil
}

// Finish implements SignIn.
func (g GitHub) Finish(ctx context.Context, code, _, verifier string) (string, error) {
	c := g.oauth()
	ctx = context.WithValue(ctx, oauth2.HTTPClient, g.Client)
	token, err := c.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err != nil {
		return "", fmt.Errorf("exchange of the code: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(g.API, "/")+"/user", nil)
	if err != nil {
		return "", err
	}
	token.SetAuthHeader(r)
	answer, err := g.Client.Do(r)
	if err != nil {
		return "", fmt.Errorf("the user's name: %w", err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	const most = 1 << 20
	var user struct{ Login string }
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the user's name: status %d", answer.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, most)).Decode(&user); err != nil {
		return "", fmt.Errorf("the user's name: %w", err)
	}
	if user.Login == "" {
		return "", errors.New("the forge names no user")
	}
	return user.Login, nil
}

// Proxy is an Access that takes the person's name from a header that a proxy in front of the server sets.
type Proxy struct {
	Header string
	From   []netip.Prefix // addresses of the proxies; the header of others is ignored
}

// Person implements Access.
func (p Proxy) Person(r *http.Request) (string, bool) {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !slices.ContainsFunc(p.From,
		func(net netip.Prefix) bool { return net.Contains(at.Addr().Unmap()) }) {
		return "", false
	}
	values := r.Header.Values(p.Header)
	if len(values) != 1 || values[0] == "" { // two values: one of them is the client's
		return "", false
	}
	return values[0], true
}

// Handle implements Access: the proxy signs people in and out.
func (Proxy) Handle(http.ResponseWriter, *http.Request) bool { return false }

// SignIn implements Access.
func (Proxy) SignIn(w http.ResponseWriter, r *http.Request) {
	message(w, r, http.StatusUnauthorized, "open the pages through the proxy that signs people in")
}
