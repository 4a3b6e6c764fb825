package app

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-gitops/sluice/bot/ci"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/gitea"
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
	switch f.Kind {
	case "gitlab":
		a, err := gitlab.New(gitlab.Config{
			URL: f.API, Token: string(f.Token.Bytes()), Transport: transport,
			Clock: clock, UserAgent: userAgent(),
		})
		return service.Adapter{Forge: a, GitUser: "oauth2"}, err
	case "gitea":
		a, err := gitea.New(gitea.Config{
			URL: f.API, Token: string(f.Token.Bytes()), Transport: transport,
			Clock: clock, UserAgent: userAgent(),
		})
		return service.Adapter{Forge: a, GitUser: "oauth2"}, err
	}
	c := github.Config{
		URL: f.API, Token: string(f.Token.Bytes()), Transport: transport, Clock: clock,
		UserAgent: userAgent(),
	}
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

// tokenVariables returns the variables of a CI job that can hold the credential for its forge. The runners of Gitea set
// GITHUB_TOKEN to the token of the job.
func tokenVariables(f ci.Forge) []string {
	return map[ci.Forge][]string{
		ci.GitHub: {"GITHUB_TOKEN"}, ci.GitLab: {"GITLAB_TOKEN"},
		ci.Gitea: {"GITEA_TOKEN", "FORGEJO_TOKEN", "GITHUB_TOKEN"},
	}[f]
}

// ForgeToken returns the credential of a CI job for its forge; "" if there is none.
func (e Environment) ForgeToken(f ci.Forge) string {
	for _, name := range append([]string{"SLUICE_FORGE_TOKEN"}, tokenVariables(f)...) {
		if token := e.Getenv(name); token != "" {
			return token
		}
	}
	return ""
}

// Forge returns the forge that a CI job runs on. For Gitea it needs a token, for GitLab a token or the job's own.
func (e Environment) Forge(at *ci.Context) (Forge, error) {
	token := e.ForgeToken(at.Forge)
	switch at.Forge {
	case ci.GitHub:
		return github.New(github.Config{URL: at.APIURL, Token: token, Clock: time.Now, UserAgent: userAgent()})
	case ci.Gitea:
		if token == "" {
			return nil, errors.New("GITEA_TOKEN is needed: the token of the job, or the access token of a user, as a secret of the repository")
		}
		return gitea.New(gitea.Config{URL: at.APIURL, Token: token, Clock: time.Now, UserAgent: userAgent()})
	}
	c := gitlab.Config{URL: at.APIURL, Token: token, Clock: time.Now, UserAgent: userAgent()}
	if token == "" {
		c.JobToken = e.Getenv("CI_JOB_TOKEN")
	}
	if token == "" && c.JobToken == "" {
		return nil, errors.New("GITLAB_TOKEN is needed: a project's access token with the scope api, as a masked variable of the project")
	}
	return gitlab.New(c)
}

// StatusForge returns the forge that a CI job runs on, for reading commit statuses. It needs a token: a job's
// CI_JOB_TOKEN cannot read them, and GitHub allows only few requests without one.
func (e Environment) StatusForge(at *ci.Context) (Forge, error) {
	if e.ForgeToken(at.Forge) == "" {
		return nil, fmt.Errorf("no token of the forge (set %s or SLUICE_FORGE_TOKEN)", tokenVariables(at.Forge)[0])
	}
	return e.Forge(at)
}

// ForCI returns the environment of a CI job: if Git has no credential, it uses the forge's. In the job of a fork,
// charts are fetched without credentials.
func (e Environment) ForCI(at *ci.Context) Environment {
	user, token := e.gitCredential(at.Forge)
	out := e
	out.Untrusted = at.Fork
	out.Getenv = func(name string) string {
		v := e.Getenv(name)
		if v != "" || e.Getenv("SLUICE_GIT_PASSWORD") != "" {
			return v
		}
		switch name {
		case "SLUICE_GIT_USERNAME":
			return user
		case "SLUICE_GIT_TOKEN":
			return token
		}
		return v
	}
	return out
}

// gitCredential returns the user and the token with which Git in a CI job reaches the forge. Each forge wants a user
// name of its own beside a token, and GitLab another one beside the token of a job.
func (e Environment) gitCredential(f ci.Forge) (user, token string) {
	token = cmp.Or(e.Getenv("SLUICE_GIT_TOKEN"), e.ForgeToken(f))
	switch {
	case f == ci.GitHub:
		return "x-access-token", token
	case token == "" && f == ci.GitLab:
		return "gitlab-ci-token", e.Getenv("CI_JOB_TOKEN")
	}
	return "oauth2", token
}
