package fakegithub

import (
	"net/http"
	"slices"
	"unicode/utf8"
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
