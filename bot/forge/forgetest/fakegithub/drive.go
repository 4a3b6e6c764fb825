package fakegithub

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// PR is a pull request: its arguments, and its state.
type PR struct {
	Number      int
	Title, Body string
	Author      string
	Head, Base  string // branches; Base "" is main
	HeadRepo    string // path; "" is the repository itself
	HeadSHA     string
	BaseSHA     string
	MergeSHA    string
	Labels      []string
	Draft       bool
	State       string // open, closed, merged
}

// Comment is a comment.
type Comment struct {
	ID           int64
	Author, Body string
}

// Status is a commit status.
type Status struct{ SHA, State, Context, Description, URL, Creator string }

// Annotation is an annotation of a check run.
type Annotation struct {
	Path    string `json:"path"`
	Start   int    `json:"start_line"`
	End     int    `json:"end_line"`
	Level   string `json:"annotation_level"`
	Title   string `json:"title"`
	Message string `json:"message"`
}

// Check is a check run.
type Check struct {
	ID                                          int64
	App, SHA, Name, Status, Conclusion, Details string
	Title, Summary                              string
	Annotations                                 []Annotation
}

var errNothing = errors.New("the fake has no such thing")

// do changes something and sends the webhooks.
func (s *PullRequests) do(change func() error) error {
	s.mu.Lock()
	err := change()
	events := s.events
	s.events = nil
	s.mu.Unlock()
	for _, e := range events {
		s.o.OnEvent(e.name, e.payload)
	}
	return err
}

func (s *PullRequests) find(path string, number int) (*repository, *pull, error) {
	r := s.repo(path)
	if r == nil {
		return nil, nil, fmt.Errorf("%w: repository %s", errNothing, path)
	}
	p := r.pull(number)
	if p == nil {
		return nil, nil, fmt.Errorf("%w: pull request %d of %s", errNothing, number, path)
	}
	return r, p, nil
}

// OpenPR opens a pull request. Without Git the source branch gets a new commit, and the target is created if
// it does not exist.
func (s *PullRequests) OpenPR(path string, pr PR) (PR, error) {
	var out PR
	err := s.do(func() error {
		r := s.repo(path)
		if r == nil {
			return fmt.Errorf("%w: repository %s", errNothing, path)
		}
		head := r
		if pr.HeadRepo != "" {
			if head = s.repo(pr.HeadRepo); head == nil {
				return fmt.Errorf("%w: repository %s", errNothing, pr.HeadRepo)
			}
		}
		if pr.Base == "" {
			pr.Base = "main"
		}
		if r.git == nil && r.tip(pr.Base) == "" {
			s.grow(r, pr.Base)
		}
		if head.git == nil {
			s.grow(head, pr.Head)
		}
		p, problem := s.open(r, head, s.ensure(pr.Author, "User"), pr)
		if problem != "" {
			return errors.New(problem)
		}
		out = s.pr(r, p)
		return nil
	})
	return out, err
}

// open opens a pull request, or returns a reason why it cannot.
func (s *PullRequests) open(r, head *repository, author *account, pr PR) (*pull, string) {
	switch {
	case head.tip(pr.Head) == "":
		return nil, "head"
	case r.tip(pr.Base) == "":
		return nil, "base"
	case head.tip(pr.Head) == r.tip(pr.Base):
		return nil, fmt.Sprintf("No commits between %s and %s", pr.Base, pr.Head)
	}
	for _, p := range r.pulls {
		if !p.closed && p.head == head && p.headRef == pr.Head && p.baseRef == pr.Base {
			return nil, fmt.Sprintf("A pull request already exists for %s:%s.", head.owner.login, pr.Head)
		}
	}
	now := s.now()
	p := &pull{
		id: s.id(), number: int64(len(r.pulls) + 1), title: pr.Title, body: pr.Body, author: author, head: head,
		headRef: pr.Head,
		baseRef: pr.Base, labels: pr.Labels, draft: pr.Draft, created: now, updated: now, heads: map[string]bool{},
	}
	r.pulls = append(r.pulls, p)
	s.refresh(r, p)
	s.pullEvent(r, p, "opened", author, "")
	return p, ""
}

// PushPR adds a commit to the source branch and sends the webhook. With Git, the commit was pushed before. It
// returns the head.
func (s *PullRequests) PushPR(path string, number int) (string, error) {
	var head string
	err := s.do(func() error {
		r, p, err := s.find(path, number)
		if err != nil {
			return err
		}
		if p.head.git == nil {
			s.grow(p.head, p.headRef)
		}
		before := s.refresh(r, p)
		head = p.headSHA
		s.pullEvent(r, p, "synchronize", p.author, before)
		return nil
	})
	return head, err
}

// MergePR merges as a user. It returns the merge commit.
func (s *PullRequests) MergePR(path string, number int, login string) (string, error) {
	var sha string
	err := s.do(func() error {
		r, p, err := s.find(path, number)
		if err != nil {
			return err
		}
		if p.closed {
			return fmt.Errorf("pull request %d of %s is not open", number, path)
		}
		s.refresh(r, p)
		who, before, now := s.ensure(login, "User"), r.tip(p.baseRef), s.now()
		if r.git == nil {
			sha = s.grow(r, p.baseRef)
		} else {
			message := fmt.Sprintf("Merge pull request #%d from %s/%s\n\n%s\n", p.number, p.head.owner.login, p.headRef,
				p.title)
			if sha, err = r.git.Merge(p.baseRef, p.headSHA, message, login, now); err != nil {
				return err
			}
		}
		p.closed, p.mergeSHA, p.mergedBy, p.merged, p.closedAt, p.updated = true, sha, who, now, now, now
		s.pullEvent(r, p, "closed", who, "")
		s.pushEvent(r, p.baseRef, before, sha, who)
		return nil
	})
	return sha, err
}

// ClosePR closes without merging.
func (s *PullRequests) ClosePR(path string, number int) error {
	return s.do(func() error {
		r, p, err := s.find(path, number)
		if err != nil {
			return err
		}
		s.close(r, p, p.author)
		return nil
	})
}

// DraftPR marks a pull request as a draft, or as ready.
func (s *PullRequests) DraftPR(path string, number int, draft bool) error {
	return s.do(func() error {
		r, p, err := s.find(path, number)
		if err != nil {
			return err
		}
		p.draft, p.updated = draft, s.now()
		s.pullEvent(r, p, map[bool]string{true: "converted_to_draft", false: "ready_for_review"}[draft], p.author, "")
		return nil
	})
}

// change changes a pull request and sends the webhook.
func (s *PullRequests) change(path string, number int, action string, do func(r *repository, p *pull)) error {
	return s.do(func() error {
		r, p, err := s.find(path, number)
		if err != nil {
			return err
		}
		do(r, p)
		p.updated = s.now()
		s.refresh(r, p)
		s.pullEvent(r, p, action, p.author, "")
		return nil
	})
}

// RetargetPR changes the base of a pull request.
func (s *PullRequests) RetargetPR(path string, number int, base string) error {
	return s.change(path, number, "edited", func(_ *repository, p *pull) { p.baseRef = base })
}

// ReopenPR opens a pull request again that was closed without merging.
func (s *PullRequests) ReopenPR(path string, number int) error {
	return s.change(path, number, "reopened", func(_ *repository, p *pull) {
		if p.merged.IsZero() {
			p.closed, p.closedAt = false, time.Time{}
		}
	})
}

// LabelPR sets the labels of a pull request.
func (s *PullRequests) LabelPR(path string, number int, labels ...string) error {
	return s.change(path, number, "labeled", func(_ *repository, p *pull) { p.labels = labels })
}

func (s *PullRequests) close(r *repository, p *pull, who *account) {
	if p.closed {
		return
	}
	p.closed, p.closedAt = true, s.now()
	p.updated = p.closedAt
	s.pullEvent(r, p, "closed", who, "")
}

// CommentPR comments as a user.
func (s *PullRequests) CommentPR(path string, number int, login, body string) (Comment, error) {
	var out Comment
	err := s.do(func() error {
		r, p, err := s.find(path, number)
		if err != nil {
			return err
		}
		c := s.say(r, p, s.ensure(login, "User"), body)
		out = Comment{ID: c.id, Author: c.author.login, Body: c.body}
		return nil
	})
	return out, err
}

func (s *PullRequests) say(r *repository, p *pull, who *account, body string) *comment {
	now := s.now()
	c := &comment{id: s.id(), author: who, body: body, created: now, updated: now}
	p.comments = append(p.comments, c)
	p.updated = now
	s.commentEvent(r, p, c)
	return c
}

// SetStatus sets a commit status as a user.
func (s *PullRequests) SetStatus(path string, st Status) error {
	return s.do(func() error {
		r := s.repo(path)
		if r == nil || !r.has(st.SHA) {
			return fmt.Errorf("%w: commit %s of %s", errNothing, st.SHA, path)
		}
		s.setStatus(r, st, s.ensure(st.Creator, "User"))
		return nil
	})
}

func (s *PullRequests) setStatus(r *repository, st Status, who *account) *status {
	x := &status{
		id: s.id(), sha: st.SHA, state: st.State, context: st.Context, description: st.Description, target: st.URL,
		creator: who, created: s.now(),
	}
	r.statuses = append(r.statuses, x)
	return x
}

// PR returns a pull request with its current state.
func (s *PullRequests) PR(path string, number int) (PR, error) {
	var out PR
	err := s.do(func() error {
		r, p, err := s.find(path, number)
		if err == nil {
			out = s.pr(r, p)
		}
		return err
	})
	return out, err
}

// PRs returns all pull requests by number.
func (s *PullRequests) PRs(path string) []PR {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []PR
	if r := s.repo(path); r != nil {
		for _, p := range r.pulls {
			out = append(out, s.pr(r, p))
		}
	}
	return out
}

func (s *PullRequests) pr(r *repository, p *pull) PR {
	s.refresh(r, p)
	state := "open"
	if p.mergeSHA != "" {
		state = "merged"
	} else if p.closed {
		state = "closed"
	}
	return PR{
		Number: int(p.number), Title: p.title, Body: p.body, Author: p.author.login, Head: p.headRef, Base: p.baseRef,
		HeadRepo: p.head.path(), HeadSHA: p.headSHA, BaseSHA: p.baseSHA, MergeSHA: p.mergeSHA,
		Labels: slices.Clone(p.labels),
		Draft:  p.draft, State: state,
	}
}

// Comments returns the conversation, oldest first.
func (s *PullRequests) Comments(path string, number int) []Comment {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Comment
	if _, p, err := s.find(path, number); err == nil {
		for _, c := range p.comments {
			out = append(out, Comment{ID: c.id, Author: c.author.login, Body: c.body})
		}
	}
	return out
}

// Statuses returns the statuses of a commit in the order in which they were set; of all commits if sha is "".
func (s *PullRequests) Statuses(path, sha string) []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Status
	if r := s.repo(path); r != nil {
		for _, x := range r.statuses {
			if sha == "" || x.sha == sha {
				out = append(out, Status{
					SHA: x.sha, State: x.state, Context: x.context, Description: x.description,
					URL: x.target, Creator: x.creator.login,
				})
			}
		}
	}
	return out
}

// Checks returns the check runs of a commit in the order in which they were made; of all commits if sha is "".
func (s *PullRequests) Checks(path, sha string) []Check {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Check
	if r := s.repo(path); r != nil {
		for _, x := range r.checks {
			if sha == "" || x.sha == sha {
				out = append(out, Check{
					ID: x.id, App: x.app.Slug, SHA: x.sha, Name: x.name, Status: x.status, Conclusion: x.conclusion,
					Details: x.details,
					Title:   x.title, Summary: x.summary, Annotations: slices.Clone(x.annotations),
				})
			}
		}
	}
	return out
}

// Reactions returns a comment's reactions as `login content`.
func (s *PullRequests) Reactions(path string, comment int64) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	if r := s.repo(path); r != nil {
		if p, i := r.comment(comment); p != nil {
			for _, x := range p.comments[i].reactions {
				out = append(out, x.user.login+" "+x.content)
			}
		}
	}
	return out
}
