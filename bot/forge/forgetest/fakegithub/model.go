package fakegithub

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // commit ids of Git are SHA-1
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/bare"
)

type account struct {
	id    int64
	login string
	kind  string // User, Bot, Organization
}

type repository struct {
	id       int64
	owner    *account
	name     string
	fork     bool
	git      *bare.Repository // nil: commits are generated
	created  time.Time
	branches map[string]string // without git
	roles    map[string]string // by login in lower case
	pulls    []*pull
	commits  map[string]bool // made up ones
	statuses []*status       // oldest first
	expected string          // context of a required status that nobody has posted
	checks   []*check

	deployments []*deployment // oldest first

	rules       []Rule
	protections map[string]Protection // by branch
}

func (r *repository) path() string { return r.owner.login + "/" + r.name }

// sorted returns all repositories, the oldest first.
func (s *state) sorted() []*repository {
	return slices.SortedFunc(maps.Values(s.repos), func(a, b *repository) int { return cmp.Compare(a.id, b.id) })
}

type pull struct {
	id, number               int64
	title, body              string
	author                   *account
	head                     *repository
	headRef, headSHA         string
	baseRef, baseSHA         string
	labels                   []string
	reviewers                []*account // who are asked
	reviewTeams              []string   // org/slug
	draft, closed            bool
	mergedBy                 *account
	mergeSHA                 string
	created, updated, merged time.Time
	closedAt                 time.Time
	heads                    map[string]bool // all commits that it had
	comments                 []*comment
}

type comment struct {
	id               int64
	author           *account
	body             string
	created, updated time.Time
	reactions        []*reaction
}

type reaction struct {
	id      int64
	user    *account
	content string
	created time.Time
}

type status struct {
	id                               int64
	sha, state, context, description string
	target                           string
	creator                          *account
	created                          time.Time
}

type check struct {
	id                            int64
	app                           *app
	sha, name, status, conclusion string
	details, title, summary, text string
	started, completed            time.Time
	annotations                   []Annotation
}

type delivery struct {
	Delivery
	id         int64
	redelivery bool
}

// oid returns a new commit id.
func (s *state) oid() string {
	sum := sha1.Sum([]byte(fmt.Sprint("commit ", s.id()))) //nolint:gosec // not for security
	return hex.EncodeToString(sum[:])
}

func (s *state) repo(path string) *repository { return s.repos[strings.ToLower(path)] }

func (s *state) account(login string) *account { return s.accounts[strings.ToLower(login)] }

func (s *state) ensure(login, kind string) *account {
	if a := s.account(login); a != nil {
		return a
	}
	a := &account{id: s.id(), login: login, kind: kind}
	s.accounts[strings.ToLower(login)] = a
	return a
}

func (r *repository) pull(number int) *pull {
	for _, p := range r.pulls {
		if int(p.number) == number {
			return p
		}
	}
	return nil
}

// comment finds a comment in the whole repository, as GitHub does.
func (r *repository) comment(id int64) (*pull, int) {
	for _, p := range r.pulls {
		for i, c := range p.comments {
			if c.id == id {
				return p, i
			}
		}
	}
	return nil, 0
}

// tip returns a branch's commit; "" if there is no such branch.
func (r *repository) tip(branch string) string {
	if r.git != nil {
		return r.git.Tip(branch)
	}
	return r.branches[branch]
}

func (r *repository) has(sha string) bool {
	if r.git != nil {
		return r.git.Has(sha)
	}
	return r.commits[sha]
}

// grow adds a generated commit to a branch.
func (s *state) grow(r *repository, branch string) string {
	sha := s.oid()
	r.branches[branch], r.commits[sha] = sha, true
	return sha
}

// refresh updates the commits of an open pull request from its branches. It returns the previous head.
func (s *state) refresh(r *repository, p *pull) (before string) {
	if p.closed {
		return p.headSHA
	}
	if tip := r.tip(p.baseRef); tip != "" {
		p.baseSHA = tip
	}
	before = p.headSHA
	tip := p.head.tip(p.headRef)
	if tip == "" || tip == before {
		return before
	}
	p.headSHA, p.heads[tip] = tip, true
	if r.git != nil {
		r.git.Keep(p.head.git, fmt.Sprintf("refs/pull/%d/head", p.number), tip)
	} else {
		r.commits[tip] = true
	}
	p.updated = s.now()
	return before
}
