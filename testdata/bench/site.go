package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/fakegithub"
)

const (
	hookSecret = "a secret of the benchmark, long enough"
	connexions = 50
)

// site is a GitHub with real Git over HTTP in this process, and `sluice serve` as a separate process.
type site struct {
	b        *bench
	dir      string
	token    string
	hub      *fakegithub.Server
	api, git *httptest.Server
	client   *http.Client
	seen     func(method, path string) // called for each request that the API or Git answered; may be nil
	mu       sync.Mutex
	sent     time.Time // when the last webhook was sent
	count    atomic.Int64
	server   *exec.Cmd
	listen   string
	debug    string
	metrics  string
	traffic  struct{ api, git meter }
	pause    time.Duration // between two looks at the metrics; 0 is 10 ms
}

func (b *bench) site(name string) (*site, error) {
	s := &site{b: b, dir: filepath.Join(b.dir, name),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connexions}}}
	backend, err := exec.CommandContext(b.ctx, "git", "--exec-path").Output()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.root(), 0o755); err != nil {
		return nil, err
	}
	// figures are compared with the real one
	s.hub = fakegithub.New(fakegithub.Options{OnEvent: s.deliver, Clock: time.Now, Quota: 1 << 30})
	_, s.token = s.hub.AddUser("sluice-bot")
	s.hub.AddUser("ada")
	s.git = httptest.NewServer(watched(s, &s.traffic.git, &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(backend)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + s.root(), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x",
			"GIT_CONFIG_GLOBAL=/dev/null"},
	}))
	s.api = httptest.NewServer(watched(s, &s.traffic.api, s.hub))
	return s, nil
}

// watched counts the bytes of a handler, and shows each request that it answered to seen.
func watched(s *site, m *meter, h http.Handler) http.Handler {
	return m.count(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		s.mu.Lock()
		seen := s.seen
		s.mu.Unlock()
		if seen != nil {
			seen(r.Method, r.URL.Path)
		}
	}))
}

func (s *site) root() string { return filepath.Join(s.dir, "git") }

func (s *site) bare(repo string) string { return filepath.Join(s.root(), repo+".git") }

func (s *site) close() {
	_ = s.stop(os.Interrupt)
	s.api.Close()
	s.git.Close()
}

// look sets the function that is called for each request that the API or Git answered.
func (s *site) look(seen func(method, path string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = seen
}

// add creates a repository from a folder.
func (s *site) add(repo, src string) error {
	bare := s.bare(repo)
	for _, args := range [][]string{
		{"init", "-q", "--bare", "-b", "main", bare},
		{"-C", bare, "config", "http.receivepack", "true"},
		{"-C", bare, "config", "uploadpack.allowAnySHA1InWant", "true"},
		{"-C", src, "init", "-q", "-b", "main"},
		{"-C", src, "remote", "add", "origin", bare},
	} {
		if _, err := s.b.command("", "git", args...); err != nil {
			return err
		}
	}
	if err := s.b.save(src, "start"); err != nil {
		return err
	}
	s.adopt(repo)
	return nil
}

func (s *site) adopt(repo string) {
	s.hub.AddRepository(repo, s.bare(repo))
	for _, pattern := range []string{"env/*", "cluster/*", "sluice/*"} {
		s.hub.AddRules(repo, pattern)
	}
	s.hub.Grant(repo, "sluice-bot", "maintain")
	s.hub.Grant(repo, "ada", "maintain")
}

// start starts the service, and waits until its queue accepts hints.
func (s *site) start(every time.Duration, repositories ...string) error {
	listen, err := freePort()
	if err != nil {
		return err
	}
	debug, err := freePort()
	if err != nil {
		return err
	}
	metrics, err := freePort()
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.listen, s.debug, s.metrics = listen, debug, metrics
	s.mu.Unlock()
	file := filepath.Join(s.dir, "config.yaml")
	text := fmt.Sprintf("listen: %s\ndebug: %s\nmetrics: %s\ndata: %s\nsweep: %s\npromote: %s\ndrain: 5s\nfingerprint: {env: BENCH_SECRET}\nforges:\n"+
		"  - {name: f, kind: github, api: %s, git: %s, token: {env: BENCH_TOKEN}, secrets: [{env: BENCH_SECRET}], repositories: [%s]}\n",
		listen, debug, metrics, filepath.Join(s.dir, "data"), every, every, s.api.URL, s.git.URL,
		strings.Join(repositories, ", "))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "serve.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	s.server = exec.CommandContext(s.b.ctx, s.b.sluice, "serve", "--config", file)
	s.server.Env = append(os.Environ(), "BENCH_TOKEN="+s.token, "BENCH_SECRET="+hookSecret, "SLUICE_OFFLINE=1",
		"GIT_CONFIG_GLOBAL=/dev/null")
	s.server.Stdout, s.server.Stderr = log, log
	if err := s.server.Start(); err != nil {
		return err
	}
	return s.until("the service is ready", time.Minute, func() bool {
		_, err := s.get("http://" + listen + "/readyz")
		return err == nil
	})
}

// stop ends the service with a signal.
func (s *site) stop(with os.Signal) error {
	if s.server == nil {
		return nil
	}
	server := s.server
	s.server = nil
	if err := server.Process.Signal(with); err != nil {
		return err
	}
	_ = server.Wait() // it was killed, or drained
	return nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// until waits for a condition.
func (s *site) until(what string, most time.Duration, is func() bool) error {
	for deadline := time.Now().Add(most); time.Now().Before(deadline); time.Sleep(cmp.Or(s.pause,
		10*time.Millisecond)) {
		if is() {
			return nil
		}
	}
	tail, _ := os.ReadFile(filepath.Join(s.dir, "serve.log"))
	return fmt.Errorf("not within %s: %s; the service's log ends with\n%s", most, what, tail[max(0, len(tail)-3000):])
}

func (s *site) get(address string) ([]byte, error) {
	resp, err := s.client.Get(address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return body, err
}

// deliver sends a webhook as GitHub does. A webhook that is not accepted is lost, and shows in the figures.
func (s *site) deliver(event string, payload []byte) {
	s.mu.Lock()
	listen := s.listen
	s.sent = time.Now()
	s.mu.Unlock()
	if listen == "" {
		return
	}
	r, err := s.request(listen, event, fmt.Sprint("delivery-", s.count.Add(1)), payload)
	if err != nil {
		return
	}
	_, _ = s.post(r)
}

func (s *site) request(listen, event, id string, payload []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(s.b.ctx, http.MethodPost, "http://"+listen+"/hooks/f",
		bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write(payload)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-GitHub-Delivery", id)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	return r, nil
}

func (s *site) post(r *http.Request) (int, error) {
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Body.Close()
}

// lastSent returns the time of the last webhook.
func (s *site) lastSent() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// metric returns the sum of the samples of a metric whose labels contain all parts.
func (s *site) metric(name string, parts ...string) (float64, error) {
	body, err := s.get("http://" + s.metrics + "/metrics")
	if err != nil {
		return 0, err
	}
	var sum float64
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		head, value, _ := strings.Cut(lines.Text(), " ")
		if labels, ok := strings.CutPrefix(head, name); ok && (labels == "" || labels[0] == '{') && all(labels, parts) {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum += v
		}
	}
	return sum, nil
}

func all(text string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// idle waits until the queue is empty.
func (s *site) idle(most time.Duration) error {
	return s.until("all is done", most, func() bool {
		depth, err := s.metric("sluice_queue_depth")
		return err == nil && depth == 0
	})
}
