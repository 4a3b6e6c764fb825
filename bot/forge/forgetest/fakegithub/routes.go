package fakegithub

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
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
	s.handle("POST /graphql", signedIn, func(c *call) answer {
		var q struct{ Query string }
		if !c.read(&q) || strings.Join(strings.Fields(q.Query), "") != "query{viewer{logindatabaseId}}" {
			return problem(http.StatusBadRequest, "The fake answers one query only.")
		}
		u := c.who.user
		return answer{code: 200, value: fields{"data": fields{"viewer": fields{"login": u.login, "databaseId": u.id}}}}
	})
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
	s.handle("POST "+repo+"/issues/{number}/{id}", reader, either(createComment, nil))
	s.handle("PATCH "+repo+"/issues/{number}/{id}", reader, either(nil, editComment))
	s.handle("DELETE "+repo+"/issues/{number}/{id}", reader, either(nil, deleteComment))
	s.handle("POST "+repo+"/issues/comments/{id}/reactions", reader, react)
	s.handle("POST "+repo+"/statuses/{sha}", writer, createStatus)
	s.handle("GET "+repo+"/commits/{sha}/statuses", reader, listStatuses)
	s.handle("GET "+repo+"/commits/{sha}/check-runs", reader, listChecks)
	s.handle("POST "+repo+"/check-runs", writer, createCheck)
	s.handle("PATCH "+repo+"/check-runs/{id}", writer, updateCheck)
	s.branchRoutes(repo)
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
		out["permissions"] = fields{"pull": true, "triage": push, "push": push, "maintain": role == "maintain" || role == "admin", "admin": role == "admin"}
		all = append(all, out)
	}
	return c.paged(all)
}

// either tells the comments of an issue from one comment.
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

func listPulls(c *call) answer {
	q := c.r.URL.Query()
	state := q.Get("state")
	if state == "" {
		state = "open"
	}
	pulls := slices.Clone(c.repo.pulls)
	if q.Get("sort") == "updated" {
		slices.SortStableFunc(pulls, func(a, b *pull) int { return a.updated.Compare(b.updated) })
	}
	var all []fields
	for _, p := range pulls {
		if state != "all" && (state == "closed") != p.closed || q.Get("base") != "" && q.Get("base") != p.baseRef {
			continue
		}
		all = append(all, c.s.simplePull(c.repo, p))
	}
	if q.Get("direction") != "asc" {
		slices.Reverse(all)
	}
	return c.paged(all)
}

func createPull(c *call) answer {
	var in struct {
		Title, Body, Head, Base string
		Draft                   bool
	}
	if !c.read(&in) {
		return unreadable()
	}
	if !mayWrite(c.role()) {
		return c.forbidden()
	}
	if utf8.RuneCountInString(in.Title) > 256 {
		return invalid("PullRequest", "title", "custom", "title is too long (maximum is 256 characters)")
	}
	if utf8.RuneCountInString(in.Body) > maxText {
		return invalid("PullRequest", "body", "unprocessable", tooLong)
	}
	head := strings.TrimPrefix(in.Head, c.repo.owner.login+":")
	p, why := c.s.open(c.repo, c.repo, c.who.user, PR{Title: in.Title, Body: in.Body, Head: head, Base: in.Base, Draft: in.Draft})
	switch {
	case why == "head", why == "base":
		return invalid("PullRequest", why, "invalid", "")
	case why != "":
		return invalid("PullRequest", "base", "custom", why)
	}
	return answer{code: 201, value: c.s.fullPull(c.repo, p)}
}

func getPull(c *call) answer {
	p := c.repo.pull(c.number())
	if p == nil {
		return notFound()
	}
	return answer{code: 200, value: c.s.fullPull(c.repo, p)}
}

func editPull(c *call) answer {
	var in struct{ Title, Body, State *string }
	p := c.repo.pull(c.number())
	if p == nil {
		return notFound()
	}
	if !c.read(&in) {
		return unreadable()
	}
	if in.Body != nil && utf8.RuneCountInString(*in.Body) > maxText {
		return invalid("PullRequest", "body", "unprocessable", tooLong)
	}
	if in.Title != nil {
		p.title = *in.Title
	}
	if in.Body != nil {
		p.body = *in.Body
	}
	p.updated = c.s.now()
	if in.State != nil && *in.State == "closed" {
		c.s.close(c.repo, p, c.who.user)
	}
	return answer{code: 200, value: c.s.fullPull(c.repo, p)}
}

func pullsOf(c *call) answer {
	sha := c.r.PathValue("sha")
	if !c.repo.has(sha) {
		return noCommit(sha)
	}
	var all []fields
	for _, p := range c.repo.pulls {
		c.s.refresh(c.repo, p)
		if p.mergeSHA == sha || p.heads[sha] {
			all = append(all, c.s.simplePull(c.repo, p))
		}
	}
	return c.paged(all)
}

func noCommit(sha string) answer {
	return answer{code: http.StatusUnprocessableEntity, value: fields{
		"message": "No commit found for SHA: " + sha, "documentation_url": "https://docs.github.com/rest", "status": "422",
	}}
}

const (
	maxText = 65536
	tooLong = "body is too long (maximum is 65536 characters)"
)

func listComments(c *call) answer {
	p := c.repo.pull(c.number())
	if p == nil {
		return notFound()
	}
	var all []fields
	for _, x := range p.comments {
		all = append(all, c.s.comment(c.repo, p, x))
	}
	return c.paged(all)
}

func (c *call) text() (string, answer, bool) {
	var in struct{ Body string }
	if !c.read(&in) {
		return "", unreadable(), false
	}
	if in.Body == "" {
		return "", invalid("IssueComment", "body", "missing_field", ""), false
	}
	if utf8.RuneCountInString(in.Body) > maxText {
		return "", invalid("IssueComment", "body", "unprocessable", tooLong), false
	}
	return in.Body, answer{}, true
}

func createComment(c *call) answer {
	p := c.repo.pull(c.number())
	if p == nil {
		return notFound()
	}
	body, a, ok := c.text()
	if !ok {
		return a
	}
	return answer{code: 201, value: c.s.comment(c.repo, p, c.s.say(c.repo, p, c.who.user, body))}
}

func getComment(c *call) answer {
	p, i := c.repo.comment(c.id())
	if p == nil {
		return notFound()
	}
	return answer{code: 200, value: c.s.comment(c.repo, p, p.comments[i])}
}

func editComment(c *call) answer {
	p, i := c.repo.comment(c.id())
	if p == nil {
		return notFound()
	}
	if p.comments[i].author != c.who.user && !mayWrite(c.role()) {
		return c.forbidden()
	}
	body, a, ok := c.text()
	if !ok {
		return a
	}
	p.comments[i].body, p.comments[i].updated = body, c.s.now()
	return answer{code: 200, value: c.s.comment(c.repo, p, p.comments[i])}
}

func deleteComment(c *call) answer {
	p, i := c.repo.comment(c.id())
	if p == nil {
		return notFound()
	}
	if p.comments[i].author != c.who.user && !mayWrite(c.role()) {
		return c.forbidden()
	}
	p.comments = slices.Delete(p.comments, i, i+1)
	return answer{code: http.StatusNoContent}
}

func react(c *call) answer {
	var in struct{ Content string }
	p, i := c.repo.comment(c.id())
	if p == nil {
		return notFound()
	}
	if !c.read(&in) {
		return unreadable()
	}
	for _, x := range p.comments[i].reactions {
		if x.user == c.who.user && x.content == in.Content {
			return answer{code: 200, value: c.s.reaction(x)}
		}
	}
	x := &reaction{id: c.s.id(), user: c.who.user, content: in.Content, created: c.s.now()}
	p.comments[i].reactions = append(p.comments[i].reactions, x)
	return answer{code: 201, value: c.s.reaction(x)}
}

const mostStatuses = 1000 // of a commit and context

func countStatuses(r *repository, sha, context string) int {
	n := 0
	for _, x := range r.statuses {
		if x.sha == sha && strings.EqualFold(x.context, context) {
			n++
		}
	}
	return n
}

func createStatus(c *call) answer {
	var in struct {
		State, Context, Description string
		Target                      string `json:"target_url"`
	}
	sha := c.r.PathValue("sha")
	if !c.read(&in) {
		return unreadable()
	}
	if !c.repo.has(sha) {
		return noCommit(sha)
	}
	if !slices.Contains([]string{"error", "failure", "pending", "success"}, in.State) {
		return invalid("Status", "state", "invalid", "")
	}
	if utf8.RuneCountInString(in.Description) > 140 {
		return invalid("Status", "description", "custom", "description is too long (maximum is 140 characters)")
	}
	if in.Context == "" {
		in.Context = "default"
	}
	if countStatuses(c.repo, sha, in.Context) >= mostStatuses {
		return invalid("Status", "", "custom", "This SHA and context has reached the maximum number of statuses.")
	}
	x := c.s.setStatus(c.repo, Status{SHA: sha, State: in.State, Context: in.Context, Description: in.Description, URL: in.Target}, c.who.user)
	return answer{code: 201, value: c.s.status(c.repo, x)}
}

func listStatuses(c *call) answer {
	var all []fields
	for _, x := range slices.Backward(c.repo.statuses) {
		if x.sha == c.r.PathValue("sha") {
			all = append(all, c.s.status(c.repo, x))
		}
	}
	return c.paged(all)
}

// ends returns when an installation token ends.
func ends(now time.Time) time.Time { return now.Add(time.Hour) }
