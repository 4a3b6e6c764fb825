package github

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/go-github/v60/github"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/internal/rest"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// deployTask distinguishes the deployments of this package from those of workflows and other tools.
const deployTask = "sluice"

// recentDeployments is the number of earlier deployments to an environment that a success makes inactive.
const recentDeployments = 10

// SetDeployment implements forge.Deployments.
func (f *Forge) SetDeployment(ctx context.Context, repo forge.Repository, d forge.Deployment) error {
	what := fmt.Sprintf("show %.64s in environment %.100s of %.200s", d.Commit, d.Environment, repo.Path)
	if err := checkCommit(d.Commit); err != nil {
		return wrap(what, err)
	}
	ctx, p, _, err := f.open(ctx, repo)
	if err != nil {
		return wrap(what, err)
	}
	return wrap(what, deployments{f.client, p, d, f.branchPage(d)}.set(ctx))
}

// deployments sets the state of one deployment.
type deployments struct {
	client *github.Client
	place  place
	forge.Deployment
	page string // that the environment links to
}

func (d deployments) set(ctx context.Context) error {
	id, err := d.find(ctx)
	if err != nil {
		return err
	}
	if id == 0 {
		if d.State == forge.Failure {
			return nil
		}
		if id, err = d.create(ctx); err != nil {
			return err
		}
	}
	state := map[forge.StatusState]string{forge.Success: "success", forge.Failure: "failure"}[d.State]
	if state == "" {
		state = "in_progress"
	}
	description := safetext.Shorten(d.Description, maxDescription)
	last, err := d.last(ctx, id)
	if err != nil {
		return err
	}
	if last.GetState() == state && last.GetDescription() == description {
		return nil
	}
	if err := d.post(ctx, id, github.DeploymentStatusRequest{
		State: &state, Description: &description, EnvironmentURL: &d.page,
	}); err != nil {
		return err
	}
	if d.State == forge.Success && d.Production { // GitHub does so itself in other environments
		return d.retire(ctx, id)
	}
	return nil
}

// find returns the id of the deployment; 0 if there is none. Of two that processes created at the same time, the older
// one counts.
func (d deployments) find(ctx context.Context) (int64, error) {
	all, err := pages(func(o github.ListOptions) ([]*github.Deployment, *github.Response, error) {
		return d.client.Repositories.ListDeployments(ctx, d.place.owner, d.place.name, &github.DeploymentsListOptions{
			SHA: d.Commit, Task: deployTask, Environment: d.Environment, ListOptions: o,
		})
	})
	var first int64
	for _, one := range all {
		if id := one.GetID(); first == 0 || id < first {
			first = id
		}
	}
	return first, err
}

// create creates the deployment. It merges nothing, and waits for no status: the environment's gates have passed.
func (d deployments) create(ctx context.Context) (int64, error) {
	made, _, err := d.client.Repositories.CreateDeployment(ctx, d.place.owner, d.place.name, &github.DeploymentRequest{
		Ref: &d.Commit, Task: new(deployTask), AutoMerge: new(false), RequiredContexts: &[]string{},
		Environment: &d.Environment, Description: new("by Sluice"), TransientEnvironment: new(false),
		ProductionEnvironment: &d.Production,
	})
	if err != nil {
		return 0, err
	}
	id, err := d.find(ctx)
	if err != nil || id == 0 || id == made.GetID() {
		return made.GetID(), err
	}
	return id, d.post(ctx, made.GetID(), github.DeploymentStatusRequest{ // another replica was faster
		State: new("inactive"), Description: new("created twice"), AutoInactive: new(false),
	})
}

// last returns the newest status of a deployment; nil if it has none.
func (d deployments) last(ctx context.Context, id int64) (*github.DeploymentStatus, error) {
	list, _, err := d.client.Repositories.ListDeploymentStatuses(ctx, d.place.owner, d.place.name, id,
		&github.ListOptions{PerPage: 1})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

func (d deployments) post(ctx context.Context, id int64, r github.DeploymentStatusRequest) error {
	_, _, err := d.client.Repositories.CreateDeploymentStatus(rest.Repeatable(ctx), d.place.owner, d.place.name, id, &r)
	return err
}

// retire makes the earlier deployments to the environment inactive.
func (d deployments) retire(ctx context.Context, id int64) error {
	list, _, err := d.client.Repositories.ListDeployments(ctx, d.place.owner, d.place.name, &github.DeploymentsListOptions{
		Task: deployTask, Environment: d.Environment, ListOptions: github.ListOptions{PerPage: recentDeployments},
	})
	if err != nil {
		return err
	}
	for _, one := range list {
		if one.GetID() == id {
			continue
		}
		last, err := d.last(ctx, one.GetID())
		if err != nil {
			return err
		}
		if last.GetState() == "success" {
			if err := d.post(ctx, one.GetID(), github.DeploymentStatusRequest{State: new("inactive")}); err != nil {
				return err
			}
		}
	}
	return nil
}

// branchPage returns the page that a deployment links to: its own, or that of the environment's branch.
func (f *Forge) branchPage(d forge.Deployment) string {
	if d.URL != "" || d.Branch == "" {
		return d.URL
	}
	web := *f.client.BaseURL
	web.Path = strings.TrimSuffix(web.Path, "api/v3/")
	if web.Host == "api.github.com" {
		web.Host = "github.com"
	}
	page := &url.URL{Path: d.Rendered.Path + "/tree/" + d.Branch}
	return web.String() + page.EscapedPath()
}
