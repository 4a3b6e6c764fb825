package github_test

import (
	"errors"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/github"
)

// A branch is protected if a single writer cannot move it, with either kind of rule.
func TestProtected(t *testing.T) {
	const branch = "env/prod"
	type list = []fakegithub.Rule
	deletion, force := fakegithub.Rule{Pattern: "env/*", Type: "deletion"},
		fakegithub.Rule{Pattern: "env/*", Type: "non_fast_forward"}
	for name, c := range map[string]struct {
		rules   []fakegithub.Rule
		classic *fakegithub.Protection
		role    string // of the token's user
		want    bool
		err     error
	}{
		"no rule and no branch": {err: forge.ErrNotFound},
		"updates are restricted": {
			rules: list{{Pattern: "env/*", Type: "update"}, deletion, force},
			want:  true,
		},
		"updates, and writers may delete": {
			rules: list{{Pattern: "env/*", Type: "update"}, force},
			err:   forge.ErrNotFound,
		},
		"updates, and writers may force": {
			rules: list{{Pattern: "env/*", Type: "update"}, deletion},
			err:   forge.ErrNotFound,
		},
		"an approval, and writers may delete": {
			rules: list{{Pattern: "env/*", Type: "pull_request", Approvals: 1}},
			err:   forge.ErrNotFound,
		},
		"classic: writers may delete": {
			classic: &fakegithub.Protection{Restricted: true, Deletions: true},
			role:    "admin",
		},
		"classic: writers may force": {
			classic: &fakegithub.Protection{Restricted: true, Forced: true},
			role:    "admin",
		},
		"of other branches": {
			rules: list{{Pattern: "cluster/*", Type: "update"}},
			err:   forge.ErrNotFound,
		},
		"an approval is needed": {rules: list{
			{Pattern: "env/*", Type: "pull_request", Approvals: 1},
			deletion, force,
		}, want: true},
		"a pull request without approval": {
			rules: list{{Pattern: "env/*", Type: "pull_request"}},
			err:   forge.ErrNotFound,
		},
		"rules that let writers push": {rules: list{
			{Pattern: "env/*", Type: "non_fast_forward"},
			{Pattern: "env/*", Type: "some_new_type"},
		}, err: forge.ErrNotFound},
		"classic: push is restricted": {
			classic: &fakegithub.Protection{Restricted: true}, role: "admin",
			want: true,
		},
		"classic: an approval is needed": {
			classic: &fakegithub.Protection{Approvals: 2}, role: "admin",
			want: true,
		},
		"classic: locked": {
			classic: &fakegithub.Protection{Locked: true}, role: "admin",
			want: true,
		},
		"classic: writers may push": {classic: &fakegithub.Protection{}, role: "admin"},
		"classic: the token may not see it": {
			classic: &fakegithub.Protection{Restricted: true}, role: "write",
			err: forge.ErrForbidden,
		},
		"classic unreadable, but rules match": {
			classic: &fakegithub.Protection{}, role: "write",
			rules: list{{Pattern: branch, Type: "update"}, deletion, force}, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, false)
			if name == "rules that let writers push" { // GitHub's description does not have the type yet
				w.config.Transport = nil
				w.forge = w.adapter(t, w.config)
			}
			repo := w.Repository(t, "acme/fleet")
			if c.role != "" {
				w.server.Grant(repo.Path, w.self.Login, c.role)
			}
			for _, r := range c.rules {
				w.server.AddRule(repo.Path, r)
			}
			if c.classic != nil {
				w.server.Protect(repo.Path, branch, *c.classic)
			}
			got, err := w.forge.Protected(t.Context(), repo, branch)
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("protected %t, %v, want %t, %v", got, err, c.want, c.err)
			}
		})
	}
}

// An App needs the permission "Administration: read" for classic rules, and none for rulesets.
func TestProtectedForApps(t *testing.T) {
	for _, permitted := range []bool{false, true} {
		w := newWorld(t, false)
		w.server.AddApp(fakegithub.App{ID: 9, Slug: "other", Key: &signingKey().PublicKey, Administration: permitted})
		w.server.Install(9, "acme")
		w.config.Token, w.config.App = "", &github.App{ID: 9, PrivateKey: pemOf(signingKey())}
		f := w.adapter(t, w.config)
		repo := w.Repository(t, "acme/fleet")
		w.server.Protect(repo.Path, "sluice/state", fakegithub.Protection{Restricted: true})
		got, err := f.Protected(t.Context(), repo, "sluice/state")
		if got != permitted || errors.Is(err, forge.ErrForbidden) == permitted {
			t.Errorf("with the permission: %t: protected %t, %v", permitted, got, err)
		}
	}
}
