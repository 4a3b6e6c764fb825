package bedtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubernetes is a running API server with its etcd. No controller and no node run: objects are stored as they are
// applied.
type Kubernetes struct {
	URL    string // https://127.0.0.1:port
	Dir    string
	bin    string
	client *http.Client
	*process
}

// kubernetesToken is that of a member of system:masters.
const kubernetesToken = "a-token-of-a-server-for-tests" //nolint:gosec // of servers for tests

// StartKubernetes starts an API server with its data in an empty folder and waits until it is ready.
func StartKubernetes(ctx context.Context, dir string) (*Kubernetes, error) {
	folder, err := part("kubernetes")
	if err != nil {
		return nil, err
	}
	ports := make([]int, 2)
	for i := range ports {
		if ports[i], err = freePort(ctx); err != nil {
			return nil, err
		}
	}
	k := &Kubernetes{
		URL: fmt.Sprintf("https://127.0.0.1:%d", ports[0]), Dir: dir, bin: filepath.Join(folder, "kubernetes"),
		// the server makes its own certificate
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}, //nolint:gosec // on loopback
	}
	if err := k.writeFiles(); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), k.bin, "apiserver", "-data", dir, "-etcd", fmt.Sprint(ports[1]), //nolint:gosec // built by make bed
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]), "--cert-dir="+filepath.Join(dir, "certs"),
		"--token-auth-file="+filepath.Join(dir, "tokens.csv"), "--authorization-mode=RBAC", "--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+filepath.Join(dir, "sa.pem"),
		"--service-account-signing-key-file="+filepath.Join(dir, "sa.pem"),
		"--service-cluster-ip-range=10.96.0.0/16", "--runtime-config=api/all=true",
		// no controller creates the service accounts of namespaces
		"--disable-admission-plugins=ServiceAccount", "--v=0")
	if k.process, err = start("apiserver", dir, cmd); err != nil {
		return nil, err
	}
	if err := k.ready(ctx, func() error {
		_, err := k.Do(ctx, http.MethodGet, "/readyz", nil)
		return err
	}); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

func (k *Kubernetes) writeFiles() error {
	const bits = 2048
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return err
	}
	kubeconfig := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: bed\n"+
		"clusters: [{name: bed, cluster: {server: %q, insecure-skip-tls-verify: true}}]\n"+
		"users: [{name: admin, user: {token: %s}}]\ncontexts: [{name: bed, context: {cluster: bed, user: admin}}]\n",
		k.URL, kubernetesToken)
	for name, text := range map[string]string{
		"tokens.csv": kubernetesToken + ",admin,admin,system:masters\n", "kubeconfig": kubeconfig,
		"sa.pem": string(pem.EncodeToMemory(&pem.Block{
			Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key),
		})),
	} {
		if err := os.WriteFile(filepath.Join(k.Dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// StatusError is an answer of the API server that is no success.
type StatusError struct {
	Code    int
	Reason  string // such as Invalid
	Message string
}

// Error implements error.
func (e *StatusError) Error() string { return fmt.Sprintf("%d %s: %s", e.Code, e.Reason, e.Message) }

// Path returns the path of an object in the API, by what the server says about its kind.
func (k *Kubernetes) Path(ctx context.Context, object map[string]any) (string, error) {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	base := "/apis/" + version
	if !strings.Contains(version, "/") {
		base = "/api/" + version
	}
	data, err := k.Do(ctx, http.MethodGet, base, nil)
	if err != nil {
		return "", err
	}
	var list struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return "", err
	}
	for _, r := range list.Resources {
		switch {
		case r.Kind != kind || strings.Contains(r.Name, "/"):
		case r.Namespaced:
			return base + "/namespaces/" + namespace + "/" + r.Name + "/" + url.PathEscape(name), nil
		default:
			return base + "/" + r.Name + "/" + url.PathEscape(name), nil
		}
	}
	return "", fmt.Errorf("the API server does not know %s of %s", kind, version)
}

// Apply applies an object at its path by server-side apply, as a tool that owns the object. dryRun stores nothing.
func (k *Kubernetes) Apply(ctx context.Context, path string, object map[string]any, dryRun bool) ([]byte, error) {
	query := "?fieldManager=sluice&force=true&fieldValidation=Strict"
	if dryRun {
		query += "&dryRun=All"
	}
	return k.send(ctx, http.MethodPatch, path+query, "application/apply-patch+yaml", object)
}

// PatchStatus merges into the status of an object at its path, as a controller of its kind does.
func (k *Kubernetes) PatchStatus(ctx context.Context, path string, status map[string]any) error {
	_, err := k.send(ctx, http.MethodPatch, path+"/status", "application/merge-patch+json", map[string]any{"status": status})
	return err
}

// Do sends a JSON request to a path with its query, and returns the answer. The error is a *StatusError if the server
// refuses.
func (k *Kubernetes) Do(ctx context.Context, method, path string, body any) ([]byte, error) {
	return k.send(ctx, method, path, "application/json", body)
}

func (k *Kubernetes) send(ctx context.Context, method, path, contentType string, body any) ([]byte, error) {
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, k.URL+path, in)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Authorization", "Bearer "+kubernetesToken)
	resp, err := k.client.Do(r)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		out := &StatusError{Code: resp.StatusCode, Message: string(data)}
		var status struct{ Reason, Message string }
		if json.Unmarshal(data, &status) == nil && status.Message != "" {
			out.Reason, out.Message = status.Reason, status.Message
		}
		return nil, out
	}
	return data, nil
}

// KubectlCommand is the beginning of a command line that runs kubectl, without KUBECONFIG.
func (k *Kubernetes) KubectlCommand() []string { return []string{k.bin, "kubectl"} }

// Kubectl runs kubectl with a standard input, and returns its output. The error has what it prints about mistakes.
func (k *Kubernetes) Kubectl(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, k.bin, append([]string{"kubectl"}, args...)...) //nolint:gosec // built by make bed
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(k.Dir, "kubeconfig"), "HOME="+k.Dir)
	cmd.Stdin = bytes.NewReader([]byte(input))
	var out, wrong bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &wrong
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %v: %w: %s", args, err, wrong.String())
	}
	return out.String(), nil
}
