package fakegitlab

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const maxNote = 1_000_000

// route answers a request. Addresses that GitLab does not have are not found.
func (c *call) route() answer {
	p := c.path
	is := func(method string, n int) bool { return c.r.Method == method && len(p) == n }
	switch {
	case is(http.MethodGet, 1) && p[0] == "user":
		if c.who == nil {
			return problem(http.StatusForbidden, "403 Forbidden")
		}
		return answer{code: http.StatusOK, value: c.s.userFields(c.who, true)}
	case is(http.MethodGet, 1) && p[0] == "users":
		return c.listUsers()
	case len(p) >= 2 && p[0] == "groups":
		return c.group()
	case is(http.MethodGet, 1) && p[0] == "projects":
		return c.listProjects()
	case len(p) >= 2 && p[0] == "projects":
		return c.project()
	}
	return problem(http.StatusNotFound, "404 Not Found")
}

func (c *call) listUsers() answer {
	if c.who == nil {
		return problem(http.StatusForbidden, "403 Forbidden")
	}
	list := []fields{}
	if u := c.s.user(c.query.Get("username")); u != nil {
		list = append(list, c.s.userFields(u, false))
	}
	return c.page(list)
}

func (c *call) group() answer {
	g := c.s.groups[strings.ToLower(c.path[1])]
	if g == nil || c.who == nil {
		return notFound("Group")
	}
	switch {
	case len(c.path) == 2:
		return answer{code: http.StatusOK, value: fields{
			"id": g.id, "name": g.path,
			"path": g.path[strings.LastIndexByte(g.path, '/')+1:], "full_path": g.path, "visibility": "private",
		}}
	case len(c.path) == 5 && c.path[2] == "members" && c.path[3] == "all":
		return c.member(g.members)
	}
	return problem(http.StatusNotFound, "404 Not Found")
}

func (c *call) member(members map[int]member) answer {
	id, _ := strconv.Atoi(c.path[4]) // 0 is nobody's id
	m, ok := members[id]
	if !ok {
		return notFound("")
	}
	for _, u := range c.s.users {
		if u.id == id {
			out := c.s.userFields(u, false)
			out["access_level"], out["state"] = m.level, m.state
			return answer{code: http.StatusOK, value: out}
		}
	}
	return notFound("User")
}

func (c *call) project() answer {
	p := c.s.find(c.path[1])
	if p == nil || !c.sees(p) {
		return notFound("Project")
	}
	switch rest := c.path[2:]; {
	case len(rest) == 0:
		return answer{code: http.StatusOK, value: c.projectFields(p)}
	case c.job != nil: // https://docs.gitlab.com/ci/jobs/ci_job_token/: little else
		return problem(http.StatusForbidden, "403 Forbidden")
	default:
		return c.inProject(p, rest)
	}
}

// inProject answers a request for something inside a project.
func (c *call) inProject(p *project, rest []string) answer {
	switch {
	case len(rest) == 3 && rest[0] == "members" && rest[1] == "all":
		return c.member(c.s.membersOf(p))
	case len(rest) == 1 && rest[0] == "protected_branches" && c.r.Method == http.MethodGet:
		return c.protectedBranches(p)
	case rest[0] == "deployments":
		return c.deploymentsOf(p, rest[1:])
	case len(rest) == 2 && rest[0] == "environments" && c.r.Method == http.MethodPut:
		return c.editEnvironment(p, rest[1])
	case rest[0] == "merge_requests":
		return c.mergeRequests(p, rest[1:])
	case len(rest) == 4 && rest[0] == "repository" && rest[1] == "commits":
		return c.commit(p, rest[2], rest[3])
	case len(rest) == 2 && rest[0] == "statuses" && c.r.Method == http.MethodPost:
		return c.setStatus(p, rest[1])
	}
	return problem(http.StatusNotFound, "404 Not Found")
}

// sees reports whether the caller may know that a project exists.
func (c *call) sees(p *project) bool {
	return (c.who == nil || c.s.may(p, c.who, Guest)) && (c.job == nil || c.job == p || p.public)
}

func (s *state) membersOf(p *project) map[int]member {
	members := map[int]member{}
	for _, u := range s.users {
		if m, ok := s.level(p, u); ok {
			members[u.id] = m
		}
	}
	return members
}

func (c *call) protectedBranches(p *project) answer {
	if !c.s.may(p, c.who, Developer) {
		return problem(http.StatusForbidden, "403 Forbidden")
	}
	list := []fields{}
	for _, b := range p.protected {
		level := func(n int) []fields {
			return []fields{{
				"id": b.id, "access_level": n, "access_level_description": strconv.Itoa(n), "user_id": nil,
				"group_id": nil, "deploy_key_id": nil,
			}}
		}
		list = append(list, fields{
			"id": b.id, "name": b.name, "push_access_levels": level(b.push), "merge_access_levels": level(b.merge),
			"unprotect_access_levels": level(Maintainer),
			"allow_force_push":        false, "code_owner_approval_required": false, "inherited": false,
		})
	}
	return c.page(list)
}

func (c *call) projectFields(p *project) fields {
	visibility := "private"
	if p.public {
		visibility = "public"
	}
	return fields{
		"id": p.id, "path_with_namespace": p.path, "name": p.path[strings.LastIndexByte(p.path, '/')+1:],
		"visibility": visibility, "default_branch": "main",
		"web_url": c.s.o.URL + "/" + p.path,
	}
}

func (c *call) listProjects() answer {
	if c.who == nil || c.job != nil || c.query.Get("membership") != "true" {
		return problem(http.StatusForbidden, "403 Forbidden")
	}
	least, _ := strconv.Atoi(c.query.Get("min_access_level")) // 0, every level, without the parameter
	list := []fields{}
	for _, p := range c.s.projects {
		if c.s.may(p, c.who, least) {
			list = append(list, c.projectFields(p))
		}
	}
	return c.page(list)
}

func (c *call) mergeRequests(p *project, rest []string) answer {
	for _, m := range p.mrs {
		c.s.refresh(p, m)
	}
	switch {
	case len(rest) == 0 && c.r.Method == http.MethodGet:
		return c.listMergeRequests(p)
	case len(rest) == 0 && c.r.Method == http.MethodPost:
		return c.createMergeRequest(p)
	case len(rest) == 0:
		return problem(http.StatusMethodNotAllowed, "405 Method Not Allowed")
	}
	m := p.mr(rest[0])
	if m == nil {
		return notFound("Not found")
	}
	switch {
	case len(rest) == 1 && c.r.Method == http.MethodGet:
		return answer{code: http.StatusOK, value: c.s.mrFields(p, m, true)}
	case len(rest) == 1 && c.r.Method == http.MethodPut:
		return c.editMergeRequest(p, m)
	case len(rest) >= 2 && rest[1] == "notes":
		return c.notes(p, m, rest[2:])
	}
	return problem(http.StatusNotFound, "404 Not Found")
}

func (c *call) listMergeRequests(p *project) answer {
	list := []fields{}
	for _, m := range p.mrs {
		if state := c.query.Get("state"); state != "" && state != "all" && state != m.state {
			continue
		}
		if target := c.query.Get("target_branch"); target != "" && target != m.target {
			continue
		}
		if after, err := time.Parse(time.RFC3339, c.query.Get("updated_after")); err == nil && m.updated.Before(after) {
			continue
		}
		list = append(list, c.s.mrFields(p, m, false))
	}
	if c.query.Get("sort") != "asc" {
		slices.Reverse(list)
	}
	return c.page(list)
}

func (c *call) createMergeRequest(p *project) answer {
	if !c.s.may(p, c.who, Developer) {
		return problem(http.StatusForbidden, "403 Forbidden")
	}
	source, target, title := c.text("source_branch"), c.text("target_branch"), c.text("title")
	switch {
	case source == "" || target == "" || title == "":
		return problem(http.StatusBadRequest, "source_branch, target_branch or title is missing")
	case p.tip(source) == "":
		return problem(http.StatusBadRequest, `["Source branch \"`+source+`\" does not exist"]`)
	}
	for _, m := range p.mrs {
		if m.state == "opened" && m.sourceBranch == source && m.target == target && m.source == p {
			return problem(http.StatusConflict, "Another open merge request already exists for this source branch: !"+
				strconv.Itoa(m.iid))
		}
	}
	description, _ := actions(c.text("description"))
	m := c.s.open(p, p, MergeRequest{
		Title: title, Body: description, SourceBranch: source, TargetBranch: target,
		Author: c.who.login,
	})
	return answer{code: http.StatusCreated, value: c.s.mrFields(p, m, true)}
}

func (c *call) editMergeRequest(p *project, m *mergeRequest) answer {
	if !c.s.may(p, c.who, Developer) {
		return problem(http.StatusForbidden, "403 Forbidden")
	}
	if v := c.text("title"); v != "" {
		m.title = v
	}
	if v, ok := c.body["description"].(string); ok {
		m.description = c.s.act(m, v)
	}
	switch v := c.text("state_event"); {
	case v == "close" && m.state == "opened":
		m.state, m.closed_ = "closed", c.s.now()
		c.s.mergeRequestEvent(p, m, "close", "", m.author)
	case v != "":
		return problem(http.StatusBadRequest, "state_event does not have a valid value")
	}
	c.triage(p, m)
	m.updated = c.s.now()
	return answer{code: http.StatusOK, value: c.s.mrFields(p, m, true)}
}

func (c *call) notes(p *project, m *mergeRequest, rest []string) answer {
	if len(rest) == 0 {
		if c.r.Method == http.MethodPost {
			return c.createNote(p, m)
		}
		list := []fields{}
		for _, n := range m.notes {
			list = append(list, c.s.noteFields(p, m, n))
		}
		if c.query.Get("sort") != "asc" {
			slices.Reverse(list)
		}
		return c.page(list)
	}
	i, n := m.note(rest[0])
	if n == nil {
		return notFound("Note")
	}
	if len(rest) == 2 && rest[1] == "award_emoji" {
		return c.emojis(n)
	}
	if c.r.Method != http.MethodGet && n.author != c.who && !c.s.may(p, c.who, Maintainer) {
		return problem(http.StatusForbidden, "403 Forbidden")
	}
	switch c.r.Method {
	case http.MethodGet:
		return answer{code: http.StatusOK, value: c.s.noteFields(p, m, n)}
	case http.MethodPut:
		if a, ok := c.checkNote(); !ok {
			return a
		}
		n.body, n.updated = c.s.act(m, c.text("body")), c.s.now()
		return answer{code: http.StatusOK, value: c.s.noteFields(p, m, n)}
	case http.MethodDelete:
		m.notes = slices.Delete(m.notes, i, i+1)
		return answer{code: http.StatusNoContent}
	}
	return problem(http.StatusMethodNotAllowed, "405 Method Not Allowed")
}

func (c *call) checkNote() (answer, bool) {
	switch body := c.text("body"); {
	case body == "":
		return problem(http.StatusBadRequest, "body is missing"), false
	case len([]rune(body)) > maxNote:
		return problem(http.StatusBadRequest,
			`{"note"=>["is too long (`+strconv.Itoa(len(body))+` B). The maximum size is 1 MB."]}`), false
	}
	return answer{}, true
}

func (c *call) createNote(p *project, m *mergeRequest) answer {
	if !c.s.may(p, c.who, Guest) {
		return problem(http.StatusForbidden, "403 Forbidden")
	}
	if a, ok := c.checkNote(); !ok {
		return a
	}
	n := c.s.say(p, m, c.who, c.s.act(m, c.text("body")))
	return answer{code: http.StatusCreated, value: c.s.noteFields(p, m, n)}
}

func (c *call) emojis(n *note) answer {
	list := []fields{}
	for _, e := range n.emojis {
		list = append(list, c.s.emojiFields(n, e))
	}
	if c.r.Method == http.MethodGet {
		return c.page(list)
	}
	name := c.text("name")
	for _, e := range n.emojis {
		if e.name == name && e.user == c.who {
			return problem(http.StatusNotFound, "404 Award Emoji Name has already been taken Not Found")
		}
	}
	e := &emoji{id: c.s.id(), name: name, user: c.who, created: c.s.now()}
	n.emojis = append(n.emojis, e)
	return answer{code: http.StatusCreated, value: c.s.emojiFields(n, e)}
}

func (c *call) commit(p *project, sha, what string) answer {
	if !p.has(sha) {
		return notFound("Commit")
	}
	list := []fields{}
	switch what {
	case "merge_requests":
		for _, q := range c.s.projects {
			for _, m := range q.mrs {
				c.s.refresh(q, m)
				if m.heads[sha] || m.mergeSHA == sha {
					list = append(list, c.s.mrFields(q, m, false))
				}
			}
		}
	case "statuses":
		newest := map[string]*status{}
		for _, s := range p.statuses {
			if s.sha == sha {
				newest[s.name] = s
			}
		}
		for _, s := range p.statuses {
			if newest[s.name] == s {
				list = append(list, c.s.statusFields(s))
			}
		}
	default:
		return problem(http.StatusNotFound, "404 Not Found")
	}
	return c.page(list)
}

func (c *call) setStatus(p *project, sha string) answer {
	switch {
	case !c.s.may(p, c.who, Developer):
		return problem(http.StatusForbidden, "403 Forbidden")
	case !p.has(sha):
		return notFound("Commit")
	}
	state, name := c.text("state"), c.text("name")
	if !slices.Contains([]string{"pending", "running", "success", "failed", "canceled", "skipped"}, state) {
		return problem(http.StatusBadRequest, "state does not have a valid value")
	}
	if len([]rune(c.text("description"))) > 255 {
		return problem(http.StatusBadRequest, "description is too long (maximum is 255 characters)")
	}
	if name == "" {
		name = "default"
	}
	for _, old := range slices.Backward(p.statuses) {
		if old.sha == sha && old.name == name {
			if old.state == state && (state == "pending" || state == "running") {
				return problem(http.StatusBadRequest, "Cannot transition status via :"+
					map[string]string{"pending": "enqueue", "running": "run"}[state]+" from :"+state+
					" (Reason(s): Status cannot transition via \""+state+"\")")
			}
			break
		}
	}
	s := c.s.report(p, sha, state, name, c.text("description"), c.text("target_url"), c.who)
	return answer{code: http.StatusCreated, value: c.s.statusFields(s)}
}
