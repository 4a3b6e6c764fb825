package bedtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// ArgoCD are the parts of Argo CD that sync an API server.
type ArgoCD struct {
	Dir   string
	parts []*process
}

// ArgoCDNamespace is the namespace of Argo CD.
const ArgoCDNamespace = "argocd"

// ofArgoCDServer are the objects that Argo CD's API server makes when it starts. It is not part of the bed.
const ofArgoCDServer = `
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: argocd}
spec:
  sourceRepos: ["*"]
  destinations: [{namespace: "*", server: "*"}]
  clusterResourceWhitelist: [{group: "*", kind: "*"}]
---
apiVersion: v1
kind: Secret
metadata: {name: argocd-secret, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
stringData: {server.secretkey: of-a-server-for-tests-only}
`

// AddArgoCDKinds makes the kinds of Argo CD known to an API server.
func (k *Kubernetes) AddArgoCDKinds(ctx context.Context) error {
	folder, err := part("argocd")
	if err != nil {
		return err
	}
	if _, err := k.Kubectl(ctx, "", "apply", "--server-side", "-f", filepath.Join(folder, "crds")); err != nil {
		return err
	}
	return k.established(ctx)
}

// AddArgoCD makes the kinds of Argo CD known to an API server, and creates its namespace with Argo CD's own settings.
func (k *Kubernetes) AddArgoCD(ctx context.Context) error {
	if err := k.AddArgoCDKinds(ctx); err != nil {
		return err
	}
	folder, err := part("argocd")
	if err != nil {
		return err
	}
	for _, step := range []struct {
		input string
		args  []string
	}{
		{"", []string{"create", "namespace", ArgoCDNamespace}},
		{"", []string{"apply", "-n", ArgoCDNamespace, "--server-side", "-f", filepath.Join(folder, "config")}},
		{ofArgoCDServer, []string{"apply", "--server-side", "-f", "-"}},
	} {
		if _, err := k.Kubectl(ctx, step.input, step.args...); err != nil {
			return err
		}
	}
	return nil
}

// StartArgoCD starts the parts of Argo CD with their files in an empty folder: a Redis, the repo-server, the application
// controller and the controller of notifications. AddArgoCD comes before. They look for new commits every second. The
// metrics of the controllers listen on all interfaces: Argo CD has no setting for that.
func (k *Kubernetes) StartArgoCD(ctx context.Context, dir string) (*ArgoCD, error) {
	folder, err := part("argocd")
	if err != nil {
		return nil, err
	}
	var ports []string
	for range 5 {
		port, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		ports = append(ports, fmt.Sprint(port))
	}
	redis, server := "127.0.0.1:"+ports[0], "127.0.0.1:"+ports[1]
	a := &ArgoCD{Dir: dir}
	for _, p := range []struct {
		name   string
		listen string
		args   []string
	}{
		{"redis", ports[0], []string{redis}},
		{"repo-server", ports[1], []string{
			"--address=127.0.0.1", "--port=" + ports[1], "--metrics-address=127.0.0.1", "--metrics-port=" + ports[2],
			"--disable-tls", "--client-ca-path=", "--redis=" + redis, "--revision-cache-expiration=1s", "--logformat=text",
		}},
		{"application-controller", ports[3], []string{
			"--namespace=" + ArgoCDNamespace, "--repo-server=" + server, "--repo-server-plaintext", "--redis=" + redis,
			"--metrics-port=" + ports[3], "--app-resync=1", "--app-resync-jitter=0", "--logformat=text",
		}},
		{"notifications", ports[4], []string{
			"--namespace=" + ArgoCDNamespace, "--argocd-repo-server=" + server, "--argocd-repo-server-plaintext",
			"--metrics-port=" + ports[4], "--logformat=text",
		}},
	} {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(folder, "argocd"), append([]string{p.name}, p.args...)...) //nolint:gosec // built by make bed
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(k.Dir, "kubeconfig"), "HOME="+dir, "TMPDIR="+dir,
			"PATH="+folder+string(os.PathListSeparator)+os.Getenv("PATH"), "ARGOCD_FAKE_IN_CLUSTER=true",
			"ARGOCD_GPG_ENABLED=false", "ARGOCD_ASK_PASS_SOCK="+filepath.Join(dir, "ask-pass.sock"),
			"ARGOCD_APP_CONF_PATH="+dir, "ARGOCD_TLS_DATA_PATH="+dir, "ARGOCD_SSH_DATA_PATH="+dir,
			"ARGOCD_PLUGINSOCKFILEPATH="+dir, "ARGOCD_GNUPGHOME="+dir)
		run, err := start(p.name, dir, cmd)
		if err == nil {
			a.parts = append(a.parts, run)
			err = run.ready(ctx, func() error { return listens(ctx, "127.0.0.1:"+p.listen) })
		}
		if err != nil {
			a.Close()
			return nil, err
		}
	}
	return a, nil
}

func listens(ctx context.Context, address string) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}

// Close stops the parts and keeps their folder.
func (a *ArgoCD) Close() {
	for _, p := range a.parts {
		p.Close()
	}
}
