package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	yaml "go.yaml.in/yaml/v3"
)

const root = "../../../"

// TestInputsAreTheFlags: the GitHub Action's and the GitLab component's inputs are the flags of `sluice ci`, name by name.
func TestInputsAreTheFlags(t *testing.T) {
	var action struct {
		Inputs map[string]struct{ Description, Default string }
		Runs   struct {
			Steps []struct {
				ID  string            `yaml:"id"`
				Env map[string]string `yaml:"env"`
				Run string            `yaml:"run"`
			}
		}
	}
	read(t, "action.yml", 0, &action)
	var component struct {
		Spec struct {
			Inputs map[string]struct{ Description, Default string }
		}
	}
	read(t, ".gitlab/sluice.yml", 0, &component)
	var jobs map[string]struct{ Variables map[string]string }
	read(t, ".gitlab/sluice.yml", 1, &jobs)

	own := map[string]bool{"token": true, "version": true, "binary": true, "fingerprint-key": true} // of the action
	ownLab := map[string]bool{"stage": true, "image": true, "version": true}
	flags := map[string]bool{}
	newCI(System()).Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Name == "quiet" {
			return
		}
		flags[f.Name] = true
		variable := "SLUICE_CI_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if in, ok := action.Inputs[f.Name]; !ok || in.Description == "" {
			t.Errorf("action.yml has no input %s", f.Name)
		}
		if got := action.Runs.Steps[1].Env[variable]; got != "${{ inputs."+f.Name+" }}" {
			t.Errorf("action.yml: %s is %q", variable, got)
		}
		if in := action.Inputs[f.Name]; in.Default != "" && in.Default != f.DefValue {
			t.Errorf("action.yml: the default of %s is %q, the flag's %q", f.Name, in.Default, f.DefValue)
		}
		if f.Name == "checks" { // GitLab has none
			return
		}
		if _, ok := component.Spec.Inputs[f.Name]; !ok || jobs[".sluice"].Variables[variable] != "$[[ inputs."+f.Name+" ]]" {
			t.Errorf(".gitlab/sluice.yml has no input %s for %s", f.Name, variable)
		}
	})
	for name := range action.Inputs {
		if !flags[name] && !own[name] {
			t.Errorf("action.yml: the input %s is no flag", name)
		}
	}
	for name := range component.Spec.Inputs {
		if !flags[name] && !ownLab[name] {
			t.Errorf(".gitlab/sluice.yml: the input %s is no flag", name)
		}
	}
	for _, step := range action.Runs.Steps {
		if strings.Contains(step.Run, "${{") {
			t.Errorf("action.yml: step %s has an input in its shell: %s", step.ID, step.Run)
		}
	}
}

func read(t *testing.T, name string, document int, into any) {
	t.Helper()
	data, err := os.ReadFile(root + name)
	if err != nil {
		t.Fatal(err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for range document {
		var skip yaml.Node
		if err := dec.Decode(&skip); err != nil {
			t.Fatal(err)
		}
	}
	if err := dec.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func TestFlagsFromVariables(t *testing.T) {
	cmd := newCI(System())
	env := map[string]string{"SLUICE_CI_COMMENT_ID": "eu", "SLUICE_CI_ENV": "dev,prod", "SLUICE_CI_DRAFTS": "false", "SLUICE_CI_CONTEXT": "other"}
	if err := cmd.Flags().Set("context", "mine"); err != nil {
		t.Fatal(err)
	}
	if err := fromEnv(cmd, "SLUICE_CI_", func(name string) string { return env[name] }); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{"comment-id": "eu", "env": "[dev,prod]", "drafts": "false", "context": "mine"} {
		if got := cmd.Flags().Lookup(flag).Value.String(); got != want {
			t.Errorf("--%s is %s, want %s", flag, got, want)
		}
	}
	if err := fromEnv(newCI(System()), "SLUICE_CI_", func(string) string { return "x" }); err == nil {
		t.Error("--jobs x is taken")
	}
}

// TestInstall installs a release from a server, and none whose checksum is another.
func TestInstall(t *testing.T) {
	name := fmt.Sprintf("sluice_1.2.3_%s_%s.tar.gz", runtime.GOOS, runtime.GOARCH)
	var archive bytes.Buffer
	zip := gzip.NewWriter(&archive)
	w := tar.NewWriter(zip)
	body := "#!/bin/sh\necho installed\n"
	if err := w.WriteHeader(&tar.Header{Name: "sluice", Mode: 0o755, Size: int64(len(body))}); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, body)
	_ = w.Close()
	_ = zip.Close()
	sum := fmt.Sprintf("%x  %s\n", sha256.Sum256(archive.Bytes()), name)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1.2.3/" + name, "/v6.6.6/" + strings.Replace(name, "1.2.3", "6.6.6", 1):
			_, _ = w.Write(archive.Bytes())
		case "/v1.2.3/checksums.txt":
			_, _ = io.WriteString(w, sum)
		case "/v6.6.6/checksums.txt":
			_, _ = io.WriteString(w, strings.Replace(strings.Replace(sum, "1.2.3", "6.6.6", 1), sum[:4], "0000", 1))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	install := func(version string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash", root+"deploy/ci/install.sh", t.TempDir())
		cmd.Env = append(os.Environ(), "SLUICE_VERSION="+version, "SLUICE_RELEASES="+server.URL, "SLUICE_BINARY=")
		out, err := cmd.Output()
		return strings.TrimPrefix(strings.TrimSpace(string(out)), "sluice="), err
	}
	path, err := install("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), path).Output(); err != nil || string(out) != "installed\n" {
		t.Errorf("%s, %v", out, err)
	}
	for _, version := range []string{"v6.6.6", "v9.9.9", "main; rm -rf /"} {
		if path, err := install(version); err == nil {
			t.Errorf("%s was installed as %s", version, path)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", root+"deploy/ci/install.sh", t.TempDir())
	cmd.Env = append(os.Environ(), "SLUICE_BINARY=/opt/sluice")
	if out, err := cmd.Output(); err != nil || string(out) != "sluice=/opt/sluice\n" {
		t.Errorf("a binary that is there: %s, %v", out, err)
	}
}

// TestArchives: `make dist` makes the archives that install.sh asks for.
func TestArchives(t *testing.T) {
	makefile, err := os.ReadFile(root + "Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"linux/amd64 linux/arm64 darwin/amd64 darwin/arm64", "sluice_$(VERSION)_$${os}_$$arch.tar.gz", "checksums.txt"} {
		if !strings.Contains(string(makefile), part) {
			t.Errorf("the Makefile has no %q", part)
		}
	}
}

// TestTools: what the Makefile builds of a module under tools/ is a tool of that module, so that `go mod tidy` keeps it.
func TestTools(t *testing.T) {
	makefile, err := os.ReadFile(root + "Makefile")
	if err != nil {
		t.Fatal(err)
	}
	builds := regexp.MustCompile(`(?m)build -C (tools\S*) -o \S+ (.+)$`).FindAllStringSubmatch(string(makefile), -1)
	if len(builds) < 3 {
		t.Fatalf("the Makefile builds only %d tools", len(builds))
	}
	for _, b := range builds {
		mod, err := os.ReadFile(root + b[1] + "/go.mod")
		if err != nil {
			t.Fatal(err)
		}
		for pkg := range strings.FieldsSeq(b[2]) {
			if !regexp.MustCompile(`(?m)^(tool |\t)` + regexp.QuoteMeta(pkg) + `$`).Match(mod) {
				t.Errorf("%s is no tool of %s/go.mod: go mod tidy would drop it", pkg, b[1])
			}
		}
	}
}

// TestImage: the image's files are put together without network, the user is none of the host's, and the binary needs no library.
func TestImage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "RUN") || strings.HasPrefix(line, "ADD") || strings.HasPrefix(line, "FROM") && line != "FROM scratch\n" {
			t.Errorf("needs a network or a shell: %s", line)
		}
	}
	if !strings.Contains(string(text), "USER 65532") {
		t.Error("runs as root")
	}
}
