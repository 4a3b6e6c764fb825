package app_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gitops/sluice/bed/bedtest"
)

// inWaves is a sluice.yaml whose prod follows dev in waves that wait for Flux.
const inWaves = `apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: harbour}
spec:
  trunk: main
  layers: [class, environment, region, cluster]
  environments:
    - name: dev
    - name: prod
      after: [dev]
      promotion:
        mode: auto
        health: {commitStatuses: ["kustomization/${app}/*"]}
        onFailure: rollback
        waves:
          - {name: canary, clusters: {matchLabels: {ring: canary}}}
          - {name: rest}
`

// sluice runs the command line in the working copy and returns what it prints.
func (s *story) sluice(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), os.Args[0], args...)
	cmd.Dir = filepath.Join(s.dir, "work")
	cmd.Env = append(os.Environ(), commandLine+"=1", "HOME="+s.dir, "SLUICE_OFFLINE=1",
		"SLUICE_CACHE_DIR="+filepath.Join(s.dir, "cache"))
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("sluice %s: %v: %s\n%s", strings.Join(args, " "), err, wrong.String(), out)
	}
	return string(out)
}

// syncedCluster is a cluster that Flux or Argo CD syncs.
type syncedCluster struct {
	*bedtest.Kubernetes
	s    *story
	name string
}

// syncer is a sync tool that runs on a cluster.
type syncer interface{ Close() }

// startCluster starts an API server, whose workloads run, and then a sync tool. tool gets the folder of its files and logs.
func (s *story) startCluster(
	name string, tool func(ctx context.Context, k *bedtest.Kubernetes, dir string) (syncer, error),
) *syncedCluster {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	dir := filepath.Join(s.dir, "clusters", name)
	files := filepath.Join(dir, "sync")
	s.tea.check(os.MkdirAll(files, 0o700))
	k, err := bedtest.StartKubernetes(ctx, dir)
	s.tea.check(err)
	s.t.Cleanup(k.Close)
	var running sync.WaitGroup
	running.Go(func() {
		if err := k.RunWorkloads(ctx); err != nil {
			s.t.Errorf("the workloads of %s: %v", name, err)
		}
	})
	s.t.Cleanup(func() {
		stop()
		running.Wait()
	})
	t, err := tool(ctx, k, files)
	s.tea.check(err)
	s.t.Cleanup(func() {
		t.Close()
		logs, err := filepath.Glob(filepath.Join(files, "*.log"))
		if !s.t.Failed() || err != nil {
			return
		}
		for _, log := range logs {
			data, err := os.ReadFile(log)
			s.t.Logf("%s of %s: %v\n%s", filepath.Base(log), name, err, data[max(0, len(data)-6000):])
		}
	})
	return &syncedCluster{Kubernetes: k, s: s, name: name}
}

// startFlux starts an API server with Flux.
func (s *story) startFlux(name string) *syncedCluster {
	s.t.Helper()
	return s.startCluster(name, func(ctx context.Context, k *bedtest.Kubernetes, dir string) (syncer, error) {
		if err := k.AddFluxKinds(ctx); err != nil {
			return nil, err
		}
		return k.StartFlux(ctx, dir)
	})
}

// do runs kubectl.
func (c *syncedCluster) do(input string, args ...string) string {
	c.s.t.Helper()
	out, err := c.Kubectl(c.s.t.Context(), input, args...)
	c.s.tea.check(err)
	return out
}

// statusSecret creates the Secret with the token that writes commit statuses.
func (c *syncedCluster) statusSecret(token string) {
	c.s.t.Helper()
	c.do("", "-n", bedtest.FluxNamespace, "create", "secret", "generic", "sluice-status", "--from-literal=token="+token)
}

// bootstrap returns what `sluice bootstrap` prints for the cluster.
func (c *syncedCluster) bootstrap(tool string, args ...string) string {
	c.s.t.Helper()
	return c.s.sluice(append([]string{
		"bootstrap", tool, "--cluster", c.name, "--url", c.s.tea.URL + "/" + repo + ".git", "--forge", "gitea",
	}, args...)...)
}

// bootstrapFlux returns what `sluice bootstrap flux` prints for the cluster.
func (c *syncedCluster) bootstrapFlux(args ...string) string {
	c.s.t.Helper()
	return c.bootstrap("flux", append([]string{"--secret", "", "--interval", "1s", "--timeout", "1m"}, args...)...)
}

// statusToken returns a token of a user who may write commit statuses.
func (s *story) statusToken() string {
	s.t.Helper()
	const login = "statuses"
	_, err := s.tea.AddUser(s.t.Context(), login)
	s.tea.check(err)
	s.tea.check(s.tea.Grant(s.t.Context(), repo, login, "write"))
	token, err := s.tea.Token(s.t.Context(), login)
	s.tea.check(err)
	return token
}

// get returns a part of an object; "" if it does not exist.
func (c *syncedCluster) get(namespace, object, path string) string {
	out, err := c.Kubectl(c.s.t.Context(), "", "-n", namespace, "get", object, "--ignore-not-found", "-o", "jsonpath="+path)
	if err != nil {
		c.s.t.Logf("%s: %v", c.name, err)
	}
	return out
}

// needs skips a test unless parts of the bed are there, and plays it on a Gitea.
func needs(t *testing.T, parts []string, test func(t *testing.T, s *story)) {
	t.Helper()
	for _, part := range append([]string{"gitea", "kubernetes"}, parts...) {
		bedtest.Need(t, part)
	}
	t.Parallel()
	t.Run("gitea", func(t *testing.T) { test(t, newStory(t, "gitea")) })
}

// Flux applies the branches of two clusters to their API servers. What it reports lets the next wave go or stops it, and
// the rollback of the canary reaches the cluster.
func TestFluxAppliesWaves(t *testing.T) {
	needs(t, []string{"flux"}, func(t *testing.T, s *story) {
		t.Helper()
		s.waves("kustomization", func(name, token string) *syncedCluster {
			c := s.startFlux(name)
			c.statusSecret(token)
			c.do(c.bootstrapFlux("--part", "namespaces"), "create", "-f", "-")
			c.do(c.bootstrapFlux(), "apply", "--server-side", "--field-manager", "sluice", "-f", "-")
			return c
		})
	})
}

// waves is the story of two clusters that a sync tool syncs, which writes the commit statuses PREFIX/APP/CLUSTER.
func (s *story) waves(prefix string, start func(name, token string) *syncedCluster) {
	s.t.Helper()
	work := filepath.Join(s.dir, "work")
	writeAll(s, work, map[string]string{"sluice.yaml": strings.ReplaceAll(inWaves, "kustomization/", prefix+"/")})
	s.run(work, "rm", "-q", "clusters/staging-1.yaml", "clusters/staging-edge-1.yaml", "clusters/dev-edge-1.yaml",
		"clusters/prod-edge-1.yaml")
	s.commit("two clusters in waves")
	s.push("main")
	token := s.statusToken()
	canary, rest := start("prod-eu-1", token), start("prod-us-1", token)
	greeting := func(c *syncedCluster, text string) bool {
		return strings.Contains(c.get("shop", "configmap/shop", "{.data}"), text)
	}
	image := func(c *syncedCluster) string {
		return c.get("shop", "deployment/shop", "{.spec.template.spec.containers[0].image}")
	}
	dev := func() { // nothing syncs it
		for _, app := range []string{"baseline", "gateway", "monitor", "shop"} {
			s.posts(s.ref("cluster/dev-1"), prefix+"/"+app+"/dev-1", "success")
		}
	}
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("cluster/dev-1") != "" })
	dev()

	first := s.greet("first step")
	s.says(first, "first step")
	s.merge(first)
	s.until("dev has it", func() bool { return s.holds("cluster/dev-1", "first step") })
	dev()
	s.until("the canary runs the first step", func() bool { return greeting(canary, "first step") })
	s.until("and the rest, because the canary's statuses are green", func() bool { return greeting(rest, "first step") })
	for _, app := range []string{"baseline", "gateway", "monitor", "shop"} {
		name := prefix + "/" + app + "/prod-eu-1"
		s.until(name+" is green", func() bool { return s.status(s.ref("cluster/prod-eu-1"), name) == "success" })
	}
	s.says(first, "prod", "runs it")
	good := image(rest)

	s.run(work, "fetch", "-q", "origin")
	s.run(work, "checkout", "-q", "-B", "bad", "origin/main")
	file := filepath.Join(work, "apps/shop/layers/environment/prod/values.yaml")
	data, err := os.ReadFile(file)
	s.tea.check(err)
	s.tea.check(os.WriteFile(file, fmt.Appendf(data, "image: {tag: broken}\n"), 0o600))
	s.commit("a version that does not start")
	s.push("bad")
	second := s.open("bad", "ada")
	s.says(second, "broken")
	s.merge(second)
	s.until("the canary has the bad version", func() bool { return strings.HasSuffix(image(canary), ":broken") })
	shop, bad := prefix+"/shop/prod-eu-1", s.ref("cluster/prod-eu-1")
	s.until("its status is red", func() bool { return s.status(bad, shop) == "failure" })
	s.until("the canary runs the good version again", func() bool { return image(canary) == good })
	s.until("its status is green", func() bool {
		now := s.ref("cluster/prod-eu-1")
		return now != bad && s.status(now, shop) == "success"
	})
	if got := image(rest); got != good {
		s.t.Errorf("the rest runs %s, want %s", got, good)
	}
	s.says(second, "rolled back")
}
