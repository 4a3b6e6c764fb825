package gitlab

import (
	"cmp"
	"context"
	"slices"

	"github.com/xanzy/go-gitlab"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// Repositories implements forge.Repositories: the projects in which the user of the token is at least a
// Developer. The token of a CI job may not list them.
func (f *Forge) Repositories(ctx context.Context) ([]forge.Repository, error) {
	const what = "list projects"
	if f.job {
		return nil, wrap(what, forge.ErrUnsupported)
	}
	o := &gitlab.ListProjectsOptions{
		Archived: new(false), Membership: new(true), Simple: new(true),
		MinAccessLevel: new(gitlab.DeveloperPermissions), OrderBy: new("id"), Sort: new("asc"),
	}
	all, err := pages(func(p gitlab.ListOptions) ([]*gitlab.Project, *gitlab.Response, error) {
		o.ListOptions = p
		return f.client.Projects.ListProjects(o, with(ctx))
	})
	if err != nil {
		return nil, wrap(what, err)
	}
	out := []forge.Repository{}
	for _, p := range all {
		out = append(out, forge.Repository{Path: p.PathWithNamespace})
	}
	slices.SortStableFunc(out, func(a, b forge.Repository) int { return cmp.Compare(a.Path, b.Path) })
	return slices.Compact(out), nil
}
