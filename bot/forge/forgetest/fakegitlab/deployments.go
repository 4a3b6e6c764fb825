package fakegitlab

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

type environment struct {
	id        int
	name, url string
}

type deployment struct {
	id               int
	sha, ref, status string
	environment      *environment
	user             *user
	created          time.Time
}

// deploymentsOf answers requests for the deployments of a project.
func (c *call) deploymentsOf(p *project, rest []string) answer {
	if !c.s.may(p, c.who, Developer) {
		return problem(http.StatusForbidden, "403 Forbidden")
	}
	switch {
	case len(rest) == 0 && c.r.Method == http.MethodGet:
		list := []fields{}
		for _, d := range p.deployments {
			if name := c.query.Get("environment"); name == "" || name == d.environment.name {
				list = append(list, c.s.deploymentFields(d))
			}
		}
		if c.query.Get("sort") == "desc" {
			slices.Reverse(list)
		}
		return c.page(list)
	case len(rest) == 0 && c.r.Method == http.MethodPost:
		return c.createDeployment(p)
	case len(rest) == 1 && c.r.Method == http.MethodPut:
		return c.updateDeployment(p, rest[0])
	}
	return problem(http.StatusNotFound, "404 Not Found")
}

func (c *call) createDeployment(p *project) answer {
	name, sha, status := c.text("environment"), c.text("sha"), c.text("status")
	for _, field := range []string{"environment", "sha", "ref", "tag", "status"} {
		if c.text(field) == "" {
			return problem(http.StatusBadRequest, field+" is missing")
		}
	}
	switch {
	case !slices.Contains([]string{"running", "success", "failed", "canceled"}, status):
		return problem(http.StatusBadRequest, "status does not have a valid value")
	case !p.has(sha):
		return notFound("Commit")
	}
	i := slices.IndexFunc(p.environments, func(e *environment) bool { return e.name == name })
	if i < 0 {
		i, p.environments = len(p.environments), append(p.environments, &environment{id: c.s.id(), name: name})
	}
	d := &deployment{
		id: c.s.id(), sha: sha, ref: c.text("ref"), status: status, environment: p.environments[i], user: c.who,
		created: c.s.now(),
	}
	p.deployments = append(p.deployments, d)
	c.s.deploymentEvent(p, d)
	return answer{code: http.StatusCreated, value: c.s.deploymentFields(d)}
}

// updateDeployment refuses the transitions that app/models/deployment.rb of GitLab refuses.
func (c *call) updateDeployment(p *project, id string) answer {
	i := slices.IndexFunc(p.deployments, func(d *deployment) bool { return strconv.Itoa(d.id) == id })
	if i < 0 {
		return notFound("Deployment")
	}
	d, status := p.deployments[i], c.text("status")
	if !slices.Contains([]string{"running", "success", "failed", "canceled"}, status) {
		return problem(http.StatusBadRequest, "status does not have a valid value")
	}
	if status == d.status || status == "running" && d.status != "created" {
		return problem(http.StatusBadRequest, fmt.Sprintf("Cannot transition status via :%s from :%s", status, d.status))
	}
	d.status = status
	c.s.deploymentEvent(p, d)
	return answer{code: http.StatusOK, value: c.s.deploymentFields(d)}
}

func (c *call) editEnvironment(p *project, id string) answer {
	if !c.s.may(p, c.who, Developer) {
		return problem(http.StatusForbidden, "403 Forbidden")
	}
	for _, e := range p.environments {
		if strconv.Itoa(e.id) == id {
			if url := c.text("external_url"); url != "" {
				e.url = url
			}
			return answer{code: http.StatusOK, value: c.s.environmentFields(e)}
		}
	}
	return notFound("Environment")
}

// Deployments returns the deployments of a project, oldest first, as `environment sha status`.
func Deployments(s *Server, path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, d := range s.find(path).deployments {
		out = append(out, d.environment.name+" "+d.sha+" "+d.status)
	}
	return out
}

// EnvironmentPage returns the address of an environment.
func EnvironmentPage(s *Server, path, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.find(path).environments {
		if e.name == name {
			return e.url
		}
	}
	return ""
}

func (s *shapes) environmentFields(e *environment) fields {
	out := fields{"id": e.id, "name": e.name, "slug": e.name, "external_url": nil, "state": "available", "tier": "other"}
	if e.url != "" {
		out["external_url"] = e.url
	}
	return out
}

func (s *shapes) deploymentFields(d *deployment) fields {
	return fields{
		"id": d.id, "iid": d.id, "ref": d.ref, "sha": d.sha, "status": d.status, "created_at": stamp(d.created),
		"updated_at": stamp(d.created), "user": s.userFields(d.user, false), "environment": s.environmentFields(d.environment),
		"deployable": nil,
	}
}

// deploymentEvent sends the webhook of a deployment
// (https://docs.gitlab.com/user/project/integrations/webhook_events/#deployment-events).
func (s *outbox) deploymentEvent(p *project, d *deployment) {
	s.emit("Deployment Hook", fields{
		"object_kind": "deployment", "status": d.status, "status_changed_at": hookTime(d.created), "deployment_id": d.id,
		"deployable_id": nil, "deployable_url": nil, "environment": d.environment.name, "environment_tier": "other",
		"environment_slug": d.environment.name, "environment_external_url": d.environment.url, "project": s.hookProject(p),
		"short_sha": d.sha[:8], "user": s.hookUser(d.user), "user_url": s.o.URL + "/" + d.user.login,
		"commit_url": s.o.URL + "/" + p.path + "/-/commit/" + d.sha, "commit_title": "Change", "ref": d.ref,
	})
}
