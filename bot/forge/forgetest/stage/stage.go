// Package stage is an environment for the service in programs and tests: one of the fake forges, a real Git
// repository served over HTTP, users with different permissions, and webhooks. It does not wait for the
// service and does not check it: the caller reads branches and comments. Methods are safe for concurrent use,
// except Branch and Change, which change the working copy. The package must not be part of a released binary.
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
	"sync"
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
	// Sent is told of every try to deliver a webhook; status 0 is no answer. nil: nobody is.
	Sent func(d Delivery, status int)
}

// Stage is a forge, a Git server and a working copy. People: ada may write, mia maintains, eve may nothing.
type Stage struct {
	o     Options
	hub   *fakegithub.Server
	lab   *fakegitlab.Server
	forge *httptest.Server
	git   *httptest.Server
	token string

	mu    sync.Mutex
	hooks string
	count int
	plan  func(d Delivery) []time.Duration
	out   sync.WaitGroup
	quit  context.CancelFunc
	life  context.Context //nolint:containedctx // of deliveries, which outlive the calls that cause them
}

// New returns a stage on which ada has committed the fleet to main.
func New(ctx context.Context, o Options) (*Stage, error) {
	o.Name = cmp.Or(o.Name, "f")
	s := &Stage{o: o, plan: func(Delivery) []time.Duration { return []time.Duration{0} }}
	s.life, s.quit = context.WithCancel(context.WithoutCancel(ctx))
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
		err = errors.Join(s.Git(work, "remote", "add", "origin", s.Bare()), s.Git(work, "add", "-A"), s.Git(work, "commit", "-q", "-m", "start"), s.Git(work, "push", "-q", "origin", "HEAD:main"))
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
		Env:    []string{"GIT_PROJECT_ROOT=" + filepath.Join(s.o.Dir, "git"), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"},
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
		for login, level := range map[string]int{Bot: fakegitlab.Maintainer, "ada": fakegitlab.Developer, "mia": fakegitlab.Maintainer} {
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

// Bare returns the folder of the repository, Work that of the working copy.
func (s *Stage) Bare() string { return filepath.Join(s.o.Dir, "git", Repository+".git") }

// Work returns the folder of the working copy.
func (s *Stage) Work() string { return filepath.Join(s.o.Dir, "work") }

// Git runs git in a folder, as ada.
func (s *Stage) Git(dir string, args ...string) error {
	_, err := s.output(dir, args...)
	return err
}

func (s *Stage) output(dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(s.life, "git", args...) //nolint:gosec // of the stage's own making
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// Look runs git on the bare repository and gives what it says; "" if it fails.
func (s *Stage) Look(args ...string) string {
	out, err := s.output(s.Bare(), args...)
	if err != nil {
		return ""
	}
	return out
}

// Ref returns a branch's commit; "" if there is none.
func (s *Stage) Ref(branch string) string {
	return s.Look("rev-parse", "-q", "--verify", "refs/heads/"+branch)
}

// Refs returns all branches.
func (s *Stage) Refs() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(s.Look("for-each-ref", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads")) {
		hash, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		out[name] = hash
	}
	return out
}

// Branch creates a branch from the trunk as it is, with a change, and pushes it.
func (s *Stage) Branch(name, message string, edit func(dir string) error) error {
	work := s.Work()
	if err := errors.Join(s.Git(work, "fetch", "-q", "origin"), s.Git(work, "checkout", "-q", "-B", name, "origin/main")); err != nil {
		return err
	}
	return s.change(name, message, edit)
}

// Change pushes one more commit to a branch.
func (s *Stage) Change(name, message string, edit func(dir string) error) error {
	if err := s.Git(s.Work(), "checkout", "-q", name); err != nil {
		return err
	}
	return s.change(name, message, edit)
}

func (s *Stage) change(name, message string, edit func(dir string) error) error {
	work := s.Work()
	if err := edit(work); err != nil {
		return err
	}
	return errors.Join(s.Git(work, "add", "-A"), s.Git(work, "commit", "-q", "--allow-empty", "-m", message), s.Git(work, "push", "-q", "origin", "HEAD:"+name))
}

// Canaries returns the credentials of the service, in every form in which they could be seen.
func (s *Stage) Canaries() []string {
	var out []string
	for _, secret := range []string{s.token, Secret, Fingerprint} {
		out = append(out, secret, url.QueryEscape(secret), hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)))
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
	method, path, header, token := http.MethodPut, fmt.Sprintf("/api/v4/projects/%s/merge_requests/%d/notes/%d", url.PathEscape(Repository), number, id), "PRIVATE-TOKEN", "token-of-"+login
	if s.hub != nil {
		_, token = s.hub.AddUser(login)
		method, path, header, token = http.MethodPatch, fmt.Sprintf("/repos/%s/issues/comments/%d", Repository, id), "Authorization", "Bearer "+token
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

// Status returns the newest state of a commit's status, in GitHub's words; "" if there is none.
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

// Hub returns the GitHub and Lab the GitLab; the one that is not there is nil.
func (s *Stage) Hub() *fakegithub.Server { return s.hub }

// Lab returns the GitLab.
func (s *Stage) Lab() *fakegitlab.Server { return s.lab }

// Until waits until a condition holds, or returns an error after a time limit.
func Until(ctx context.Context, bound time.Duration, what string, is func() bool) error {
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

// Has reports whether a text contains all parts.
func Has(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
}
