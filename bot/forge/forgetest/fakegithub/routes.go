package fakegithub

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) routes() {
	s.handle("GET /user", signedIn, func(c *call) answer {
		if c.who.bot {
			return c.forbidden()
		}
		return answer{code: 200, value: s.publicUser(c.who.user)}
	})
	s.handle("GET /users/{login}", anybody, func(c *call) answer {
		a := s.account(c.r.PathValue("login"))
		if c.who.jwt {
			return problem(http.StatusUnauthorized, "Requires authentication")
		}
		if a == nil {
			return notFound()
		}
		return answer{code: 200, value: s.publicUser(a)}
	})
	s.handle("POST /graphql", signedIn, graphQL)
	s.handle("GET /user/repos", signedIn, userRepositories)
	const repo = "/repos/{owner}/{repo}"
	s.handle("GET "+repo+"/collaborators/{login}/permission", writer, permission)
	s.handle("GET /orgs/{org}/teams/{team}/memberships/{login}", signedIn, membership)
	s.handle("GET "+repo+"/pulls", reader, listPulls)
	s.handle("POST "+repo+"/pulls", reader, createPull)
	s.handle("GET "+repo+"/pulls/{number}", reader, getPull)
	s.handle("PATCH "+repo+"/pulls/{number}", writer, editPull)
	s.handle("GET "+repo+"/commits/{sha}/pulls", reader, pullsOf)
	// The two forms overlap for the mux: issues/{number}/comments and issues/comments/{id}.
	s.handle("GET "+repo+"/issues/{number}/{id}", reader, either(listComments, getComment))
	s.handle("POST "+repo+"/issues/{number}/{id}", reader, createInIssue)
	s.handle("DELETE "+repo+"/issues/{number}/labels/{name}", writer, removeLabel)
	s.handle("POST "+repo+"/pulls/{number}/requested_reviewers", writer, requestReviewers)
	s.handle("PATCH "+repo+"/issues/{number}/{id}", reader, either(nil, editComment))
	s.handle("DELETE "+repo+"/issues/{number}/{id}", reader, either(nil, deleteComment))
	s.handle("POST "+repo+"/issues/comments/{id}/reactions", reader, react)
	s.handle("POST "+repo+"/statuses/{sha}", writer, createStatus)
	s.handle("GET "+repo+"/commits/{sha}/statuses", reader, listStatuses)
	s.handle("GET "+repo+"/commits/{sha}/check-runs", reader, listChecks)
	s.handle("POST "+repo+"/check-runs", writer, createCheck)
	s.handle("PATCH "+repo+"/check-runs/{id}", writer, updateCheck)
	s.branchRoutes(repo)
	s.deploymentRoutes(repo)
	s.appRoutes()
	s.handle("/", anybody, func(*call) answer { return notFound() })
}

// userRepositories lists what somebody may read, with what else is allowed.
func userRepositories(c *call) answer {
	if c.who.bot {
		return c.forbidden()
	}
	var all []fields
	for _, r := range c.s.sorted() {
		role := r.roles[strings.ToLower(c.who.user.login)]
		if role == "" {
			continue
		}
		push := slices.Contains([]string{"write", "maintain", "admin"}, role)
		out := c.s.repository(r)
		out["permissions"] = fields{"pull": true, "triage": push, "push": push, "maintain": role == "maintain" ||
			role == "admin", "admin": role == "admin"}
		all = append(all, out)
	}
	return c.paged(all)
}

// either distinguishes the comments of an issue from one comment.
func either(ofIssue, one handler) handler {
	return func(c *call) answer {
		switch {
		case c.r.PathValue("number") == "comments" && one != nil:
			return one(c)
		case c.r.PathValue("id") == "comments" && ofIssue != nil:
			return ofIssue(c)
		}
		return notFound()
	}
}

// page returns one page of a list, and links to its neighbours.
func (c *call) page(all []fields) (some []fields, link string) {
	q := c.r.URL.Query()
	size, number := atoi(q.Get("per_page"), 30), max(atoi(q.Get("page"), 1), 1)
	size = min(max(size, 1), 100)
	pages := max((len(all)+size-1)/size, 1)
	var links []string
	add := func(rel string, n int) {
		u := *c.r.URL
		u.Scheme, u.Host = "http", c.r.Host
		q.Set("page", fmt.Sprint(n))
		u.RawQuery = q.Encode()
		links = append(links, fmt.Sprintf("<%s>; rel=%q", u.String(), rel))
	}
	if number > 1 {
		add("prev", number-1)
	}
	if number < pages {
		add("next", number+1)
		add("last", pages)
	}
	from := min((number-1)*size, len(all))
	return append([]fields{}, all[from:min(from+size, len(all))]...), strings.Join(links, ", ")
}

func (c *call) paged(all []fields) answer {
	some, link := c.page(all)
	return answer{code: 200, value: some, link: link}
}

func atoi(s string, other int) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return other
}

func (c *call) number() int { return atoi(c.r.PathValue("number"), 0) }

func (c *call) id() int64 {
	n, err := strconv.ParseInt(c.r.PathValue("id"), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func permission(c *call) answer {
	a := c.s.account(c.r.PathValue("login"))
	if a == nil || a.kind == "Organization" {
		return notFound()
	}
	role := c.repo.roles[strings.ToLower(a.login)]
	if role == "" {
		role = "none"
	}
	legacy := map[string]string{"triage": "read", "maintain": "write"}[role]
	if legacy == "" {
		legacy = role
	}
	u := c.s.user(a)
	u["role_name"] = role
	return answer{code: 200, value: fields{"permission": legacy, "role_name": role, "user": u}}
}

func membership(c *call) answer {
	org, team, login := c.r.PathValue("org"), c.r.PathValue("team"), c.r.PathValue("login")
	state := c.s.teams[strings.ToLower(org+"/"+team)][strings.ToLower(login)]
	if state == "" {
		return notFound()
	}
	return answer{code: 200, value: fields{"url": c.s.o.APIURL + c.r.URL.Path, "role": "member", "state": state}}
}
