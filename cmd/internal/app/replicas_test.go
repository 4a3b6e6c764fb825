package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/cmd/internal/cli"
	"github.com/sluice-gitops/sluice/service"
)

// nats starts a NATS server and returns its URL.
func nats(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
		StoreDir: t.TempDir(), NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(stage.Patience) {
		t.Fatal("the NATS server does not start")
	}
	return s.ClientURL()
}

// another runs another service of the same story, with a data folder of its own.
func (s *story) another(name string) *service.Service {
	s.t.Helper()
	o := s.options
	data := filepath.Join(s.dir, "data")
	text := s.config
	s.config = strings.Replace(text, data, data+"-"+name, 1)
	one, err := app.NewService(context.Background(), o)
	s.config = text
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- one.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("replica %s: %v", name, err)
		}
		if err := one.Close(); err != nil {
			s.t.Errorf("replica %s: %v", name, err)
		}
	})
	return one
}

// metric returns the sum of a metric's samples of the story's first service.
func (s *story) metric(name, label string) float64 {
	s.t.Helper()
	s.mu.Lock()
	probes := s.probes
	s.mu.Unlock()
	return metric(s.t, probes.URL, name, label)
}

// metric reads the metrics at an address, and returns the sum of the samples of one metric whose labels contain a text.
func metric(t *testing.T, base, name, label string) float64 {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, m := range regexp.MustCompile(`(?m)^`+name+`(\{.*\})? (\S+)$`).FindAllStringSubmatch(string(body), -1) {
		if n, err := strconv.ParseFloat(m[2], 64); err == nil && strings.Contains(m[1], label) {
			sum += n
		}
	}
	return sum
}

// addClusters pushes n clusters of dev to the trunk. The renderings of all differ.
func (s *story) addClusters(n int) {
	s.t.Helper()
	for i := range n {
		text := fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: many-%d\n  labels: {region: eu-west-1}\nspec:\n  environment: dev\n  class: core\n  vars: {shortName: m%d, lbRange: 10.10.0.0/24}\n", i, i)
		if err := os.WriteFile(filepath.Join(s.dir, "work/clusters", fmt.Sprintf("many-%d.yaml", i)), []byte(text),
			0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	s.commit("many clusters")
	s.push("main")
}

// hydratedByCLI hydrates dev in a clone with the command line, and returns the commit.
func (s *story) hydratedByCLI() string {
	s.t.Helper()
	clone := filepath.Join(s.t.TempDir(), "clone")
	s.run("", "clone", "-q", s.bare(repo), clone)
	if code := cli.Main(s.t.Context(), []string{"hydrate", "--repo", clone, "--env", "dev", "--quiet"}, cli.IO{
		Out: io.Discard, Err: os.Stderr, Env: s.options.Env, Dir: clone,
	}); code != 0 {
		s.t.Fatalf("hydrate: exit status %d", code)
	}
	out, err := exec.CommandContext(s.t.Context(), "git", "-C", clone, "rev-parse", "env/dev").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// Two replicas take turns on a repository. The commit that one of them pushes is the one that a single process makes.
func TestReplicasMakeTheCommitOfOneProcess(t *testing.T) {
	url := nats(t) // ends after those who use it
	s := newStory(t, "github")
	s.config += "jobs: 1\nqueue: {url: \"" + url + "\", replicas: 1}\n"
	s.addClusters(10)
	s.another("second")
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("env/dev") != "" })
	if got, want := s.ref("env/dev"), s.hydratedByCLI(); got != want {
		t.Errorf("env/dev is at %s, the command line makes %s", got, want)
	}
}
