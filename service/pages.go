package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/service/config"
	"github.com/sluice-gitops/sluice/site"
	"github.com/sluice-gitops/sluice/site/server"
)

// Pages returns the server of the fleets' pages according to the configuration at the start; nil if it has none.
// Close ends its streams.
func (s *Service) Pages() (*server.Server, error) {
	c := s.initial.Pages
	if c.Listen == "" {
		return nil, nil //nolint:nilnil // no pages
	}
	out := server.Config{Source: fleetSource{s}, Clock: s.clock, Log: s.log}
	var err error
	if out.Access, err = s.pagesAccess(c); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	if c.Auth.Forge.Name != "" {
		out.Rights = s.mayRead
	}
	return server.New(out), nil
}

// pagesAccess returns how the pages identify people. It returns nil for a loopback address without a sign-in.
func (s *Service) pagesAccess(c config.Pages) (server.Access, error) {
	const limit = 30 * time.Second
	client := &http.Client{Timeout: limit, Transport: s.o.Transport}
	callback := strings.TrimSuffix(c.Address, "/") + "/-/callback"
	var signIn server.SignIn
	switch {
	case c.Auth.Header.Name != "":
		from, err := c.Auth.Header.Networks()
		return server.Proxy{Header: c.Auth.Header.Name, From: from}, err
	case c.Auth.OIDC.Issuer != "":
		o := c.Auth.OIDC
		signIn = server.OIDC{
			Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: string(o.ClientSecret.Bytes()), Redirect: callback,
			Claim: o.Claim, Groups: o.Groups, Client: client,
		}.SignIn()
	case c.Auth.Forge.Name != "":
		signIn = s.forgeSignIn(c.Auth.Forge, callback, client)
	default:
		return nil, nil //nolint:nilnil // the configuration allows this on loopback addresses only
	}
	return server.NewSessions(signIn, c.CookieKey.Bytes(), c.Address, s.log)
}

func (s *Service) forgeSignIn(c config.PagesForge, callback string, client *http.Client) server.SignIn {
	f := s.state().forges[c.Name]
	web := c.Web
	if web == "" {
		web = f.Git
	}
	secret := string(c.ClientSecret.Bytes())
	if f.Kind == "github" {
		return server.GitHub{
			Web: web, API: f.API, ClientID: c.ClientID, ClientSecret: secret, Redirect: callback,
			Client: client,
		}
	}
	return server.OIDC{
		Issuer: web, ClientID: c.ClientID, ClientSecret: secret, Redirect: callback,
		Claim: "preferred_username", Rights: true, Client: client,
	}.SignIn()
}

// mayRead asks the forge whether a person may read a repository. People of one forge see no repository of another.
func (s *Service) mayRead(ctx context.Context, person, repository string) (bool, error) {
	p := placeOf(repository)
	f := s.state().forges[p.Forge()]
	if f == nil || p.Forge() != s.initial.Pages.Auth.Forge.Name {
		return false, nil
	}
	access, err := f.Adapter.Access(ctx, p.Repo(), person)
	if errors.Is(err, forge.ErrNotFound) {
		return false, nil
	}
	if errors.Is(err, forge.ErrUnavailable) {
		err = &promote.UnavailableError{Err: err}
	}
	return access >= forge.AccessRead, err
}

// fleetSource reads the fleets of the configured repositories. It implements server.Source.
type fleetSource struct{ s *Service }

// placeOf parses FORGE/PATH, the form in addresses of pages. Names of forges have no slash.
func placeOf(repository string) hint.Place {
	name, path, _ := strings.Cut(repository, "/")
	return hint.NewPlace(name, path)
}

// Repositories implements server.Source.
func (f fleetSource) Repositories(context.Context) ([]string, error) {
	var out []string
	for _, p := range f.s.places() {
		out = append(out, repositoryOf(p))
	}
	return out, f.s.listings.complete(f.s.state().forges)
}

// Tips implements server.Source.
func (f fleetSource) Tips(ctx context.Context, repository string) (string, error) {
	w, err := f.s.session(ctx, placeOf(repository))
	if err != nil {
		return "", err
	}
	defer w.Close()
	return w.Tips(ctx)
}

// Reviews implements server.Source.
func (f fleetSource) Reviews(repository string) (version string, list func() []site.MergeRequest) {
	p := placeOf(repository)
	return f.s.reviews.Changes(p), func() []site.MergeRequest { return f.s.reviews.List(p) }
}

// Read implements server.Source.
func (f fleetSource) Read(ctx context.Context, repository string, earlier *site.Fleet) (*site.Fleet, error) {
	w, err := f.s.session(ctx, placeOf(repository))
	if err != nil {
		return nil, err
	}
	defer w.Close()
	fleet, err := w.Site(ctx, earlier)
	if err != nil {
		return nil, err
	}
	fleet.Reviews, fleet.MergeRequests = true, f.s.reviews.List(placeOf(repository))
	return fleet, nil
}

// Changes implements server.Source.
func (f fleetSource) Changes(ctx context.Context, repository string, c site.Change) (*report.Review, error) {
	w, err := f.s.session(ctx, placeOf(repository))
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return w.Changes(ctx, c)
}
