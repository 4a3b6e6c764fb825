package app_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
)

// process is `sluice serve` as a separate process.
type process struct {
	*story
	command                *exec.Cmd
	listen, metrics, debug string
	log                    lockedBuffer
	done                   chan error
	file                   string
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := stage.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// serve starts the process with the story's configuration, preceded by additional lines.
func (s *story) serve(secrets map[string]string, more string) *process {
	s.t.Helper()
	p := &process{
		story: s, listen: freeAddress(s.t), metrics: freeAddress(s.t), debug: freeAddress(s.t),
		done: make(chan error, 1), file: filepath.Join(s.dir, "config.yaml"),
	}
	for name, value := range secrets {
		p.write(name, value)
	}
	s.config = fmt.Sprintf("listen: %s\nmetrics: %s\ndebug: %s\n%s", p.listen, p.metrics, p.debug, more) + s.config
	p.write("config.yaml", s.config)
	s.t.Cleanup(func() {
		_ = p.command.Process.Kill() // it may have ended
		if s.t.Failed() {
			s.t.Log(p.log.String())
		}
	})
	p.start()
	return p
}

// start starts the process, also after its end, and waits until it is ready.
func (p *process) start() {
	p.t.Helper()
	p.command = exec.CommandContext(context.Background(), os.Args[0], "serve", "--config", p.file, "--log-level",
		"debug")
	p.command.Env = append(os.Environ(), "HOME="+p.dir, "SLUICE_OFFLINE=1", "SLUICE_CACHE_DIR="+
		filepath.Join(p.dir, "cache"))
	for _, name := range []string{"TOKEN", "SECRET", "FINGERPRINT"} {
		p.command.Env = append(p.command.Env, name+"="+p.options.Env.Getenv(name))
	}
	p.command.Stderr = &p.log
	if err := p.command.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func(c *exec.Cmd) { p.done <- c.Wait() }(p.command)
	p.until("it is ready", func() bool { code, _ := p.get(p.listen, "/readyz"); return code == http.StatusOK })
}

func (p *process) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) get(address, path string) (int, string) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, ""
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, ""
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, string(body)
}

// hook sends a GitHub webhook with a given secret.
func (p *process) hook(key, id, event, payload string) int {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://"+p.listen+"/hooks/f",
		strings.NewReader(payload))
	if err != nil {
		p.t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(payload))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-GitHub-Delivery", id)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// hup makes the process read the configuration again, and waits until the log reports it.
func (p *process) hup(says string) {
	p.t.Helper()
	before := strings.Count(p.log.String(), says)
	if err := p.command.Process.Signal(syscall.SIGHUP); err != nil {
		p.t.Fatal(err)
	}
	p.until("the log says "+says, func() bool { return strings.Count(p.log.String(), says) > before })
}

const (
	oldSecret = "the secret that is rotated away"
	newSecret = "the secret that is rotated in, at last"
)

// Repositories and secrets change while the service runs. An invalid file changes nothing. The log names settings
// that need a restart.
func TestReload(t *testing.T) {
	s := newStory(t, "github")
	s.config = strings.Replace(s.config, "secrets: [{env: SECRET}]",
		fmt.Sprintf("secrets: [{file: %q}]", filepath.Join(s.dir, "hook")), 1)
	bare := s.other("acme/second")
	s.run(filepath.Join(s.dir, "work"), "push", "-q", bare, "HEAD:main")
	p := s.serve(map[string]string{"hook": oldSecret}, "")
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	if a, b := p.hook(oldSecret, "h-1", "ping", "{}"), p.hook(newSecret, "h-2", "ping", "{}"); a != http.StatusOK ||
		b != http.StatusUnauthorized {
		t.Errorf("before: %d, %d", a, b)
	}
	if got := s.heads(bare); got != "main" {
		t.Errorf("what nobody named has %s", got)
	}
	p.write("hook", newSecret)
	p.write("config.yaml", strings.NewReplacer("repositories: ["+repo+"]", "repositories: ["+repo+", acme/second]",
		"sweep: 5s", "sweep: 6s", "drain: 5s", "drain: 7s").Replace(s.config))
	p.hup("the configuration was read again")
	if !strings.Contains(p.log.String(), `settings="sweep, drain"`) {
		t.Error("the log does not name the settings that need a restart")
	}
	if a, b := p.hook(oldSecret, "h-3", "ping", "{}"), p.hook(newSecret, "h-4", "ping",
		"{}"); a != http.StatusUnauthorized || b != http.StatusOK {
		t.Errorf("after: %d, %d", a, b)
	}
	s.until("the new repository is hydrated", func() bool { return strings.Contains(s.heads(bare), "env/dev") })
	for _, broken := range []string{
		"forges: [", s.config + "nonsense: 1\n",
		strings.Replace(s.config, "repositories", "repository", 1),
	} {
		p.write("config.yaml", broken)
		p.hup("the service keeps the old one")
	}
	p.write("hook", "")
	p.write("config.yaml", s.config)
	p.hup("the service keeps the old one")
	if code := p.hook(newSecret, "h-5", "ping", "{}"); code != http.StatusOK {
		t.Errorf("after a broken file: %d", code)
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-p.done; err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// Only the debug address serves profiles, and only the metrics address serves metrics. The log has the ids to search
// for, and no secret.
func TestAddressesAndLog(t *testing.T) {
	s := newStory(t, "github")
	s.config = strings.Replace(s.config, "secrets: [{env: SECRET}]",
		fmt.Sprintf("secrets: [{file: %q}]", filepath.Join(s.dir, "hook")), 1)
	s.reload("sweep: 5s", "sweep: 1h") // otherwise a hint of the sweep would replace the webhook's
	p := s.serve(map[string]string{"hook": oldSecret}, "")
	s.until("dev is hydrated, and the look has ended", func() bool {
		return s.ref("env/dev") != "" && metric(t, "http://"+p.metrics, "sluice_task_seconds_count", `kind="trunk"`) > 0
	})
	const profile = "/debug/pprof/goroutine?debug=1"
	for address, want := range map[string]bool{p.listen: false, p.metrics: false, p.debug: true} {
		if _, body := p.get(address, profile); strings.Contains(body, "goroutine profile:") != want {
			t.Errorf("%s answers %.200q", address, body)
		}
	}
	for address, want := range map[string]bool{p.listen: false, p.metrics: true, p.debug: false} {
		if _, body := p.get(address, "/metrics"); strings.Contains(body, "sluice_queue_depth") != want {
			t.Errorf("%s answers %.200q", address, body)
		}
	}
	s.branch("cad", "CAD")
	n := s.open("cad", "ada")
	s.hub.Fail(fakegithub.Fault{Kind: fakegithub.BadGateway, Times: 2})
	if code := p.hook(oldSecret, "delivery-of-the-review", "pull_request",
		fmt.Sprintf(`{"action":"opened","repository":{"full_name":%q},"pull_request":{"number":%d}}`, repo,
			n)); code != http.StatusAccepted {
		t.Fatalf("the status code is %d", code)
	}
	if code := p.hook(newSecret, "delivery-of-nobody", "push",
		`{"token":"what-nobody-may-log"}`); code != http.StatusUnauthorized {
		t.Fatalf("the status code is %d", code)
	}
	s.says(n, "CAD")
	s.until("the log has it", func() bool { return strings.Contains(p.log.String(), "msg=reviewed") })
	log := p.log.String()
	found := false
	for line := range strings.Lines(log) {
		found = found || strings.Contains(line, "delivery=delivery-of-the-review") &&
			strings.Contains(line, fmt.Sprintf("merge_request=%d", n)) && strings.Contains(line, "f:"+repo)
	}
	if !found {
		t.Error("no line names repository, delivery and merge request together")
	}
	s.until("a refused request is logged with the forge's id of it", func() bool {
		for line := range strings.Lines(p.log.String()) {
			if strings.Contains(line, "request to the forge failed") && strings.Contains(line, "status=502") &&
				!strings.Contains(line, `request=""`) {
				return true
			}
		}
		return false
	})
	for _, secret := range []string{
		s.options.Env.Getenv("TOKEN"), oldSecret, "what-nobody-may-log", "Bearer ",
		"x-access-token:",
	} {
		if strings.Contains(p.log.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}
