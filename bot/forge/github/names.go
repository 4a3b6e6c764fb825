package github

import (
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// Names come from files, from comments and from webhooks, and go into the paths of requests. Only what GitHub itself allows
// passes, so that no name can reach another address of the API.

func parsePath(repo forge.Repository) (place, error) {
	owner, name, ok := strings.Cut(repo.Path, "/")
	if !ok || !plainName(owner) || !plainName(name) {
		return place{}, fmt.Errorf("%w: %.100q is no repository of GitHub: write owner/name", forge.ErrNotFound, repo.Path)
	}
	return place{owner: owner, name: name}, nil
}

// plainName says whether s can be the name of an owner, a repository, a team or a user.
func plainName(s string) bool {
	if s == "" || len(s) > 100 || s == "." || s == ".." {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func checkLogin(login string) error {
	if !plainName(strings.TrimSuffix(login, "[bot]")) {
		return fmt.Errorf("%w: %.100q is no user of GitHub", forge.ErrNotFound, login)
	}
	return nil
}

func checkCommit(commit string) error {
	if len(commit) != 40 && len(commit) != 64 || strings.Trim(commit, "0123456789abcdef") != "" {
		return fmt.Errorf("%w: %.100q is no commit: give the whole id, in lower case", forge.ErrNotFound, commit)
	}
	return nil
}

// teamOf splits `org/team`; a team without an organization is of the repository's owner.
func teamOf(p place, team string) (org, slug string, err error) {
	org, slug = p.owner, strings.TrimPrefix(team, "@")
	if o, s, ok := strings.Cut(slug, "/"); ok {
		org, slug = o, s
	}
	if !plainName(org) || !plainName(slug) {
		return "", "", fmt.Errorf("%w: %.100q is no team of GitHub: write organization/team", forge.ErrNotFound, team)
	}
	return org, slug, nil
}
