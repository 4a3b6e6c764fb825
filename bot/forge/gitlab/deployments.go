package gitlab

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/xanzy/go-gitlab"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// SetDeployment implements forge.Deployments. GitLab has no description of a deployment, and no way back from success or
// failure to running: such a deployment keeps its state until the next success or failure. It finds a deployment among
// the newest 100 of the environment.
func (f *Forge) SetDeployment(ctx context.Context, repo forge.Repository, d forge.Deployment) error {
	what := fmt.Sprintf("show %.64s in environment %.100s of %.200s", d.Commit, d.Environment, repo.Path)
	have, err := f.deployment(ctx, repo, d)
	if err != nil {
		return wrap(what, err)
	}
	state := map[forge.StatusState]gitlab.DeploymentStatusValue{
		forge.Success: gitlab.DeploymentStatusSuccess, forge.Failure: gitlab.DeploymentStatusFailed,
	}[d.State]
	state = cmp.Or(state, gitlab.DeploymentStatusRunning)
	if have == nil {
		if d.State == forge.Failure {
			return nil
		}
		made, _, err := f.client.Deployments.CreateProjectDeployment(repo.Path, &gitlab.CreateProjectDeploymentOptions{
			Environment: &d.Environment, Ref: &d.Trunk, SHA: &d.Commit, Tag: new(false), Status: &state,
		}, with(ctx))
		if err != nil {
			return wrap(what, err)
		}
		return wrap(what, f.linkEnvironment(ctx, repo, made.Environment, f.branchPage(d)))
	}
	if have.Status == string(state) || state == gitlab.DeploymentStatusRunning && have.Status != "created" {
		return nil
	}
	_, _, err = f.client.Deployments.UpdateProjectDeployment(repo.Path, have.ID,
		&gitlab.UpdateProjectDeploymentOptions{Status: &state}, with(ctx))
	return wrap(what, err)
}

// deployment finds the deployment of a commit that no job made; nil if there is none. Of two that processes created at
// the same time, the older one counts.
func (f *Forge) deployment(ctx context.Context, repo forge.Repository, d forge.Deployment) (*gitlab.Deployment, error) {
	list, _, err := f.client.Deployments.ListProjectDeployments(repo.Path, &gitlab.ListProjectDeploymentsOptions{
		ListOptions: gitlab.ListOptions{PerPage: pageSize}, OrderBy: new("id"), Sort: new("desc"),
		Environment: &d.Environment,
	}, with(ctx))
	if err != nil {
		return nil, err
	}
	for _, one := range slices.Backward(list) {
		if one.SHA == d.Commit && one.Deployable.ID == 0 {
			return one, nil
		}
	}
	return nil, nil //nolint:nilnil // documented
}

// linkEnvironment sets the address of an environment that has none: people may have set another one.
func (f *Forge) linkEnvironment(ctx context.Context, repo forge.Repository, e *gitlab.Environment, page string) error {
	if e == nil || e.ExternalURL != "" || page == "" {
		return nil
	}
	_, _, err := f.client.Environments.EditEnvironment(repo.Path, e.ID,
		&gitlab.EditEnvironmentOptions{ExternalURL: &page}, with(ctx))
	return err
}

// branchPage returns the page that an environment links to: its own, or that of the environment's branch.
func (f *Forge) branchPage(d forge.Deployment) string {
	if d.URL != "" || d.Branch == "" {
		return d.URL
	}
	web := f.client.BaseURL()
	web.Path = strings.TrimSuffix(web.Path, "api/v4/")
	page := &url.URL{Path: d.Rendered.Path + "/-/tree/" + d.Branch}
	return web.String() + page.EscapedPath()
}
