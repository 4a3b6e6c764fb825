package fakegitlab

import (
	"crypto/sha1" //nolint:gosec // commit ids of Git are SHA-1
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/bare"
)

// Access levels (https://docs.gitlab.com/api/members/#roles).
const (
	Guest      = 10
	Reporter   = 20
	Developer  = 30
	Maintainer = 40
	Owner      = 50
)

type user struct {
	id    int
	login string
	bot   bool
}

type group struct {
	id      int
	path    string
	members map[int]member
}

type member struct {
	level int
	state string
}

type project struct {
	id       int
	path     string
	public   bool
	git      *bare.Repository // nil: commits are generated
	branches map[string]string
	commits  map[string]bool
	members  map[int]member
	mrs      []*mergeRequest
	statuses []*status

	pipelines map[string]int // the newest of a commit

	protected []protectedBranch

	environments []*environment
	deployments  []*deployment // oldest first
}

// protectedBranch is a rule for the branches that its name matches; * matches any characters.
type protectedBranch struct {
	id, push, merge int
	name            string
}

type mergeRequest struct {
	id, iid                   int
	title, description        string
	author                    *user
	source                    *project
	sourceBranch              string
	target                    string
	head, base                string
	labels                    []string
	reviewers                 []*user
	state                     string // opened, closed, merged
	mergeSHA                  string
	created, updated, closed_ time.Time
	heads                     map[string]bool
	notes                     []*note
}

type note struct {
	id               int
	author           *user
	body             string
	system           bool
	created, updated time.Time
	emojis           []*emoji
}

type emoji struct {
	id      int
	name    string
	user    *user
	created time.Time
}

type status struct {
	id                            int
	sha, state, name, description string
	target                        string
	author                        *user
	created, started, finished    time.Time

	pipeline      int
	bridge, child bool // a job that runs a child pipeline; a job of one
}

func (s *state) user(login string) *user { return s.users[strings.ToLower(login)] }

func (s *state) ensure(login string) *user {
	if u := s.user(login); u != nil {
		return u
	}
	u := &user{id: s.id(), login: login}
	s.users[strings.ToLower(login)] = u
	return u
}

// find finds a project by its id or path.
func (s *state) find(ref string) *project {
	for _, p := range s.projects {
		if fmt.Sprint(p.id) == ref || strings.EqualFold(p.path, ref) {
			return p
		}
	}
	return nil
}

func (p *project) tip(branch string) string {
	if p.git != nil {
		return p.git.Tip(branch)
	}
	return p.branches[branch]
}

func (p *project) has(sha string) bool {
	if p.git != nil {
		return p.git.Has(sha)
	}
	return p.commits[sha]
}

func (p *project) mr(iid string) *mergeRequest {
	for _, m := range p.mrs {
		if fmt.Sprint(m.iid) == iid {
			return m
		}
	}
	return nil
}

func (m *mergeRequest) note(id string) (int, *note) {
	for i, n := range m.notes {
		if fmt.Sprint(n.id) == id {
			return i, n
		}
	}
	return -1, nil
}

// oid returns a new commit id.
func (s *state) oid() string {
	sum := sha1.Sum([]byte(fmt.Sprint("commit ", s.id()))) //nolint:gosec // not for security
	return hex.EncodeToString(sum[:])
}

func (s *state) grow(p *project, branch string) string {
	sha := s.oid()
	p.branches[branch], p.commits[sha] = sha, true
	return sha
}

// refresh updates the commits of an open merge request from its branches.
func (s *state) refresh(p *project, m *mergeRequest) {
	if m.state != "opened" {
		return
	}
	if tip := p.tip(m.target); tip != "" {
		m.base = tip
	}
	tip := m.source.tip(m.sourceBranch)
	if tip == "" || tip == m.head {
		return
	}
	m.head, m.heads[tip] = tip, true
	if p.git != nil {
		p.git.Keep(m.source.git, fmt.Sprintf("refs/merge-requests/%d/head", m.iid), tip)
	} else {
		p.commits[tip] = true
	}
	m.updated = s.now()
}

// level returns what a user may do in a project: as a member of it or of a group above.
func (s *state) level(p *project, u *user) (member, bool) {
	best, ok := p.members[u.id]
	for path := p.path; ; {
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return best, ok
		}
		path = path[:i]
		if g := s.groups[strings.ToLower(path)]; g != nil {
			if m, there := g.members[u.id]; there && (!ok || m.level > best.level) {
				best, ok = m, true
			}
		}
	}
}

func (s *state) may(p *project, u *user, level int) bool {
	m, ok := s.level(p, u)
	return ok && m.state == "active" && m.level >= level || p.public && level <= Guest
}
