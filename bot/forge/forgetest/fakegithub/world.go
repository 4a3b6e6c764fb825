package fakegithub

import (
	"crypto/rsa"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/bare"
)

// App is a GitHub App. Key verifies what it signs.
type App struct {
	ID       int64
	ClientID string
	Slug     string
	Key      *rsa.PublicKey
	// Administration reports whether the App has the permission "Administration: read".
	Administration bool
	// ReadChecks takes "Checks: write" away. "Checks: read" is left.
	ReadChecks bool
	// NoChecks takes that away too.
	NoChecks bool
}

// Delivery is a webhook that the App was sent, or should have been.
type Delivery struct {
	GUID, Event, Action string
	Status              int // HTTP status of the answer; 0 is no answer
	At                  time.Time
}

// AddRepository creates a repository. With a bare Git repository on disk its branches are read there;
// without, commits are made up, the first of them on main. The owner is an organization unless it is a user.
func (s *World) AddRepository(path, gitDir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addRepository(path, gitDir)
}

func (s *state) addRepository(path, gitDir string) *repository {
	if have := s.repo(path); have != nil {
		return have
	}
	owner, name, _ := strings.Cut(path, "/")
	r := &repository{
		id: s.id(), owner: s.ensure(owner, "Organization"), name: name, created: s.now(),
		branches: map[string]string{}, roles: map[string]string{}, commits: map[string]bool{},
		protections: map[string]Protection{},
	}
	if gitDir != "" {
		r.git = &bare.Repository{Dir: gitDir}
	} else {
		s.grow(r, "main")
	}
	s.repos[strings.ToLower(path)] = r
	return r
}

// AddFork creates a repository that is a fork; its owner may write it.
func (s *World) AddFork(path, gitDir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.addRepository(path, gitDir)
	r.fork = true
	r.roles[strings.ToLower(r.owner.login)] = "admin"
}

// AddUser creates a user and returns a token.
func (s *World) AddUser(login string) (id int64, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.ensure(login, "User")
	token = fmt.Sprintf("ghp_%s%d", login, a.id)
	s.tokens[token] = identity{user: a}
	return a.id, token
}

// Grant sets the role of a user in a repository: none, read, triage, write, maintain, admin.
func (s *World) Grant(path, login, role string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.repo(path); r != nil {
		r.roles[strings.ToLower(login)] = role
	}
}

// AddTeam creates a team `org/slug`. The pending members have not accepted.
func (s *World) AddTeam(team string, members, pending []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]string{}
	for _, m := range members {
		all[strings.ToLower(m)] = "active"
	}
	for _, m := range pending {
		all[strings.ToLower(m)] = "pending"
	}
	s.teams[strings.ToLower(team)] = all
}

// WorkflowToken returns a token as a workflow's run has it: of github-actions[bot], for one repository.
func (s *World) WorkflowToken(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	bot := s.ensure("github-actions[bot]", "Bot")
	token := fmt.Sprintf("ghs_workflow%d", s.id())
	s.tokens[token] = identity{user: bot, bot: true, only: []string{strings.ToLower(path)}}
	return token
}

// AddApp creates a GitHub App with its user `<slug>[bot]`.
func (s *World) AddApp(a App) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apps = append(s.apps, &app{App: a, account: s.ensure(a.Slug+"[bot]", "Bot"), created: s.now()})
}

// Install installs an App on an account: all of its repositories, now and later. It gives the installation's id.
func (s *World) Install(appID int64, owner string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.apps {
		if a.ID == appID {
			in := &install{id: s.id(), owner: s.ensure(owner, "Organization"), created: s.now()}
			a.installs = append(a.installs, in)
			return in.id
		}
	}
	return 0
}

// Reaches reports whether an installation's token is valid, and is for a repository.
func (s *World) Reaches(token, path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	who, ok := s.tokens[token]
	return ok && who.install != nil && (len(who.only) == 0 || slices.Contains(who.only, strings.ToLower(path)))
}

// Uninstall removes an App's installation, and withdraws its tokens.
func (s *World) Uninstall(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.apps {
		a.installs = slices.DeleteFunc(a.installs, func(in *install) bool { return in.id == id })
	}
	s.withdraw(func(who identity) bool { return who.install != nil && who.install.id == id })
}

// Withdraw makes all installation tokens invalid, as if they had been revoked.
func (s *World) Withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withdraw(func(who identity) bool { return who.install != nil })
}

func (s *state) withdraw(which func(identity) bool) {
	for token, who := range s.tokens {
		if which(who) {
			delete(s.tokens, token)
		}
	}
}

// AddDelivery records a webhook, and gives the record's id. Records are added oldest first.
func (s *World) AddDelivery(d Delivery) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := &delivery{Delivery: d, id: s.id()}
	s.deliveries = append(s.deliveries, rec)
	return rec.id
}

// Deliveries returns the records, oldest first, those of new attempts included.
func (s *World) Deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Delivery, 0, len(s.deliveries))
	for _, d := range s.deliveries {
		out = append(out, d.Delivery)
	}
	return out
}
