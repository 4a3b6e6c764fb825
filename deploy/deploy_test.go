// Package deploy_test checks the files in deploy/ with Sluice itself: it renders and judges the chart, and passes
// every example configuration to `sluice serve --check`. It needs no cluster, network or container.
package deploy_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"sigs.k8s.io/yaml"
)

const mounted = "/run/secrets/sluice/" // folder where the chart mounts secrets

// binary is Sluice, built once; empty in short mode.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if testing.Short() {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "sluice-deploy-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	binary = filepath.Join(dir, "sluice")
	//nolint:noctx // no test with a context is running yet
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, "./cmd/sluice")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// sluice runs the binary in a folder, with a separate cache.
func sluice(t *testing.T, dir string, env []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}, env...)
	var a, b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &a, &b
	err = cmd.Run()
	return a.String(), b.String(), err
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// modes are the chart's modes. Each has complete values in ci/, and is a cluster of the test's fleet.
func modes() []string { return []string{"single", "replicas"} }

// newFleet returns a repository with the chart as an app.
func newFleet(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "charts/sluice"), os.DirFS("chart/sluice")); err != nil {
		t.Fatal(err)
	}
	const api = "apiVersion: sluice.dev/v1alpha1\n"
	write(t, filepath.Join(dir, "sluice.yaml"), api+
		"kind: Fleet\nmetadata: {name: deploy}\nspec: {layers: [cluster], environments: [{name: test}]}\n")
	write(t, filepath.Join(dir, "apps/sluice/app.yaml"), api+
		"kind: App\nmetadata: {name: sluice}\nspec: {namespace: sluice, placement: {}, source: {helm: {path: charts/sluice}}}\n")
	for _, mode := range modes() {
		write(t, filepath.Join(dir, "clusters", mode+".yaml"), api+"kind: Cluster\nmetadata: {name: "+mode+
			"}\nspec: {environment: test, kubeVersion: 1.33.2, apiVersions: [monitoring.coreos.com/v1]}\n")
		write(t, values(dir, mode), read(t, filepath.Join("chart/sluice/ci", mode+"-values.yaml")))
	}
	commit(t, dir)
	return dir
}

func values(dir, mode string) string {
	return filepath.Join(dir, "apps/sluice/layers/cluster", mode, "values.yaml")
}

func commit(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "chart"}} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{
			"-c", "user.name=Ada", "-c",
			"user.email=ada@example.com",
		}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

// secretFor returns a secret of the form that a file with this name has.
func secretFor(t *testing.T, name string) string {
	t.Helper()
	switch base := filepath.Base(name); {
	case strings.HasSuffix(base, ".pem"):
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	case base == "sign":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		block, err := ssh.MarshalPrivateKey(key, "")
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(block))
	case strings.HasSuffix(base, "signing"):
		return "whsec_MDEyMzQ1Njc4OWFiY2RlZg==\n"
	}
	return "0123456789abcdef0123456789abcdef\n"
}

// serveCheck checks a configuration with the service. It provides a file or a variable for every secret that the
// configuration names.
func serveCheck(t *testing.T, config string) error {
	t.Helper()
	dir := t.TempDir()
	env := []string{}
	config = regexp.MustCompile(`(file|signKey): *(/[\w./-]+)`).ReplaceAllStringFunc(config, func(m string) string {
		key, file, _ := strings.Cut(m, ":")
		name := filepath.Join(dir, "secrets", strings.TrimSpace(file))
		write(t, name, secretFor(t, name))
		return key + ": " + name
	})
	for _, m := range regexp.MustCompile(`env: *(\w+)`).FindAllStringSubmatch(config, -1) {
		env = append(env, m[1]+"=0123456789abcdef0123456789abcdef")
	}
	file := filepath.Join(dir, "config.yaml")
	write(t, file, config)
	out, problems, err := sluice(t, dir, env, "serve", "--check", "--config", file)
	if err != nil {
		return fmt.Errorf("%w: %s", err, problems)
	}
	if !strings.Contains(out, "no errors") {
		return fmt.Errorf("unexpected answer %q", out)
	}
	return nil
}

func TestServeCheckFails(t *testing.T) {
	t.Parallel()
	if err := serveCheck(t, "data: /var/lib/sluice\nforges: []\n"); err == nil ||
		!strings.Contains(err.Error(), "at least one forge") {
		t.Errorf("a configuration without forges: %v", err)
	}
	if err := serveCheck(t, strings.Replace(read(t, "config.yaml"), "kind: github", "knid: github", 1)); err == nil ||
		!strings.Contains(err.Error(), "knid") {
		t.Errorf("a configuration with an unknown key: %v", err)
	}
}

// compose is the checked part of compose.yaml.
type compose struct {
	Services map[string]struct {
		Image           string   `json:"image"`
		Command         []string `json:"command"`
		User            string   `json:"user"`
		ReadOnly        bool     `json:"read_only"`
		CapDrop         []string `json:"cap_drop"`
		SecurityOpt     []string `json:"security_opt"`
		StopGracePeriod string   `json:"stop_grace_period"`
		Secrets         []string `json:"secrets"`
		Volumes         []struct {
			Source, Target string
		} `json:"volumes"`
	} `json:"services"`
	Secrets map[string]struct{ File string } `json:"secrets"`
}

func TestCompose(t *testing.T) {
	t.Parallel()
	var c compose
	if err := yaml.Unmarshal([]byte(read(t, "compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	s, ok := c.Services["sluice"]
	if !ok || len(c.Services) != 1 {
		t.Fatalf("services: %+v", c.Services)
	}
	if !strings.Contains(s.Image, "sluice") || s.User != "65532:65532" || !s.ReadOnly ||
		fmt.Sprint(s.CapDrop, s.SecurityOpt) != "[ALL] [no-new-privileges:true]" || s.StopGracePeriod != "150s" {
		t.Errorf("service: %+v", s)
	}
	at := map[string]string{}
	for _, v := range s.Volumes {
		at[v.Target] = v.Source
	}
	if at["/var/lib/sluice"] != "./data" || at["/etc/sluice/config.yaml"] != "./config.yaml" {
		t.Errorf("volumes: %v", at)
	}
	if got := strings.Join(s.Command, " "); !strings.Contains(got, "serve --config /etc/sluice/config.yaml") {
		t.Errorf("command: %s", got)
	}
	config := read(t, "config.yaml")
	for _, name := range s.Secrets {
		if c.Secrets[name].File == "" || !strings.Contains(config, "/run/secrets/"+name+"}") {
			t.Errorf("the secret %s has the file %q, and config.yaml names it: %v", name, c.Secrets[name].File,
				strings.Contains(config, name))
		}
	}
	if n := strings.Count(config, "{file: /run/secrets/"); n != len(s.Secrets) {
		t.Errorf("config.yaml names %d files, compose.yaml %d", n, len(s.Secrets))
	}
	if err := serveCheck(t, config); err != nil {
		t.Error(err)
	}
}

func TestUnit(t *testing.T) {
	t.Parallel()
	unit := read(t, "sluice.service")
	lines := map[string]bool{}
	for line := range strings.Lines(unit) {
		lines[strings.TrimSpace(line)] = true
	}
	for _, want := range []string{
		"DynamicUser=yes", "StateDirectory=sluice", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes",
		"PrivateDevices=yes", "NoNewPrivileges=yes",
		"CapabilityBoundingSet=", "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX", "RestrictNamespaces=yes",
		"SystemCallFilter=@system-service",
		"MemoryDenyWriteExecute=yes", "ProtectKernelTunables=yes", "ProtectControlGroups=yes",
		"ExecReload=/bin/kill -HUP $MAINPID", "KillMode=mixed", "TimeoutStopSec=150s",
		"ExecStart=/usr/local/bin/sluice serve --config /etc/sluice/config.yaml --log json",
	} {
		if !lines[want] {
			t.Errorf("sluice.service lacks the line %s", want)
		}
	}
	for _, name := range regexp.MustCompile(`/run/secrets/([\w.]+)}`).FindAllStringSubmatch(read(t, "config.yaml"),
		-1) {
		if want := fmt.Sprintf("LoadCredential=%s:/etc/sluice/secrets/%s", name[1], name[1]); !lines[want] {
			t.Errorf("sluice.service lacks the line %s", want)
		}
	}
}

// documents splits the output of `sluice render`.
func documents(t *testing.T, text string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, one := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
		var doc map[string]any
		if err := yaml.Unmarshal([]byte(one), &doc); err != nil {
			t.Fatalf("%v in\n%s", err, one)
		}
		if doc != nil {
			out = append(out, doc)
		}
	}
	if len(out) == 0 {
		t.Fatal(io.ErrUnexpectedEOF)
	}
	return out
}
