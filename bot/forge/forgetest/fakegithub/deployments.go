package fakegithub

import (
	"fmt"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"
)

type deployment struct {
	id                     int64
	sha, task, environment string
	description            string
	production, transient  bool
	creator                *account
	created                time.Time
	statuses               []*deploymentStatus // oldest first
}

type deploymentStatus struct {
	id                      int64
	state, description, url string
	creator                 *account
	created                 time.Time
}

// state returns the newest state; "" if the deployment has none.
func (d *deployment) state() string {
	if len(d.statuses) == 0 {
		return ""
	}
	return d.statuses[len(d.statuses)-1].state
}

func (s *Server) deploymentRoutes(repo string) {
	s.handle("GET "+repo+"/deployments", reader, listDeployments)
	s.handle("POST "+repo+"/deployments", writer, createDeployment)
	s.handle("GET "+repo+"/deployments/{id}/statuses", reader, listDeploymentStatuses)
	s.handle("POST "+repo+"/deployments/{id}/statuses", writer, createDeploymentStatus)
}

// listDeployments lists the newest first.
func listDeployments(c *call) answer {
	q := c.r.URL.Query()
	var all []fields
	for _, d := range slices.Backward(c.repo.deployments) {
		if sha := q.Get("sha"); sha != "" && sha != "none" && sha != d.sha {
			continue
		}
		if task := q.Get("task"); task != "" && task != "none" && task != d.task {
			continue
		}
		if e := q.Get("environment"); e != "" && e != "none" && e != d.environment {
			continue
		}
		all = append(all, c.s.deployment(c.repo, d))
	}
	return c.paged(all)
}

// createDeployment refuses what GitHub may refuse: without required_contexts all statuses must be green, and with
// auto_merge the default branch may be merged first.
func createDeployment(c *call) answer {
	in := struct {
		Ref, Task, Environment, Description string
		AutoMerge                           *bool    `json:"auto_merge"`
		Contexts                            []string `json:"required_contexts"`
		Production                          bool     `json:"production_environment"`
		Transient                           bool     `json:"transient_environment"`
	}{Task: "deploy", Environment: "production"}
	if !c.read(&in) {
		return unreadable()
	}
	sha := in.Ref
	if tip := c.repo.tip(in.Ref); tip != "" {
		sha = tip
	}
	switch {
	case !c.repo.has(sha):
		return invalid("Deployment", "ref", "custom", "No ref found for: "+in.Ref)
	case in.AutoMerge == nil || *in.AutoMerge:
		return problem(http.StatusConflict, "Conflict merging main into "+in.Ref+".")
	case in.Contexts == nil:
		return problem(http.StatusConflict, "Conflict: Commit status checks failed for "+in.Ref+".")
	}
	d := &deployment{
		id: c.s.id(), sha: sha, task: in.Task, environment: in.Environment, description: in.Description,
		production: in.Production, transient: in.Transient, creator: c.who.user, created: c.s.now(),
	}
	c.repo.deployments = append(c.repo.deployments, d)
	c.s.emit("deployment", c.repo, c.who.user, fields{"action": "created", "deployment": c.s.deployment(c.repo, d)})
	return answer{code: http.StatusCreated, value: c.s.deployment(c.repo, d)}
}

func (c *call) deployment() *deployment {
	i := slices.IndexFunc(c.repo.deployments, func(d *deployment) bool { return d.id == c.id() })
	if i < 0 {
		return nil
	}
	return c.repo.deployments[i]
}

func listDeploymentStatuses(c *call) answer {
	d := c.deployment()
	if d == nil {
		return notFound()
	}
	var all []fields
	for _, x := range slices.Backward(d.statuses) {
		all = append(all, c.s.deploymentStatus(c.repo, d, x))
	}
	return c.paged(all)
}

func createDeploymentStatus(c *call) answer {
	d := c.deployment()
	if d == nil {
		return notFound()
	}
	var in struct {
		State, Description string
		URL                string `json:"environment_url"`
		AutoInactive       *bool  `json:"auto_inactive"`
	}
	if !c.read(&in) {
		return unreadable()
	}
	if !slices.Contains([]string{
		"error", "failure", "inactive", "in_progress", "queued", "pending", "success",
	}, in.State) {
		return invalid("DeploymentStatus", "state", "custom", "state is not included in the list")
	}
	if utf8.RuneCountInString(in.Description) > 140 {
		return invalid("DeploymentStatus", "description", "custom", "description is too long (maximum is 140 characters)")
	}
	add := func(d *deployment, state, description, url string) *deploymentStatus {
		x := &deploymentStatus{
			id: c.s.id(), state: state, description: description, url: url, creator: c.who.user, created: c.s.now(),
		}
		d.statuses = append(d.statuses, x)
		c.s.emit("deployment_status", c.repo, c.who.user, fields{
			"action": "created", "deployment": c.s.deployment(c.repo, d),
			"deployment_status": c.s.deploymentStatus(c.repo, d, x),
		})
		return x
	}
	x := add(d, in.State, in.Description, in.URL)
	for _, other := range c.repo.deployments {
		if in.State == "success" && (in.AutoInactive == nil || *in.AutoInactive) && other != d && other.id < d.id &&
			other.environment == d.environment && !other.production && !other.transient && other.state() == "success" {
			add(other, "inactive", "", "")
		}
	}
	return answer{code: http.StatusCreated, value: c.s.deploymentStatus(c.repo, d, x)}
}

// Deployments returns the deployments of a repository, oldest first, as `environment sha state`.
func Deployments(s *Server, path string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	if r := s.repo(path); r != nil {
		for _, d := range r.deployments {
			out = append(out, d.environment+" "+d.sha+" "+d.state())
		}
	}
	return out
}

// DeploymentPage returns the address that the newest deployment to an environment links to.
func DeploymentPage(s *Server, path, environment string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.repo(path); r != nil {
		for _, d := range slices.Backward(r.deployments) {
			if d.environment == environment && len(d.statuses) > 0 {
				return d.statuses[len(d.statuses)-1].url
			}
		}
	}
	return ""
}

func (s *shapes) deployment(r *repository, d *deployment) fields {
	base := s.o.APIURL + "/repos/" + r.path()
	u := fmt.Sprintf("%s/deployments/%d", base, d.id)
	return fields{
		"url": u, "id": d.id, "node_id": node("Deployment", d.id), "sha": d.sha, "ref": d.sha, "task": d.task,
		"payload": fields{}, "original_environment": d.environment, "environment": d.environment,
		"description": orNull(d.description), "creator": s.user(d.creator), "created_at": stamp(d.created),
		"updated_at": stamp(d.created), "statuses_url": u + "/statuses", "repository_url": base,
		"transient_environment": d.transient, "production_environment": d.production,
	}
}

func (s *shapes) deploymentStatus(r *repository, d *deployment, x *deploymentStatus) fields {
	base := s.o.APIURL + "/repos/" + r.path()
	u := fmt.Sprintf("%s/deployments/%d", base, d.id)
	return fields{
		"url": fmt.Sprintf("%s/statuses/%d", u, x.id), "id": x.id, "node_id": node("DeploymentStatus", x.id),
		"state": x.state, "creator": s.user(x.creator), "description": x.description, "environment": d.environment,
		"target_url": "", "created_at": stamp(x.created), "updated_at": stamp(x.created), "deployment_url": u,
		"repository_url": base, "environment_url": x.url, "log_url": "",
	}
}
