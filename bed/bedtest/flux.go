package bedtest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Flux are the controllers of Flux, at work on an API server.
type Flux struct {
	Dir         string
	controllers []*process
}

// FluxNamespace is the namespace of Flux.
const FluxNamespace = "flux-system"

// notificationKinds are the kinds of notification-controller, whose module with the schemas is not on the Go module proxy.
const notificationKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.notification.toolkit.fluxcd.io}
spec:
  group: notification.toolkit.fluxcd.io
  scope: Namespaced
  names: {kind: %[1]s, plural: %[2]s}
  versions:
    - name: %[3]s
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
`

// AddFluxKinds makes the kinds of Flux known to an API server, and creates Flux's namespace.
func (k *Kubernetes) AddFluxKinds(ctx context.Context) error {
	folder, err := part("flux")
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + FluxNamespace + "}\n---\n")
	for _, n := range [][]any{
		{"Provider", "providers", "v1beta3"}, {"Alert", "alerts", "v1beta3"}, {"Receiver", "receivers", "v1"},
	} {
		fmt.Fprintf(&text, notificationKinds, n...)
	}
	for input, args := range map[string][]string{"": {filepath.Join(folder, "crds")}, text.String(): {"-"}} {
		if _, err := k.Kubectl(ctx, input, append([]string{"apply", "--server-side", "-f"}, args...)...); err != nil {
			return err
		}
	}
	return k.established(ctx)
}

// established waits until the API server serves all custom kinds. kubectl fails for those that have no status yet.
func (k *Kubernetes) established(ctx context.Context) error {
	return k.ready(ctx, func() error {
		_, err := k.Kubectl(ctx, "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=5s")
		return err
	})
}

// StartFlux starts Flux's controllers with their files in an empty folder: those of sources, Kustomizations and
// HelmReleases, and a stand-in for that of notifications, which writes commit statuses to a Gitea. The kinds must be
// known, see AddFluxKinds. The controllers try again after two seconds at most, not after up to 15 minutes.
func (k *Kubernetes) StartFlux(ctx context.Context, dir string) (*Flux, error) {
	folder, err := part("flux")
	if err != nil {
		return nil, err
	}
	free, err := FreeAddresses(ctx, 5)
	if err != nil {
		return nil, err
	}
	f, events, files := &Flux{Dir: dir}, free[0], free[1]
	run := func(name string, args ...string) (*process, error) {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(folder, name), args...) //nolint:gosec // built by make bed
		cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(k.Dir, "kubeconfig"), "HOME="+dir, "TMPDIR="+dir,
			"RUNTIME_NAMESPACE="+FluxNamespace)
		p, err := start(name, dir, cmd)
		if err == nil {
			f.controllers = append(f.controllers, p)
		}
		return p, err
	}
	if _, err := run("flux", "-listen", events); err != nil {
		return nil, err
	}
	for i, name := range []string{"source", "kustomize", "helm"} {
		health := free[2+i]
		args := []string{
			"--events-addr=http://" + events + "/", "--health-addr=" + health, "--metrics-addr=0",
			"--requeue-dependency=1s", "--max-retry-delay=2s", "--log-level=info",
		}
		if name == "source" {
			args = append(args, "--storage-path="+dir, "--storage-addr="+files, "--storage-adv-addr="+files)
		}
		p, err := run(name+"-controller", args...)
		if err == nil {
			err = p.ready(ctx, func() error { return healthy(ctx, "http://"+health+"/readyz") })
		}
		if err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

func healthy(ctx context.Context, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s, %w", address, resp.Status, err)
	}
	return nil
}

// Close stops the controllers and keeps their folder.
func (f *Flux) Close() {
	for _, p := range f.controllers {
		p.Close()
	}
}
