// Package stage is an environment for the service in programs and tests: one of the fake forges, a real Git
// repository served over HTTP, users with different permissions, and webhooks. It does not wait for the
// service and does not check it: the caller reads branches and comments. Methods are safe for concurrent use,
// except Branch and Change, which change the working copy. The package must not be part of a released binary.
//
// The package is not API: it can change in every release.
package stage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cgi" //nolint:gosec // on Go versions of before 2016
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
)

// What is on every stage.
const (
	Repository = "acme/fleet"
	Bot        = "sluice-bot" // whose token the service has
	Secret     = "a secret of the stage, long enough"
	labToken   = "token-of-the-stage"

	Fingerprint = "fingerprint-key-of-the-stage" // key of the fingerprints of the service
)

// protectedBranches are the rules of the repository: only Sluice moves its branches.
var protectedBranches = []string{"env/*", "cluster/*", "sluice/*"}

// Options of a stage.
type Options struct {
	Kind  string // github or gitlab
	Name  string // of the forge in the service's configuration; "" is "f"
	Dir   string // an empty folder for everything
	Fleet string // folder whose files are the trunk's first commit
	// Git wraps the server of Git, Forge the forge's API: faults are put there. nil is as it is.
	Git, Forge func(http.Handler) http.Handler
	// Edit changes the files of the first commit; nil leaves them.
	Edit func(dir string) error
	// Sent is called after every attempt to deliver a webhook; status 0 means no answer. It may be nil.
	Sent func(d Delivery, status int)
}

// Stage is a forge, a Git server and a working copy. People: ada may write, mia maintains, eve may nothing.
type Stage struct {
	*Repo
	*Webhooks
	o     Options
	hub   *fakegithub.Server
	lab   *fakegitlab.Server
	forge *httptest.Server
	git   *httptest.Server
	token string
	life  context.Context //nolint:containedctx // of deliveries and commands, which outlive the calls that cause them
	quit  context.CancelFunc
}

// New returns a stage on which ada has committed the fleet to main.
func New(ctx context.Context, o Options) (*Stage, error) {
	o.Name = cmp.Or(o.Name, "f")
	life, quit := context.WithCancel(context.WithoutCancel(ctx))
	s := &Stage{
		o: o, life: life, quit: quit, Repo: &Repo{dir: o.Dir, life: life},
		Webhooks: &Webhooks{
			forge: o.Name, github: o.Kind != "gitlab", sent: o.Sent, life: life,
			delays: func(Delivery) []time.Duration { return []time.Duration{0} },
		},
	}
	if err := s.repository(ctx); err != nil {
		s.Close()
		return nil, err
	}
	api := s.account()
	if o.Forge != nil {
		api = o.Forge(api)
	}
	s.forge = httptest.NewServer(api)
	work := s.Work()
	if err := os.CopyFS(work, os.DirFS(o.Fleet)); err != nil {
		s.Close()
		return nil, fmt.Errorf("copy the fleet: %w", err)
	}
	err := s.Git("", "init", "-q", "-b", "main", work)
	if err == nil && o.Edit != nil {
		err = o.Edit(work)
	}
	if err == nil {
		err = errors.Join(s.Git(work, "remote", "add", "origin", s.Bare()), s.Git(work, "add", "-A"),
			s.Git(work, "commit", "-q", "-m", "start"), s.Git(work, "push", "-q", "origin", "HEAD:main"))
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// repository creates the bare repository and its server.
func (s *Stage) repository(ctx context.Context) error {
	if err := errors.Join(
		s.Git("", "init", "-q", "--bare", "-b", "main", s.Bare()),
		s.Git(s.Bare(), "config", "http.receivepack", "true"),
		s.Git(s.Bare(), "config", "uploadpack.allowAnySHA1InWant", "true"),
	); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "git", "--exec-path").Output()
	if err != nil {
		return fmt.Errorf("git --exec-path: %w", err)
	}
	var backend http.Handler = &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Logger: log.New(io.Discard, "", 0), // of clients that were killed
		Env: []string{
			"GIT_PROJECT_ROOT=" + filepath.Join(s.o.Dir, "git"), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x",
			"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		},
	}
	if s.o.Git != nil {
		backend = s.o.Git(backend)
	}
	s.git = httptest.NewServer(backend)
	return nil
}

// account creates the forge with its people.
func (s *Stage) account() http.Handler {
	if s.o.Kind == "gitlab" {
		s.lab = fakegitlab.New(fakegitlab.Options{OnEvent: s.event, Clock: time.Now})
		s.lab.AddProject(Repository, s.Bare())
		s.token = labToken
		s.lab.AddUser(Bot, labToken, false)
		s.lab.AddUser("eve", "", false)
		for _, pattern := range protectedBranches {
			s.lab.Protect(Repository, pattern, fakegitlab.Maintainer)
		}
		for login, level := range map[string]int{
			Bot: fakegitlab.Maintainer, "ada": fakegitlab.Developer,
			"mia": fakegitlab.Maintainer,
		} {
			s.lab.Grant(Repository, login, level)
		}
		return s.lab
	}
	s.hub = fakegithub.New(fakegithub.Options{OnEvent: s.event, Clock: time.Now})
	s.hub.AddRepository(Repository, s.Bare())
	for _, pattern := range protectedBranches {
		s.hub.AddRules(Repository, pattern)
	}
	_, s.token = s.hub.AddUser(Bot)
	for login, role := range map[string]string{Bot: "maintain", "ada": "write", "mia": "maintain", "eve": ""} {
		if login != Bot {
			s.hub.AddUser(login)
		}
		s.hub.Grant(Repository, login, role)
	}
	return s.hub
}

// Close stops everything and keeps the folder.
func (s *Stage) Close() {
	s.quit()
	s.out.Wait()
	if s.forge != nil {
		s.forge.CloseClientConnections()
		s.forge.Close()
	}
	if s.git != nil {
		s.git.CloseClientConnections()
		s.git.Close()
	}
}

// Canaries returns the credentials of the service, in every form in which they could be seen.
func (s *Stage) Canaries() []string {
	var out []string
	for _, secret := range []string{s.token, Secret, Fingerprint} {
		out = append(out, secret, url.QueryEscape(secret), hex.EncodeToString([]byte(secret)),
			base64.StdEncoding.EncodeToString([]byte(secret)))
	}
	for _, user := range []string{Bot, "x-access-token", "oauth2"} {
		out = append(out, base64.StdEncoding.EncodeToString([]byte(user+":"+s.token)))
	}
	return out
}

// Edit replaces the text of a person's own comment through the API, as that person.
func (s *Stage) Edit(number int, id int64, login, text string) error {
	body, err := json.Marshal(map[string]string{"body": text})
	if err != nil {
		return err
	}
	method, path, header, token := http.MethodPut, fmt.Sprintf("/api/v4/projects/%s/merge_requests/%d/notes/%d",
		url.PathEscape(Repository), number, id), "PRIVATE-TOKEN", "token-of-"+login
	if s.hub != nil {
		_, token = s.hub.AddUser(login)
		method, path, header, token = http.MethodPatch, fmt.Sprintf("/repos/%s/issues/comments/%d", Repository, id),
			"Authorization", "Bearer "+token
	} else {
		s.lab.AddUser(login, token, false)
	}
	r := httptest.NewRequestWithContext(s.life, method, path, bytes.NewReader(body))
	r.Header.Set(header, token)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.API().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return fmt.Errorf("edit a comment: %d %s", w.Code, w.Body)
	}
	return nil
}

// Comments returns those of the bot, oldest first.
func (s *Stage) Comments(number int) []string {
	var out []string
	if s.hub != nil {
		for _, c := range s.hub.Comments(Repository, number) {
			if c.Author == Bot {
				out = append(out, c.Body)
			}
		}
		return out
	}
	for _, n := range s.lab.Notes(Repository, number) {
		if n.Author == Bot {
			out = append(out, n.Body)
		}
	}
	return out
}

// Status returns the newest state of a commit's status, in GitHub's terms; "" if there is none.
func (s *Stage) Status(sha, name string) string {
	if s.hub != nil {
		state := ""
		for _, one := range s.hub.Statuses(Repository, sha) {
			if one.Context == name {
				state = one.State
			}
		}
		return state
	}
	state := s.lab.Statuses(Repository, sha)[name]
	if state == "failed" {
		return "failure"
	}
	return state
}

// Head returns a merge request's commit.
func (s *Stage) Head(number int) string {
	if s.hub != nil {
		pr, err := s.hub.PR(Repository, number)
		if err != nil {
			return ""
		}
		return pr.HeadSHA
	}
	return s.lab.Head(Repository, number)
}

// API returns the API of the forge without the wrapper of Options.Forge.
func (s *Stage) API() http.Handler {
	if s.hub != nil {
		return s.hub
	}
	return s.lab
}

// GitHub returns the fake GitHub; nil if the stage has a GitLab.
func (s *Stage) GitHub() *fakegithub.Server { return s.hub }

// GitLab returns the fake GitLab; nil if the stage has a GitHub.
func (s *Stage) GitLab() *fakegitlab.Server { return s.lab }

// Patience is how long a test waits for what must come about. Only a failing test takes so long; a machine that does
// other work too may take minutes for what takes an idle one a second.
const Patience = 5 * time.Minute

// WaitFor waits until a condition holds, or returns an error after a time limit.
func WaitFor(ctx context.Context, bound time.Duration, what string, is func() bool) error {
	deadline := time.NewTimer(bound)
	defer deadline.Stop()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return fmt.Errorf("not within %s: %s", bound, what)
		case <-look.C:
		}
	}
	return nil
}

// ContainsAll reports whether a text contains all parts.
func ContainsAll(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
}
