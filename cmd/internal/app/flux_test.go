package app_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// startCluster starts an API server with a node, and then a sync tool. tool gets the folder of its files and logs.
func (s *story) startCluster(
	name string, tool func(ctx context.Context, k *bedtest.Kubernetes, dir string) (syncer, error),
) *syncedCluster {
	s.t.Helper()
	ctx := context.WithoutCancel(s.t.Context())
	dir := filepath.Join(s.dir, "clusters", name)
	files := filepath.Join(dir, "sync")
	s.tea.check(os.MkdirAll(files, 0o700))
	k, err := bedtest.StartKubernetes(ctx, dir)
	s.tea.check(err)
	s.t.Cleanup(k.Close)
	nodes, err := k.RunNodes(ctx, files)
	s.tea.check(err)
	s.t.Cleanup(nodes.Close)
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
	for _, part := range append([]string{"gitea", "kubernetes", "kwok"}, parts...) {
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
		s.waves("kustomization", s.bootstrapped)
	})
}

// bootstrapped starts an API server with Flux and with what `sluice bootstrap` prints. token writes commit statuses.
func (s *story) bootstrapped(name, token string) *syncedCluster {
	s.t.Helper()
	c := s.startFlux(name)
	c.statusSecret(token)
	c.do(c.bootstrapFlux("--part", "namespaces"), "create", "-f", "-")
	c.do(c.bootstrapFlux(), "apply", "--server-side", "--field-manager", "sluice", "-f", "-")
	return c
}

// A rollout continues after its service was killed and after the forge with its Git server was away, each between the
// first wave and the second.
func TestFluxAfterOutages(t *testing.T) {
	needs(t, []string{"flux"}, func(t *testing.T, s *story) {
		t.Helper()
		canary, rest := s.twoClusters("kustomization", s.bootstrapped)
		p := s.serve(nil, "")
		s.mu.Lock()
		s.hooks = &httptest.Server{URL: "http://" + p.listen} // webhooks go to the process
		s.mu.Unlock()
		s.until("dev is hydrated", func() bool { return s.ref("cluster/dev-1") != "" })
		s.devIsGreen("kustomization")
		reaches := func(text string) {
			t.Helper()
			s.until("the canary runs the "+text, func() bool { return canary.greets(text) })
			s.until("the rest runs the "+text, func() bool { return rest.greets(text) })
			if tip := s.ref("cluster/prod-eu-1"); s.status(tip, "kustomization/shop/prod-eu-1") != "success" {
				t.Errorf("the rest has the %s before the canary is green", text)
			}
		}
		promoted := func(text string) {
			t.Helper()
			s.merge(s.greet(text))
			s.until("dev has the "+text, func() bool { return s.holds("cluster/dev-1", text) })
			s.devIsGreen("kustomization")
			s.until("the canary's branch has the "+text, func() bool { return s.holds("cluster/prod-eu-1", text) })
			if s.holds("cluster/prod-us-1", text) {
				t.Fatal("the rest has it at once")
			}
		}

		promoted("first step")
		if err := p.command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.done
		s.until("the canary is green without the service", func() bool {
			return s.status(s.ref("cluster/prod-eu-1"), "kustomization/shop/prod-eu-1") == "success"
		})
		if s.holds("cluster/prod-us-1", "first step") {
			t.Fatal("the rest moved without the service")
		}
		p.start()
		reaches("first step")

		promoted("second step")
		s.tea.Close()
		time.Sleep(15 * time.Second) // the service and Flux ask in vain, several times
		s.tea.check(s.tea.Resume(s.tea.life))
		reaches("second step")
	})
}

// greets reports whether the cluster runs the app shop with a text.
func (c *syncedCluster) greets(text string) bool {
	return strings.Contains(c.get("shop", "configmap/shop", "{.data}"), text)
}

// devIsGreen posts the statuses of dev-1, which nothing syncs.
func (s *story) devIsGreen(prefix string) {
	s.t.Helper()
	for _, app := range []string{"baseline", "gateway", "monitor", "shop"} {
		s.posts(s.ref("cluster/dev-1"), prefix+"/"+app+"/dev-1", "success")
	}
}

// twoClusters makes the fleet one of dev-1 and two clusters that a sync tool syncs in waves, and starts these. The tool
// writes the commit statuses PREFIX/APP/CLUSTER.
func (s *story) twoClusters(prefix string, start func(name, token string) *syncedCluster) (canary, rest *syncedCluster) {
	s.t.Helper()
	work := filepath.Join(s.dir, "work")
	writeAll(s, work, map[string]string{"sluice.yaml": strings.ReplaceAll(inWaves, "kustomization/", prefix+"/")})
	s.run(work, "rm", "-q", "clusters/staging-1.yaml", "clusters/staging-edge-1.yaml", "clusters/dev-edge-1.yaml",
		"clusters/prod-edge-1.yaml")
	s.commit("two clusters in waves")
	s.push("main")
	token := s.statusToken()
	return start("prod-eu-1", token), start("prod-us-1", token)
}

// waves is the story of two clusters that a sync tool syncs.
func (s *story) waves(prefix string, start func(name, token string) *syncedCluster) {
	s.t.Helper()
	work := filepath.Join(s.dir, "work")
	canary, rest := s.twoClusters(prefix, start)
	image := func(c *syncedCluster) string {
		return c.get("shop", "deployment/shop", "{.spec.template.spec.containers[0].image}")
	}
	s.start()
	s.until("dev is hydrated", func() bool { return s.ref("cluster/dev-1") != "" })
	s.devIsGreen(prefix)

	first := s.greet("first step")
	s.says(first, "first step")
	s.merge(first)
	s.until("dev has it", func() bool { return s.holds("cluster/dev-1", "first step") })
	s.devIsGreen(prefix)
	s.until("the canary runs the first step", func() bool { return canary.greets("first step") })
	s.until("and the rest, because the canary's statuses are green", func() bool { return rest.greets("first step") })
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
