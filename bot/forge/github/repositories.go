package github

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
)

// Repositories implements forge.Repositories. It lists the repositories that the token may push to, or those of all
// installations of the App.
func (f *Forge) Repositories(ctx context.Context) ([]forge.Repository, error) {
	const what = "list repositories"
	if f.app == nil {
		ctx = rest.With(ctx, f.token)
		all, err := pages(func(o github.ListOptions) ([]*github.Repository, *github.Response, error) {
			return f.client.Repositories.ListByAuthenticatedUser(ctx,
				&github.RepositoryListByAuthenticatedUserOptions{ListOptions: o})
		})
		return repositories(all, func(r *github.Repository) bool { return r.GetPermissions()["push"] }), wrap(what, err)
	}
	jwt := rest.With(ctx, f.app.jwt)
	installs, err := pages(func(o github.ListOptions) ([]*github.Installation, *github.Response, error) {
		return f.client.Apps.ListInstallations(jwt, &o)
	})
	if err != nil {
		return nil, wrap(what, err)
	}
	var all []*github.Repository
	for _, in := range installs {
		if in.SuspendedAt != nil || f.app.fixed != 0 && f.app.fixed != in.GetID() {
			continue
		}
		ctx := rest.With(ctx, f.app.held(in.GetID(), place{}))
		some, err := pages(func(o github.ListOptions) ([]*github.Repository, *github.Response, error) {
			list, resp, err := f.client.Apps.ListRepos(ctx, &o)
			if err != nil {
				return nil, nil, err
			}
			return list.Repositories, resp, nil
		})
		if err != nil {
			return nil, wrap(what, err)
		}
		all = append(all, some...)
	}
	// an App has the same permissions everywhere
	return repositories(all, func(*github.Repository) bool { return true }), nil
}

func repositories(all []*github.Repository, writes func(*github.Repository) bool) []forge.Repository {
	out := []forge.Repository{}
	for _, r := range all {
		if !r.GetArchived() && !r.GetDisabled() && writes(r) {
			out = append(out, forge.Repository{Path: r.GetFullName()})
		}
	}
	slices.SortStableFunc(out, func(a, b forge.Repository) int {
		return cmp.Compare(strings.ToLower(a.Path),
			strings.ToLower(b.Path))
	})
	return slices.Compact(out)
}
