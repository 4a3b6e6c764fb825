package app

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-gitops/sluice/bot/ci"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/github"
	"github.com/sluice-gitops/sluice/bot/forge/gitlab"
	"github.com/sluice-gitops/sluice/service"
	"github.com/sluice-gitops/sluice/service/config"
)

// Forge is a forge with all its roles.
type Forge = forge.Forge

func userAgent() string { return "sluice/" + Version() }

// connect creates the adapter of a configured forge.
func connect(f config.Forge, transport http.RoundTripper, clock func() time.Time) (service.Adapter, error) {
	if f.Kind == "gitlab" {
		a, err := gitlab.New(gitlab.Config{URL: f.API, Token: string(f.Token.Bytes()), Transport: transport, Clock: clock, UserAgent: userAgent()})
		return service.Adapter{Forge: a, GitUser: "oauth2"}, err
	}
	c := github.Config{URL: f.API, Token: string(f.Token.Bytes()), Transport: transport, Clock: clock, UserAgent: userAgent()}
	if f.App.ID != 0 {
		c.Token, c.App = "", &github.App{ID: f.App.ID, PrivateKey: f.App.Key.Bytes()}
	}
	a, err := github.New(c)
	if err != nil {
		return service.Adapter{}, err
	}
	out := service.Adapter{Forge: a, GitUser: "x-access-token", Deliveries: a}
	if c.App != nil {
		out.AppToken = a.GitToken
	}
	return out, nil
}

// token returns the credential of a CI job for its forge.
func (e Environment) token(s ci.System) string {
	if s == ci.GitHubActions {
		return cmp.Or(e.Getenv("SLUICE_FORGE_TOKEN"), e.Getenv("GITHUB_TOKEN"))
	}
	return cmp.Or(e.Getenv("SLUICE_FORGE_TOKEN"), e.Getenv("GITLAB_TOKEN"))
}

// Forge returns the forge that a CI job runs on.
func (e Environment) Forge(at *ci.Context) (Forge, error) {
	token := e.token(at.System)
	transport := http.DefaultTransport
	if at.System == ci.GitHubActions {
		return github.New(github.Config{URL: at.APIURL, Token: token, Transport: transport, Clock: time.Now, UserAgent: userAgent()})
	}
	if job := e.Getenv("CI_JOB_TOKEN"); token == "" && job != "" {
		return gitlab.New(gitlab.Config{URL: at.APIURL, JobToken: job, Transport: transport, Clock: time.Now, UserAgent: userAgent()})
	}
	if token == "" {
		return nil, fmt.Errorf("GITLAB_TOKEN is needed: a project's access token with the scope api, as a masked variable of the project")
	}
	return gitlab.New(gitlab.Config{URL: at.APIURL, Token: token, Transport: transport, Clock: time.Now, UserAgent: userAgent()})
}

// StatusForge returns the forge that a CI job runs on, for reading commit statuses. It needs a token: a job's CI_JOB_TOKEN cannot read them,
// and GitHub allows only few requests without one.
func (e Environment) StatusForge(at *ci.Context) (Forge, error) {
	if e.token(at.System) == "" {
		name := map[ci.System]string{ci.GitHubActions: "GITHUB_TOKEN", ci.GitLabCI: "GITLAB_TOKEN"}[at.System]
		return nil, fmt.Errorf("no token of the forge (set %s or SLUICE_FORGE_TOKEN)", name)
	}
	return e.Forge(at)
}

// ForCI returns the environment of a CI job: if Git has no credential, it uses the forge's.
func (e Environment) ForCI(at *ci.Context) Environment {
	outer := e.Getenv
	out := e
	out.Untrusted = at.Fork
	out.Getenv = func(name string) string {
		v := outer(name)
		if name != "SLUICE_GIT_TOKEN" && name != "SLUICE_GIT_USERNAME" || v != "" || outer("SLUICE_GIT_PASSWORD") != "" {
			return v
		}
		token := cmp.Or(outer("SLUICE_GIT_TOKEN"), e.token(at.System))
		job := outer("CI_JOB_TOKEN")
		switch {
		case at.System == ci.GitLabCI && token == "" && name == "SLUICE_GIT_USERNAME":
			return "gitlab-ci-token"
		case at.System == ci.GitLabCI && token == "":
			return job
		case name == "SLUICE_GIT_TOKEN":
			return token
		}
		return map[ci.System]string{ci.GitHubActions: "x-access-token", ci.GitLabCI: "oauth2"}[at.System]
	}
	return out
}
