package app_test

import (
	"testing"

	"github.com/sluice-gitops/sluice/bot/ci"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
)

// Git in a CI job uses the credential of the user, otherwise the token of the forge, otherwise the token of the job.
func TestGitCredentialOfAJob(t *testing.T) {
	for name, c := range map[string]struct {
		forge                 ci.Forge
		env                   map[string]string
		user, token, password string
	}{
		"GitHub": {ci.GitHub, map[string]string{"GITHUB_TOKEN": "g"}, "x-access-token", "g", ""},
		"GitHub, own token": {
			ci.GitHub,
			map[string]string{"GITHUB_TOKEN": "g", "SLUICE_FORGE_TOKEN": "f"},
			"x-access-token", "f", "",
		},
		"GitLab": {
			ci.GitLab,
			map[string]string{"GITLAB_TOKEN": "l", "CI_JOB_TOKEN": "j"},
			"oauth2",
			"l", "",
		},
		"GitLab, job": {ci.GitLab, map[string]string{"CI_JOB_TOKEN": "j"}, "gitlab-ci-token", "j", ""},
		"GitLab, token of Git": {
			ci.GitLab,
			map[string]string{"CI_JOB_TOKEN": "j", "SLUICE_GIT_TOKEN": "s"},
			"oauth2", "s", "",
		},
		"Gitea, of the job": {ci.Gitea, map[string]string{"GITHUB_TOKEN": "g"}, "oauth2", "g", ""},
		"Gitea, own token": {
			ci.Gitea,
			map[string]string{"GITHUB_TOKEN": "g", "GITEA_TOKEN": "t"},
			"oauth2", "t", "",
		},
		"user and token of Git": {ci.GitLab, map[string]string{
			"CI_JOB_TOKEN": "j", "SLUICE_GIT_USERNAME": "mia",
			"SLUICE_GIT_TOKEN": "s",
		}, "mia", "s", ""},
		"password of Git": {
			ci.GitHub,
			map[string]string{"GITHUB_TOKEN": "g", "SLUICE_GIT_PASSWORD": "p"},
			"", "", "p",
		},
	} {
		env := app.Environment{Getenv: func(name string) string { return c.env[name] }}.ForCI(&ci.Context{Forge: c.forge})
		user, token, password := env.Getenv("SLUICE_GIT_USERNAME"), env.Getenv("SLUICE_GIT_TOKEN"),
			env.Getenv("SLUICE_GIT_PASSWORD")
		if user != c.user || token != c.token || password != c.password {
			t.Errorf("%s: the user is %q, the token is %q, the password is %q", name, user, token, password)
		}
	}
}
