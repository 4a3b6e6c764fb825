package github

import (
	"fmt"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// Names come from files, comments and webhooks, and are used in the paths of requests. Only names that GitHub
// allows are accepted, so that no name leads to another address of the API.

func parsePath(repo forge.Repository) (place, error) {
	owner, name, ok := strings.Cut(repo.Path, "/")
	if !ok || !plainName(owner) || !plainName(name) {
		return place{}, fmt.Errorf("%w: %.100q is not a repository of GitHub (write owner/name)", forge.ErrNotFound,
			repo.Path)
	}
	return place{owner: owner, name: name}, nil
}

// plainName reports whether s can be the name of an owner, a repository, a team or a user.
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
		return fmt.Errorf("%w: %.100q is not a user of GitHub", forge.ErrNotFound, login)
	}
	return nil
}

func checkCommit(commit string) error {
	if len(commit) != 40 && len(commit) != 64 || strings.Trim(commit, "0123456789abcdef") != "" {
		return fmt.Errorf("%w: %.100q is not a commit (write the full id in lower case)", forge.ErrNotFound, commit)
	}
	return nil
}

// teamOf splits `org/team`. A team without an organization belongs to the owner of the repository.
func teamOf(p place, team string) (org, slug string, err error) {
	org, slug = p.owner, strings.TrimPrefix(team, "@")
	if o, s, ok := strings.Cut(slug, "/"); ok {
		org, slug = o, s
	}
	if !plainName(org) || !plainName(slug) {
		return "", "", fmt.Errorf("%w: %.100q is not a team of GitHub (write organization/team)", forge.ErrNotFound,
			team)
	}
	return org, slug, nil
}
