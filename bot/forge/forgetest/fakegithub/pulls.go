package fakegithub

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

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
	p, why := c.s.open(c.repo, c.repo, c.who.user, PR{
		Title: in.Title, Body: in.Body, Head: head, Base: in.Base,
		Draft: in.Draft,
	})
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
		"message": "No commit found for SHA: " + sha, "documentation_url": "https://docs.github.com/rest",
		"status": "422",
	}}
}

const (
	maxText = 65536
	tooLong = "body is too long (maximum is 65536 characters)"
)

// DescribePR changes the description of a pull request.
func DescribePR(s *Server, path string, number int, body string) error {
	return s.change(path, number, "edited", func(_ *repository, p *pull) { p.body = body })
}
