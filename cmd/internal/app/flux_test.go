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

// fluxCluster is a cluster that Flux syncs.
type fluxCluster struct {
	*bedtest.Kubernetes
	s    *story
	name string
}

// startFlux starts an API server with Flux.
func (s *story) startFlux(name string) (*fluxCluster, error) {
	ctx := s.t.Context()
	dir := filepath.Join(s.dir, "clusters", name)
	if err := os.MkdirAll(filepath.Join(dir, "flux"), 0o700); err != nil {
		return nil, err
	}
	k, err := bedtest.StartKubernetes(ctx, dir)
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(k.Close)
	if err := k.AddFluxKinds(ctx); err != nil {
		return nil, err
	}
	flux, err := k.StartFlux(ctx, filepath.Join(dir, "flux"))
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(flux.Close)
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	running.Go(func() {
		if err := k.RunWorkloads(ctx); err != nil {
			s.t.Errorf("the workloads of %s: %v", name, err)
		}
	})
	s.t.Cleanup(func() {
		stop()
		running.Wait()
		if s.t.Failed() {
			for _, log := range []string{"flux", "kustomize-controller", "source-controller", "helm-controller"} {
				data, err := os.ReadFile(filepath.Join(dir, "flux", log+".log"))
				s.t.Logf("%s of %s: %v\n%s", log, name, err, data[max(0, len(data)-6000):])
			}
		}
	})
	return &fluxCluster{Kubernetes: k, s: s, name: name}, nil
}

// statusSecret creates the Secret with the token that writes commit statuses.
func (c *fluxCluster) statusSecret(token string) error {
	_, err := c.Kubectl(c.s.t.Context(), "", "-n", bedtest.FluxNamespace, "create", "secret", "generic", "sluice-status",
		"--from-literal=token="+token)
	return err
}

// bootstrap returns what `sluice bootstrap flux` prints for the cluster.
func (c *fluxCluster) bootstrap(args ...string) string {
	return c.s.sluice(append([]string{
		"bootstrap", "flux", "--cluster", c.name, "--url", c.s.tea.URL + "/" + repo + ".git", "--forge", "gitea",
		"--secret", "", "--interval", "1s", "--timeout", "1m",
	}, args...)...)
}

// adopt applies what docs/flux.md says for the cluster.
func (c *fluxCluster) adopt(token string) error {
	if err := c.statusSecret(token); err != nil {
		return err
	}
	if _, err := c.Kubectl(c.s.t.Context(), c.bootstrap("--part", "namespaces"), "create", "-f", "-"); err != nil {
		return err
	}
	_, err := c.Kubectl(c.s.t.Context(), c.bootstrap(), "apply", "--server-side", "--field-manager", "sluice", "-f", "-")
	return err
}

// get returns a part of an object; "" if it does not exist.
func (c *fluxCluster) get(namespace, object, path string) string {
	out, err := c.Kubectl(c.s.t.Context(), "", "-n", namespace, "get", object, "--ignore-not-found", "-o", "jsonpath="+path)
	if err != nil {
		c.s.t.Logf("%s: %v", c.name, err)
	}
	return out
}

// Flux applies the branches of two clusters to their API servers. What it reports lets the next wave go or stops it, and
// the rollback of the canary reaches the cluster.
func TestFluxAppliesWaves(t *testing.T) {
	for _, part := range []string{"gitea", "kubernetes", "flux"} {
		bedtest.Need(t, part)
	}
	t.Parallel()
	t.Run("gitea", func(t *testing.T) {
		s := newStory(t, "gitea")
		work := filepath.Join(s.dir, "work")
		writeAll(s, work, map[string]string{"sluice.yaml": inWaves})
		s.run(work, "rm", "-q", "clusters/staging-1.yaml", "clusters/staging-edge-1.yaml", "clusters/dev-edge-1.yaml",
			"clusters/prod-edge-1.yaml")
		s.commit("two clusters in waves")
		s.push("main")
		_, err := s.tea.AddUser(t.Context(), "flux")
		s.tea.check(err)
		s.tea.check(s.tea.Grant(t.Context(), repo, "flux", "write"))
		token, err := s.tea.Token(t.Context(), "flux")
		s.tea.check(err)
		clusters := make([]*fluxCluster, 2)
		for i, name := range []string{"prod-eu-1", "prod-us-1"} {
			clusters[i], err = s.startFlux(name)
			s.tea.check(err)
			s.tea.check(clusters[i].adopt(token))
		}
		canary, rest := clusters[0], clusters[1]
		greeting := func(c *fluxCluster, text string) bool {
			return strings.Contains(c.get("shop", "configmap/shop", "{.data}"), text)
		}
		image := func(c *fluxCluster) string {
			return c.get("shop", "deployment/shop", "{.spec.template.spec.containers[0].image}")
		}
		s.start()
		s.until("dev is hydrated", func() bool { return s.ref("cluster/dev-1") != "" })
		s.reports("cluster/dev-1", "success") // no Flux runs there

		first := s.greet("first step")
		s.says(first, "first step")
		s.merge(first)
		s.until("dev has it", func() bool { return s.holds("cluster/dev-1", "first step") })
		s.reports("cluster/dev-1", "success")
		s.until("the canary runs the first step", func() bool { return greeting(canary, "first step") })
		s.until("and the rest, because Flux says so", func() bool { return greeting(rest, "first step") })
		for _, app := range []string{"baseline", "gateway", "monitor", "shop"} {
			name := "kustomization/" + app + "/prod-eu-1"
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
		bad := s.ref("cluster/prod-eu-1")
		s.until("Flux says that it does not run", func() bool { return s.status(bad, "kustomization/shop/prod-eu-1") == "failure" })
		s.until("the canary runs the good version again", func() bool { return image(canary) == good })
		s.until("its status is green", func() bool {
			now := s.ref("cluster/prod-eu-1")
			return now != bad && s.status(now, "kustomization/shop/prod-eu-1") == "success"
		})
		if got := image(rest); got != good {
			t.Errorf("the rest runs %s, want %s", got, good)
		}
		s.says(second, "rolled back")
	})
}
