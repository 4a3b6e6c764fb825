package app_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bed/bedtest"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegitlab"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/cmd/internal/cli"
	"github.com/sluice-gitops/sluice/service"
	"github.com/sluice-gitops/sluice/service/config"
)

// commandLine names the environment variable with which the test binary is the command line.
const commandLine = "SLUICE_TEST_COMMAND_LINE"

// TestMain lets the test binary act as a worker process, as a service and as the command line, and gives Git an identity.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == app.ChildCommand || os.Args[1] == "serve" || os.Getenv(commandLine) != "") {
		os.Exit(cli.Main(context.Background(), os.Args[1:], cli.System()))
	}
	env := map[string]string{"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env["GIT_"+who+"_NAME"], env["GIT_"+who+"_EMAIL"] = "Ada", "ada@example.com"
	}
	for name, value := range env {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	flag.Parse()
	flags := map[string]string{"test.parallel": "8"} // the stories wait most of the time
	if os.Getenv("SLUICE_FORGES") == "gitea" {
		flags["test.parallel"] = "4" // each has a Gitea of its own
		if flag.Lookup("test.run").Value.String() == "" {
			flags["test.run"] = "^(" + strings.Join(append(giteaStories, bedStories...), "|") + ")$/^gitea$"
		}
	}
	for name, value := range flags {
		if err := flag.Set(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	if err := os.RemoveAll(giteaFolder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const (
	repo   = "acme/fleet"
	secret = "a secret of the test, long enough"

	fingerprint = "a fingerprint key of the test, long enough"
)

// ownBranches are protected on GitHub, with Sluice as an exception; onGitLab on GitLab, as docs/gitlab-setup.md says.
var (
	ownBranches = []string{"env/*", "cluster/*", "sluice/*"}
	onGitLab    = []string{"env/*", "cluster/*", "sluice/state", "sluice/promote/*"}
)

// ofGitLab is a hook that refuses what GitLab refuses on protected branches: to delete one, and to force a push where the
// rule does not allow it (https://docs.gitlab.com/user/project/repository/branches/protected/). Only requests have a user;
// a test that pushes to the folder is not asked.
const ofGitLab = `#!/bin/sh
[ -n "$REMOTE_USER" ] || exit 0
while read -r old new ref; do
  force=
  case $ref in
  refs/heads/sluice/promote/*) force=yes ;;
  refs/heads/env/* | refs/heads/cluster/* | refs/heads/sluice/state) ;;
  *) continue ;;
  esac
  case $new in
  *[!0]*) ;;
  *) echo "GitLab: You can only delete protected branches using the web interface." >&2; exit 1 ;;
  esac
  case $old in
  *[!0]*) ;;
  *) continue ;;
  esac
  if [ -z "$force" ] && [ -n "$(git rev-list --max-count=1 "$old" "^$new")" ]; then
    echo "GitLab: You are not allowed to force push code to a protected branch on this project." >&2
    exit 1
  fi
done
`

// story is a forge with real Git, and a service that receives its webhooks.
type story struct {
	t        *testing.T
	dir      string
	kind     string
	hub      *fakegithub.Server
	lab      *fakegitlab.Server
	tea      *tea // nil unless kind is gitea
	forge    *httptest.Server
	git      *httptest.Server
	listings atomic.Int64 // of refs, of s.git
	hooks    *httptest.Server
	probes   *httptest.Server // metrics
	options  app.ServiceOptions
	config   string                  // of the service
	drop     func(event string) bool // webhooks that are lost
	self     string                  // login of the bot
	prepare  func(*service.Service)  // called before the service runs
	ahead    atomic.Int64            // by how much the clock of the forge and of the service is ahead, in nanoseconds

	mu      sync.Mutex
	service *service.Service
	stop    func()
	count   int
}

// endToEnd skips a slow test in short mode: `make test` is short, `make test-e2e` runs everything.
func endToEnd(t *testing.T) {
	t.Helper()
	for _, quick := range []string{
		"TestStory", "TestUntrustedContributors", "TestReceivers", "TestProbes",
		"TestUnsignedWebhooksMakeNoSeries",
	} {
		if name, _, _ := strings.Cut(t.Name(), "/"); name == quick {
			return
		}
	}
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
}

// newStory starts a forge and a repository. Stories share nothing and run in parallel.
func newStory(t *testing.T, kind string) *story {
	t.Helper()
	endToEnd(t)
	t.Parallel()
	s := &story{
		t: t, dir: t.TempDir(), kind: kind, self: "sluice-bot", drop: func(string) bool { return false },
		prepare: func(*service.Service) {},
	}
	var token string
	if kind == "gitea" {
		token = s.startGitea()
	} else {
		bare := s.bare(repo)
		s.run("", "init", "-q", "--bare", "-b", "main", bare)
		s.run(bare, "config", "http.receivepack", "true")
		s.run(bare, "config", "uploadpack.allowAnySHA1InWant", "true")
		if kind == "gitlab" {
			writeAll(s, bare, map[string]string{"hooks/pre-receive": ofGitLab})
			if err := os.Chmod(filepath.Join(bare, "hooks", "pre-receive"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		s.git = httptest.NewServer(s.listed(backend(t, filepath.Join(s.dir, "git"))))
		t.Cleanup(s.git.Close)
		token = s.startForge(bare)
		t.Cleanup(s.forge.Close)
	}
	work := filepath.Join(s.dir, "work")
	if err := os.CopyFS(work, os.DirFS("../../../testdata/fleet")); err != nil {
		t.Fatal(err)
	}
	s.run(work, "init", "-q", "-b", "main")
	s.commit("start")
	s.run(work, "remote", "add", "origin", s.remote(repo))
	s.push("main")
	file := filepath.Join(s.dir, "config.yaml")
	s.config = fmt.Sprintf(`data: %s
sweep: 5s
promote: 5s
drain: 5s
network: {allow: [127.0.0.1]}
fingerprint: {env: FINGERPRINT}
forges:
  - {name: f, kind: %s, api: %s, git: %s, token: {env: TOKEN}, secrets: [{env: SECRET}], repositories: [%s]}
`, filepath.Join(s.dir, "data"), kind, s.forge.URL, s.git.URL, repo)
	if err := os.WriteFile(file, []byte(s.config), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"TOKEN": token, "SECRET": secret, "FINGERPRINT": fingerprint, "SLUICE_OFFLINE": "1",
		"SLUICE_CACHE_DIR": filepath.Join(s.dir, "cache"),
	}
	credentials := []string{token, secret, fingerprint}
	t.Cleanup(func() { s.leaks(credentials) })
	getenv := func(name string) string { return env[name] }
	s.options = app.ServiceOptions{
		Env: app.Environment{Getenv: getenv, Home: s.dir, Executable: os.Args[0]},
		Log: slog.New(slog.NewTextHandler(guardedWriter{newWriter(t), credentials},
			&slog.HandlerOptions{Level: slog.LevelWarn})), Retry: 100 * time.Millisecond, Clock: s.now,
		Load: func() (*config.Config, error) {
			return config.Parse("config.yaml", []byte(s.config), config.Sources{Getenv: getenv, Read: os.ReadFile})
		},
	}
	t.Cleanup(s.end)
	return s
}

// bare returns the folder of a repository on the forge.
func (s *story) bare(path string) string {
	if s.tea != nil {
		return s.tea.bare(path)
	}
	return filepath.Join(s.dir, "git", path+".git")
}

// remote returns the address that ada pushes to.
func (s *story) remote(path string) string {
	if s.tea != nil {
		return s.tea.remote(path, "ada")
	}
	return s.bare(path)
}

func backend(t *testing.T, root string) http.Handler {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env: []string{
			"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x",
			"GIT_CONFIG_GLOBAL=/dev/null",
		},
	}
}

func (s *story) startForge(bare string) (token string) {
	if s.kind == "github" {
		s.hub = fakegithub.New(fakegithub.Options{OnEvent: s.deliver, Clock: s.now})
		s.hub.AddRepository(repo, bare)
		for _, pattern := range ownBranches {
			s.hub.AddRules(repo, pattern)
		}
		_, token = s.hub.AddUser("sluice-bot")
		s.hub.Grant(repo, "sluice-bot", "maintain")
		for login, role := range map[string]string{"ada": "write", "mia": "maintain", "eve": ""} {
			s.hub.AddUser(login)
			s.hub.Grant(repo, login, role)
		}
		s.forge = httptest.NewServer(s.hub)
		return token
	}
	s.lab = fakegitlab.New(fakegitlab.Options{OnEvent: s.deliver, Clock: s.now})
	s.lab.AddProject(repo, bare)
	for _, pattern := range onGitLab {
		s.lab.Protect(repo, pattern, fakegitlab.Maintainer)
	}
	token = "token-of-the-test"
	s.lab.AddUser("sluice-bot", token, false)
	s.lab.Grant(repo, "sluice-bot", fakegitlab.Maintainer)
	s.lab.AddUser("eve", "", false)
	s.lab.Grant(repo, "ada", fakegitlab.Developer)
	s.lab.Grant(repo, "mia", fakegitlab.Maintainer)
	s.forge = httptest.NewServer(s.lab)
	return token
}

// now is the time of the forge and of the service.
func (s *story) now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// later lets a time pass on the forge and in the service.
func (s *story) later(d time.Duration) {
	if s.tea != nil { // its clock is that of the machine
		time.Sleep(d)
		return
	}
	s.ahead.Add(int64(d))
}

// deliver sends a webhook to the service as the forge would, until the service accepts it.
func (s *story) deliver(event string, payload []byte) {
	if s.drop(event) {
		return
	}
	s.mu.Lock()
	s.count++
	id, hooks := fmt.Sprint("delivery-", s.count), s.hooks
	s.mu.Unlock()
	if hooks != nil {
		_, _ = s.accepted(hooks.URL, id, event, payload)
	}
}

func (s *story) post(base, id, event string, payload []byte) (int, error) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, base+"/hooks/f",
		bytes.NewReader(payload))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(payload)
	switch s.kind {
	case "github":
		r.Header.Set("X-GitHub-Event", event)
		r.Header.Set("X-GitHub-Delivery", id)
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	case "gitea":
		r.Header.Set("X-Gitea-Event", event)
		r.Header.Set("X-Gitea-Delivery", id)
		r.Header.Set("X-Gitea-Signature", hex.EncodeToString(mac.Sum(nil)))
	default:
		r.Header.Set("X-Gitlab-Event", event)
		r.Header.Set("X-Gitlab-Token", secret)
		r.Header.Set("Idempotency-Key", id)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Body.Close()
}

// start starts the service.
func (s *story) start() {
	s.t.Helper()
	service, err := app.NewService(context.Background(), s.options)
	if err != nil {
		s.t.Fatal(err)
	}
	s.prepare(service)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := service.Run(ctx); err != nil {
			s.t.Errorf("run: %v", err)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.service, s.hooks, s.probes = service, httptest.NewServer(service.Handler()),
		httptest.NewServer(service.MetricsHandler())
	s.stop = func() {
		s.hooks.Close()
		s.probes.Close()
		cancel()
		<-done
		if err := service.Close(); err != nil {
			s.t.Errorf("close: %v", err)
		}
	}
}

func (s *story) end() {
	s.mu.Lock()
	stop := s.stop
	s.stop = nil
	s.mu.Unlock()
	if stop != nil {
		stop()
		s.mu.Lock()
		s.hooks = nil
		s.mu.Unlock()
	}
}

func (s *story) run(dir string, args ...string) {
	s.t.Helper()
	if dir != "" {
		args = append([]string{"-C", dir}, args...)
	}
	out, err := exec.CommandContext(context.Background(), "git", args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (s *story) commit(message string) {
	s.t.Helper()
	s.run(filepath.Join(s.dir, "work"), "add", "-A")
	s.run(filepath.Join(s.dir, "work"), "commit", "-q", "--allow-empty", "-m", message)
}

func (s *story) push(branch string) {
	s.t.Helper()
	s.run(filepath.Join(s.dir, "work"), "push", "-q", "origin", "HEAD:"+branch)
}

// branch creates a branch from main with one changed value, and pushes it.
func (s *story) branch(name, currency string) {
	s.t.Helper()
	work := filepath.Join(s.dir, "work")
	s.run(work, "fetch", "-q", "origin")
	s.run(work, "checkout", "-q", "-B", name, "origin/main")
	s.set(currency)
	s.commit("sell in " + currency)
	s.push(name)
}

func (s *story) set(currency string) {
	s.t.Helper()
	file := filepath.Join(s.dir, "work/apps/shop/layers/region/us-east-1/values.yaml")
	if err := os.WriteFile(file, []byte("config:\n  currency: "+currency+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) open(branch, author string) int {
	s.t.Helper()
	if s.hub != nil {
		pr, err := s.hub.OpenPR(repo, fakegithub.PR{Title: "Change " + branch, Author: author, Head: branch})
		if err != nil {
			s.t.Fatal(err)
		}
		return pr.Number
	}
	if s.tea != nil && author == "eve" { // who may open merge requests of a fork only
		s.fork(author, branch)
		return s.tea.open(repo, bedtest.GiteaRequest{Author: author, Source: branch, Fork: true})
	}
	if s.tea != nil {
		return s.tea.open(repo, bedtest.GiteaRequest{Author: author, Source: branch})
	}
	return s.lab.Open(repo, fakegitlab.MergeRequest{Title: "Change " + branch, Author: author, SourceBranch: branch})
}

func (s *story) pushed(number int) {
	s.t.Helper()
	if s.hub != nil {
		if _, err := s.hub.PushPR(repo, number); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	if s.lab != nil { // Gitea notices a push itself
		s.lab.Push(repo, number)
	}
}

func (s *story) merge(number int) {
	s.t.Helper()
	var err error
	switch {
	case s.hub != nil:
		_, err = s.hub.MergePR(repo, number, "mia")
	case s.tea != nil:
		_, err = s.tea.Merge(s.tea.life, repo, number, "mia")
	default:
		_, err = s.lab.Merge(repo, number, "mia")
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) shut(number int) {
	s.t.Helper()
	if s.hub != nil {
		if err := s.hub.ClosePR(repo, number); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	if s.tea != nil {
		s.tea.check(s.tea.CloseRequest(s.tea.life, repo, number))
		return
	}
	s.lab.Close(repo, number)
}

func (s *story) say(number int, login, text string) {
	s.t.Helper()
	if s.hub != nil {
		if _, err := s.hub.CommentPR(repo, number, login, text); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	if s.tea != nil {
		_, err := s.tea.Comment(s.tea.life, repo, number, login, text)
		s.tea.check(err)
		return
	}
	s.lab.Comment(repo, number, login, text)
}

// comments returns the comments of the bot.
func (s *story) comments(number int) []string {
	var out []string
	if s.hub != nil {
		for _, c := range s.hub.Comments(repo, number) {
			if c.Author == s.self {
				out = append(out, c.Body)
			}
		}
		return out
	}
	if s.tea != nil {
		return s.tea.said(repo, number, s.self)
	}
	for _, n := range s.lab.Notes(repo, number) {
		if n.Author == s.self {
			out = append(out, n.Body)
		}
	}
	return out
}

func (s *story) status(sha, context string) string {
	if s.hub != nil {
		state := ""
		for _, one := range s.hub.Statuses(repo, sha) {
			if one.Context == context {
				state = one.State
			}
		}
		return state
	}
	if s.tea != nil {
		state := s.tea.state(repo, sha, context)
		return state
	}
	return s.lab.Statuses(repo, sha)[context]
}

func (s *story) head(number int) string {
	if s.hub != nil {
		pr, err := s.hub.PR(repo, number)
		if err != nil {
			return ""
		}
		return pr.HeadSHA
	}
	if s.tea != nil {
		return s.tea.head(repo, number)
	}
	return s.lab.Head(repo, number)
}

// ref returns a branch's commit in the repository; "" if the branch does not exist.
func (s *story) ref(name string) string {
	out, err := exec.CommandContext(context.Background(), "git", "-C", s.bare(repo),
		"rev-parse", "-q", "--verify", "refs/heads/"+name).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// until waits for a condition.
func (s *story) until(what string, is func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(stage.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if is() {
			return
		}
	}
	s.show()
	s.t.Fatalf("it did not come about that %s", what)
}

// says waits until the bot's only comment contains a text.
func (s *story) says(number int, parts ...string) {
	s.t.Helper()
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("the comment on %d is now\n%s", number, strings.Join(s.comments(number), "\n====\n"))
		}
	})
	s.until(fmt.Sprintf("the comment on %d says %q", number, parts), func() bool {
		all := s.comments(number)
		return len(all) == 1 && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(all[0], p) })
	})
}

// both plays a story on both fakes. For each commit, only the stories in which the forges differ most are played on both,
// and the others on one of them; SLUICE_FORGES=all, as make test-thorough sets it, plays all on both. The giteaStories are
// also played on a real Gitea, with SLUICE_FORGES=gitea, as make test-bed sets it, only there.
func both(t *testing.T, test func(t *testing.T, s *story)) {
	t.Helper()
	kinds := []string{"github", "gitlab"}
	always := []string{"TestStory", "TestChat", "TestPromotionRequest", "TestLostWebhooks", "TestUntrustedContributors"}
	if os.Getenv("SLUICE_FORGES") != "all" && !slices.Contains(always, t.Name()) {
		i := crc32.ChecksumIEEE([]byte(t.Name())) % 2
		kinds = kinds[i : i+1]
	}
	if os.Getenv("SLUICE_FORGES") == "gitea" {
		t.Parallel() // the stories mostly wait for their servers
		kinds = nil
	}
	if slices.Contains(giteaStories, t.Name()) && (kinds == nil || !testing.Short()) {
		kinds = append(kinds, "gitea")
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			if kind == "gitea" {
				bedtest.Need(t, "gitea")
			}
			test(t, newStory(t, kind))
		})
	}
}

// Merge requests are opened, pushed to, closed and merged.
func TestStory(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		s.branch("cad", "CAD")
		n := s.open("cad", "ada")
		s.says(n, "changes on `prod/prod-us-1`", "+  currency: CAD")
		s.until("the status is green", func() bool { return s.status(s.head(n), "sluice") == "success" })
		preview := fmt.Sprintf("sluice/preview/%d", n)
		s.until("there is a preview", func() bool { return s.ref(preview) != "" })
		first := s.ref(preview)

		s.set("MXN")
		s.commit("pesos")
		s.push("cad")
		s.pushed(n)
		s.says(n, "+  currency: MXN", "Since")
		s.until("the preview follows", func() bool { return s.ref(preview) != first })

		s.branch("docs", "USD")
		other := s.open("docs", "ada")
		s.until("an unaffected one is green", func() bool { return s.status(s.head(other), "sluice") == "success" })
		if all := s.comments(other); len(all) != 0 {
			t.Errorf("a comment without need: %s", all)
		}
		s.shut(n)
		s.until("the preview is gone", func() bool { return s.ref(preview) == "" })

		s.branch("gbp", "GBP")
		third := s.open("gbp", "ada")
		s.says(third, "+  currency: GBP")
		before := s.ref("env/dev")
		s.merge(third)
		s.until("dev moved", func() bool { return s.ref("env/dev") != before })
		s.says(third, "dev", "runs it")
		main := s.ref("main")
		s.until("the trunk's commit has a status", func() bool { return s.status(main, "sluice/dev") == "success" })
	})
}

// Everything works although webhooks are lost.
func TestLostWebhooks(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.drop = func(string) bool { return true }
		s.start()
		s.branch("cad", "CAD")
		n := s.open("cad", "ada")
		s.says(n, "+  currency: CAD")
	})
}

// Sluice renders a contributor's head only after somebody with write access trusts it.
func TestUntrustedContributors(t *testing.T) {
	both(t, func(t *testing.T, s *story) {
		t.Helper()
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
		s.branch("patch", "CAD")
		n := s.open("patch", "eve")
		s.until("it waits", func() bool { return s.status(s.head(n), "sluice") == "pending" })
		s.say(n, "eve", "/sluice trust")
		s.says(n, "refused")
		s.trust(n)
		s.says(n, "+  currency: CAD", "is trusted")
		s.set("MXN")
		s.commit("more")
		s.push("patch")
		s.pushed(n)
		s.until("a new head waits again", func() bool { return s.status(s.head(n), "sluice") == "pending" })
		if strings.Contains(strings.Join(s.comments(n), ""), "MXN") {
			t.Error("the new head was rendered")
		}
		if s.ref(fmt.Sprintf("sluice/preview/%d", n)) != "" {
			t.Error("a stranger got a preview")
		}
	})
}

// A delivery is sent a hundred times, and deliveries arrive in another order.
func TestRepeatedDeliveries(t *testing.T) {
	s := newStory(t, "github")
	type sent struct {
		event string
		body  []byte
	}
	var all []sent
	var mu sync.Mutex
	s.drop = func(string) bool { return false }
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	s.hub = fakegithubWith(t, s, func(event string, body []byte) {
		mu.Lock()
		all = append(all, sent{event, body})
		mu.Unlock()
	})
	s.branch("cad", "CAD")
	n := s.open("cad", "ada")
	s.set("MXN")
	s.commit("more")
	s.push("cad")
	s.pushed(n)
	mu.Lock()
	defer mu.Unlock()
	for i := range 100 {
		for j := range slices.Backward(all) {
			if code, err := s.accepted(s.hooks.URL, fmt.Sprint("x", i%3, j), all[j].event, all[j].body); err != nil ||
				code >= 300 {
				t.Fatalf("the status code is %d, the error is %v", code, err)
			}
		}
	}
	s.says(n, "+  currency: MXN")
}

// fakegithubWith returns a fake GitHub that sends its webhooks to another receiver.
func fakegithubWith(t *testing.T, s *story, take func(event string, body []byte)) *fakegithub.Server {
	t.Helper()
	s.drop = func(string) bool { return false }
	s.hub.SetOnEvent(take)
	return s.hub
}
