package app_test

import (
	"testing"

	"github.com/sluice-gitops/sluice/bot/ci"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
)

// Git in a CI job uses the credential of the user, otherwise the token of the forge, otherwise the token of the job.
func TestGitCredentialOfAJob(t *testing.T) {
	for name, c := range map[string]struct {
		system                ci.System
		env                   map[string]string
		user, token, password string
	}{
		"GitHub": {ci.GitHubActions, map[string]string{"GITHUB_TOKEN": "g"}, "x-access-token", "g", ""},
		"GitHub, own token": {
			ci.GitHubActions,
			map[string]string{"GITHUB_TOKEN": "g", "SLUICE_FORGE_TOKEN": "f"},
			"x-access-token", "f", "",
		},
		"GitLab": {
			ci.GitLabCI,
			map[string]string{"GITLAB_TOKEN": "l", "CI_JOB_TOKEN": "j"},
			"oauth2",
			"l", "",
		},
		"GitLab, job": {ci.GitLabCI, map[string]string{"CI_JOB_TOKEN": "j"}, "gitlab-ci-token", "j", ""},
		"GitLab, token of Git": {
			ci.GitLabCI,
			map[string]string{"CI_JOB_TOKEN": "j", "SLUICE_GIT_TOKEN": "s"},
			"oauth2", "s", "",
		},
		"user and token of Git": {ci.GitLabCI, map[string]string{
			"CI_JOB_TOKEN": "j", "SLUICE_GIT_USERNAME": "mia",
			"SLUICE_GIT_TOKEN": "s",
		}, "mia", "s", ""},
		"password of Git": {
			ci.GitHubActions,
			map[string]string{"GITHUB_TOKEN": "g", "SLUICE_GIT_PASSWORD": "p"},
			"", "", "p",
		},
	} {
		env := app.Environment{Getenv: func(name string) string { return c.env[name] }}.ForCI(&ci.Context{System: c.system})
		user, token, password := env.Getenv("SLUICE_GIT_USERNAME"), env.Getenv("SLUICE_GIT_TOKEN"),
			env.Getenv("SLUICE_GIT_PASSWORD")
		if user != c.user || token != c.token || password != c.password {
			t.Errorf("%s: the user is %q, the token is %q, the password is %q", name, user, token, password)
		}
	}
}
