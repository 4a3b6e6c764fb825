package fakegitlab

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/bare"
)

// AddUser creates a user, and a token if it is not "".
func (s *World) AddUser(login, token string, bot bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.ensure(login)
	u.bot = bot
	if token != "" {
		s.tokens[token] = u
	}
	return u.id
}

// AddProject creates a project: connected to a bare repository on disk, or with generated commits if gitDir
// is "".
func (s *World) AddProject(path, gitDir string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addProject(path, gitDir).id
}

func (s *state) addProject(path, gitDir string) *project {
	p := &project{
		id: s.id(), path: path, branches: map[string]string{}, commits: map[string]bool{},
		members: map[int]member{}, pipelines: map[string]int{},
	}
	if gitDir != "" {
		p.git = &bare.Repository{Dir: gitDir}
	} else {
		s.grow(p, "main")
	}
	s.projects = append(s.projects, p)
	return p
}

// AddJobToken creates the token of a job of a project.
func (s *World) AddJobToken(path, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[token] = s.find(path)
}

// Grant makes a user a member of a project; level 0 removes the membership.
func (s *World) Grant(path, login string, level int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, u := s.find(path), s.ensure(login)
	delete(p.members, u.id)
	if level > 0 {
		p.members[u.id] = member{level, "active"}
	}
}

// AddGroup creates a group with active members and members who wait to be approved.
func (s *World) AddGroup(path string, members, awaiting []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &group{id: s.id(), path: path, members: map[int]member{}}
	for _, m := range members {
		g.members[s.ensure(m).id] = member{Developer, "active"}
	}
	for _, m := range awaiting {
		g.members[s.ensure(m).id] = member{Developer, "awaiting"}
	}
	s.groups[strings.ToLower(path)] = g
}

// MergeRequest is a merge request to open.
type MergeRequest struct {
	Title, Body, Author        string
	SourceBranch, TargetBranch string // "" is main
	Labels                     []string
	SourceProject              string // of a fork; "" is the project itself
}

// Open opens a merge request. Its source branch must be there; in a project without Git it is made.
func (s *MergeRequests) Open(path string, o MergeRequest) (iid int) {
	defer s.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(path)
	source := p
	if o.SourceProject != "" {
		if source = s.find(o.SourceProject); source == nil {
			source = s.addProject(o.SourceProject, "")
		}
	}
	if o.TargetBranch == "" {
		o.TargetBranch = "main"
	}
	if p.git == nil {
		if p.tip(o.TargetBranch) == "" {
			p.branches[o.TargetBranch] = p.branches["main"]
		}
		s.grow(source, o.SourceBranch)
	}
	return s.open(p, source, o).iid
}

func (s *MergeRequests) open(p, source *project, o MergeRequest) *mergeRequest {
	now := s.now()
	m := &mergeRequest{
		id: s.id(), iid: len(p.mrs) + 1, title: o.Title, description: o.Body, author: s.ensure(o.Author),
		source: source, sourceBranch: o.SourceBranch,
		target: o.TargetBranch, labels: o.Labels, state: "opened", created: now, updated: now, heads: map[string]bool{},
	}
	p.mrs = append(p.mrs, m)
	s.refresh(p, m)
	s.mergeRequestEvent(p, m, "open", "", m.author)
	return m
}

// Push sends the webhook of a push to the source branch; in a project without Git it moves the branch. It returns the
// head.
func (s *MergeRequests) Push(path string, iid int) string {
	defer s.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(path)
	m := p.mr(fmt.Sprint(iid))
	before := m.head
	if p.git == nil {
		s.grow(m.source, m.sourceBranch)
	}
	s.refresh(p, m)
	s.mergeRequestEvent(p, m, "update", before, m.author)
	return m.head
}

// PushBranch sends the webhook of a push to a branch of the project.
func (s *MergeRequests) PushBranch(path, branch, before string) {
	defer s.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(path)
	s.pushEvent(p, branch, before, p.tip(branch), s.ensure("ada"))
}

// Merge merges, and gives the commit that the target branch then has.
func (s *MergeRequests) Merge(path string, iid int, login string) (string, error) {
	defer s.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(path)
	m := p.mr(fmt.Sprint(iid))
	s.refresh(p, m)
	if m.state != "opened" {
		return "", errors.New("405 Method Not Allowed")
	}
	before, now := p.tip(m.target), s.now()
	who := s.ensure(login)
	if p.git != nil {
		sha, err := p.git.Merge(m.target, m.head,
			fmt.Sprintf("Merge branch '%s' into '%s'\n\n%s\n\nSee merge request %s!%d", m.sourceBranch, m.target,
				m.title, p.path, m.iid), who.login, now)
		if err != nil {
			return "", err
		}
		m.mergeSHA = sha
	} else {
		m.mergeSHA = s.grow(p, m.target)
	}
	m.state, m.updated = "merged", now
	s.mergeRequestEvent(p, m, "merge", "", who)
	s.pushEvent(p, m.target, before, m.mergeSHA, who)
	return m.mergeSHA, nil
}

// Close closes without merging.
func (s *MergeRequests) Close(path string, iid int) {
	defer s.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(path)
	m := p.mr(fmt.Sprint(iid))
	m.state, m.closed_, m.updated = "closed", s.now(), s.now()
	s.mergeRequestEvent(p, m, "close", "", m.author)
}

// Draft marks a merge request as a draft, or as ready.
func (s *MergeRequests) Draft(path string, iid int, draft bool) {
	defer s.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(path)
	m := p.mr(fmt.Sprint(iid))
	m.title = strings.TrimPrefix(m.title, "Draft: ")
	if draft {
		m.title = "Draft: " + m.title
	}
	s.mergeRequestEvent(p, m, "update", "", m.author)
}

// change changes a merge request and sends the webhook.
func (s *MergeRequests) change(path string, iid int, action string, do func(m *mergeRequest)) {
	defer s.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(path)
	m := p.mr(fmt.Sprint(iid))
	do(m)
	m.updated = s.now()
	s.refresh(p, m)
	s.mergeRequestEvent(p, m, action, "", m.author)
}

// Retarget changes the target branch of a merge request.
func (s *MergeRequests) Retarget(path string, iid int, target string) {
	s.change(path, iid, "update", func(m *mergeRequest) { m.target = target })
}

// Reopen opens a merge request again that was closed without merging.
func (s *MergeRequests) Reopen(path string, iid int) {
	s.change(path, iid, "reopen", func(m *mergeRequest) {
		if m.state == "closed" {
			m.state, m.closed_ = "opened", time.Time{}
		}
	})
}

// Describe changes the description of a merge request.
func (s *MergeRequests) Describe(path string, iid int, text string) {
	s.change(path, iid, "update", func(m *mergeRequest) { m.description = text })
}

// Label sets the labels of a merge request.
func (s *MergeRequests) Label(path string, iid int, labels ...string) {
	s.change(path, iid, "update", func(m *mergeRequest) { m.labels = labels })
}

// Comment comments as a user and gives the note's id.
func (s *MergeRequests) Comment(path string, iid int, login, body string) int {
	defer s.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(path)
	return s.say(p, p.mr(fmt.Sprint(iid)), s.ensure(login), body).id
}

func (s *MergeRequests) say(p *project, m *mergeRequest, who *user, body string) *note {
	now := s.now()
	n := &note{id: s.id(), author: who, body: body, created: now, updated: now}
	m.notes, m.updated = append(m.notes, n), now
	s.noteEvent(p, m, n)
	return n
}

// Protect protects branches by a name in which * matches any characters: members need the level to push, and
// 40 to merge.
func (s *World) Protect(path, name string, push int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(path)
	p.protected = append(p.protected, protectedBranch{id: s.id(), push: push, merge: Maintainer, name: name})
}

// Unprotect removes all rules that protect branches.
func (s *World) Unprotect(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.find(path); p != nil {
		p.protected = nil
	}
}

// SetStatus sets a status of a commit as a user.
func (s *MergeRequests) SetStatus(path, sha, login, state, name, description string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report(s.find(path), sha, state, name, description, "", s.ensure(login))
}

func (s *MergeRequests) report(
	p *project, sha, state, name, description, target string, who *user,
) *status {
	now := s.now()
	t := &status{
		id: s.id(), sha: sha, state: state, name: name, description: description, target: target, author: who,
		created: now,
	}
	if state != "pending" {
		t.started = now
	}
	if state != "pending" && state != "running" {
		t.finished = now
	}
	if p.pipelines[sha] == 0 {
		p.pipelines[sha] = s.id()
	}
	t.pipeline = p.pipelines[sha]
	p.statuses = append(p.statuses, t)
	return t
}

// Note is a comment.
type Note struct {
	ID           int
	Author, Body string
	Emojis       []string
}

// Notes returns the comments of a merge request, oldest first.
func (s *MergeRequests) Notes(path string, iid int) []Note {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Note
	for _, n := range s.find(path).mr(fmt.Sprint(iid)).notes {
		one := Note{ID: n.id, Author: n.author.login, Body: n.body}
		for _, e := range n.emojis {
			one.Emojis = append(one.Emojis, e.name)
		}
		out = append(out, one)
	}
	return out
}

// Statuses returns the newest states of a commit's statuses, by name.
func (s *MergeRequests) Statuses(path, sha string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for _, t := range s.find(path).statuses {
		if t.sha == sha {
			out[t.name] = t.state
		}
	}
	return out
}

// Numbers returns the merge requests of a project.
func (s *MergeRequests) Numbers(path string) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []int
	for _, m := range s.find(path).mrs {
		out = append(out, m.iid)
	}
	return out
}

// Head returns a merge request's head; "" if there is none.
func (s *MergeRequests) Head(path string, iid int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.find(path)
	m := p.mr(fmt.Sprint(iid))
	if m == nil {
		return ""
	}
	s.refresh(p, m)
	return m.head
}

func (s *outbox) emit(name string, payload fields) {
	if s.o.OnEvent == nil {
		return
	}
	data, err := json.Marshal(payload)
	if err == nil {
		s.events = append(s.events, event{name, data})
	}
}

// SetOnEvent replaces the receiver of webhooks.
func (s *Server) SetOnEvent(take func(event string, payload []byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.OnEvent = take
}

// flush sends the webhooks of what a driver did.
func (s *outbox) flush() {
	s.mu.Lock()
	events, take := s.events, s.o.OnEvent
	s.events = nil
	s.mu.Unlock()
	for _, e := range events {
		take(e.name, e.payload)
	}
}
