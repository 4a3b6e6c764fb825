package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bed/bedtest"
)

// synced is the cluster that runs: a merge reaches it at once.
const synced = "dev-1"

// cluster is an API server with a simulated node and Flux.
type cluster struct {
	*bedtest.Kubernetes
	parts []interface{ Close() }
}

// Close stops everything.
func (c *cluster) Close() {
	for _, p := range slices.Backward(c.parts) {
		p.Close()
	}
}

// command is how a person calls kubectl.
func (c *cluster) command() string {
	return fmt.Sprintf("KUBECONFIG=%s %s", filepath.Join(c.Dir, "kubeconfig"), strings.Join(c.KubectlCommand(), " "))
}

// startCluster starts the cluster, and applies what `sluice bootstrap flux` prints for it.
func (u *up) startCluster(ctx context.Context, binary string) (_ *cluster, err error) {
	c := &cluster{}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	dir := filepath.Join(u.dir, "cluster")
	files := filepath.Join(dir, "sync")
	if err := os.MkdirAll(files, 0o700); err != nil {
		return nil, err
	}
	if c.Kubernetes, err = bedtest.StartKubernetes(ctx, dir); err != nil {
		return nil, err
	}
	c.parts = append(c.parts, c.Kubernetes)
	nodes, err := c.RunNodes(ctx, files)
	if err != nil {
		return nil, err
	}
	c.parts = append(c.parts, nodes)
	if err := c.AddFluxKinds(ctx); err != nil {
		return nil, err
	}
	flux, err := c.StartFlux(ctx, files)
	if err != nil {
		return nil, err
	}
	c.parts = append(c.parts, flux)
	token, err := u.statusToken(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := c.Kubectl(ctx, "", "-n", bedtest.FluxNamespace, "create", "secret", "generic", "sluice-status",
		"--from-literal=token="+token); err != nil {
		return nil, err
	}
	for _, step := range []struct{ bootstrap, apply []string }{
		{[]string{"--part", "namespaces"}, []string{"create", "-f", "-"}},
		{nil, []string{"apply", "--server-side", "--field-manager", "sluice", "-f", "-"}},
	} {
		objects, err := u.bootstrap(ctx, binary, step.bootstrap...)
		if err != nil {
			return nil, err
		}
		if _, err := c.Kubectl(ctx, objects, step.apply...); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// statusToken returns the token of a user who writes commit statuses.
func (u *up) statusToken(ctx context.Context) (string, error) {
	const login = "flux"
	if _, err := u.AddUser(ctx, login); err != nil {
		return "", err
	}
	if err := u.Grant(ctx, fleet, login, "write"); err != nil {
		return "", err
	}
	return u.Token(ctx, login)
}

// bootstrap returns what `sluice bootstrap flux` prints for the cluster.
func (u *up) bootstrap(ctx context.Context, binary string, more ...string) (string, error) {
	cmd := exec.CommandContext(ctx, binary, append([]string{ //nolint:gosec // what the caller built
		"bootstrap", "flux", "--cluster", synced, "--url", u.URL + "/" + fleet + ".git", "--forge", "gitea", "--secret", "",
		"--interval", "5s", "--timeout", "1m",
	}, more...)...)
	cmd.Dir = u.work()
	cmd.Env = append(os.Environ(), "HOME="+u.dir, "SLUICE_OFFLINE=1")
	var wrong strings.Builder
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("sluice bootstrap: %w: %s", err, wrong.String())
	}
	return string(out), nil
}
