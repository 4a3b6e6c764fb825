package fakegithub

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// createInIssue distinguishes the addresses that add something to an issue.
func createInIssue(c *call) answer {
	switch c.r.PathValue("id") {
	case "comments":
		return createComment(c)
	case "labels":
		if !mayWrite(c.role()) {
			return c.forbidden()
		}
		return addLabels(c)
	}
	return notFound()
}

const longestLabel = 50

// addLabels adds labels, and creates those that the repository does not have. Names differ in more than their case.
func addLabels(c *call) answer {
	p := c.repo.pull(c.number())
	if p == nil {
		return notFound()
	}
	var in struct{ Labels []string }
	if !c.read(&in) {
		return unreadable()
	}
	for _, name := range in.Labels {
		if utf8.RuneCountInString(name) > longestLabel {
			return invalid("Label", "name", "custom", "name is too long (maximum is 50 characters)")
		}
	}
	for _, name := range in.Labels {
		if !slices.ContainsFunc(p.labels, func(have string) bool { return strings.EqualFold(have, name) }) {
			p.labels = append(slices.Clip(p.labels), name)
			p.updated = c.s.now()
			c.s.pullEvent(c.repo, p, "labeled", c.who.user, "")
		}
	}
	return answer{code: http.StatusOK, value: c.s.labels(c.repo, p.labels)}
}

func removeLabel(c *call) answer {
	p := c.repo.pull(c.number())
	if p == nil {
		return notFound()
	}
	i := slices.IndexFunc(p.labels, func(have string) bool { return strings.EqualFold(have, c.r.PathValue("name")) })
	if i < 0 {
		return problem(http.StatusNotFound, "Label does not exist")
	}
	p.labels = slices.Delete(slices.Clone(p.labels), i, i+1)
	p.updated = c.s.now()
	c.s.pullEvent(c.repo, p, "unlabeled", c.who.user, "")
	return answer{code: http.StatusOK, value: c.s.labels(c.repo, p.labels)}
}

// requestReviewers asks for reviews. GitHub refuses the whole request for one name that it does not accept.
func requestReviewers(c *call) answer {
	p := c.repo.pull(c.number())
	if p == nil {
		return notFound()
	}
	var in struct {
		Reviewers []string
		Teams     []string `json:"team_reviewers"`
	}
	if !c.read(&in) {
		return unreadable()
	}
	refused := func(message string) answer {
		return answer{code: http.StatusUnprocessableEntity, value: fields{
			"message": message, "documentation_url": "https://docs.github.com/rest", "status": "422",
		}}
	}
	var users []*account
	for _, login := range in.Reviewers {
		a := c.s.account(login)
		if a != nil && a == p.author {
			return refused("Review cannot be requested from pull request author.")
		}
		if a == nil || !slices.Contains([]string{"read", "triage", "write", "maintain", "admin"},
			c.repo.roles[strings.ToLower(login)]) {
			return refused(fmt.Sprintf("Reviews may only be requested from collaborators. One or more of the users or "+
				"teams you specified is not a collaborator of the %s repository.", c.repo.path()))
		}
		users = append(users, a)
	}
	var teams []string
	for _, slug := range in.Teams {
		team := strings.ToLower(c.repo.owner.login + "/" + slug)
		if _, ok := c.s.teams[team]; !ok {
			return refused(fmt.Sprintf("Reviews may only be requested from collaborators. One or more of the teams you "+
				"specified is not a collaborator of the %s repository.", c.repo.path()))
		}
		teams = append(teams, team)
	}
	before := len(p.reviewers) + len(p.reviewTeams)
	for _, a := range users {
		if !slices.Contains(p.reviewers, a) {
			p.reviewers = append(p.reviewers, a)
		}
	}
	for _, team := range teams {
		if !slices.Contains(p.reviewTeams, team) {
			p.reviewTeams = append(p.reviewTeams, team)
		}
	}
	if len(p.reviewers)+len(p.reviewTeams) > before {
		p.updated = c.s.now()
		c.s.pullEvent(c.repo, p, "review_requested", c.who.user, "")
	}
	return answer{code: http.StatusCreated, value: c.s.simplePull(c.repo, p)}
}

// Reviewers returns whose reviews a pull request waits for: logins, and org/slug of teams.
func Reviewers(s *Server, path string, number int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	if _, p, err := s.find(path, number); err == nil {
		for _, a := range p.reviewers {
			out = append(out, a.login)
		}
		out = append(out, p.reviewTeams...)
	}
	return out
}

// DismissReviewers removes all review requests, as people do on the page of a pull request.
func DismissReviewers(s *Server, path string, number int) error {
	return s.change(path, number, "review_request_removed", func(_ *repository, p *pull) {
		p.reviewers, p.reviewTeams = nil, nil
	})
}

func (s *shapes) users(list []*account) []fields {
	out := []fields{}
	for _, a := range list {
		out = append(out, s.user(a))
	}
	return out
}

func (s *shapes) teamsOf(list []string) []fields {
	out := []fields{}
	for i, team := range list {
		org, slug, _ := strings.Cut(team, "/")
		id := int64(i + 1)
		u := fmt.Sprintf("%s/organizations/1/team/%d", s.o.APIURL, id)
		out = append(out, fields{
			"id": id, "node_id": node("Team", id), "name": slug, "slug": slug, "description": nil, "privacy": "closed",
			"notification_setting": "notifications_enabled", "permission": "push", "url": u,
			"html_url":    fmt.Sprintf("%s/orgs/%s/teams/%s", s.o.URL, org, slug),
			"members_url": u + "/members{/member}", "repositories_url": u + "/repos", "parent": nil,
			"type": "organization", "organization_id": 1,
		})
	}
	return out
}
