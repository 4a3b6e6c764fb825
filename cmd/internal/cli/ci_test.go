package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
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

// TestInputsAreTheFlags compares the inputs of the GitHub Action and of the GitLab component with the flags of `sluice
// ci`.
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
	read(t, "templates/sluice.yml", 0, &component)
	var jobs map[string]struct{ Variables map[string]string }
	read(t, "templates/sluice.yml", 1, &jobs)

	// inputs that only the action has
	own := map[string]bool{"token": true, "version": true, "binary": true, "fingerprint-key": true}
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
		if f.Name == "checks" { // GitLab has no check runs
			return
		}
		if _, ok := component.Spec.Inputs[f.Name]; !ok || jobs[".sluice"].Variables[variable] != "$[[ inputs."+f.Name+
			" ]]" {
			t.Errorf("templates/sluice.yml has no input %s for %s", f.Name, variable)
		}
	})
	for name := range action.Inputs {
		if !flags[name] && !own[name] {
			t.Errorf("action.yml: the input %s is no flag", name)
		}
	}
	for name := range component.Spec.Inputs {
		if !flags[name] && !ownLab[name] {
			t.Errorf("templates/sluice.yml: the input %s is no flag", name)
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
		t.Fatalf("%s: the error is %v", name, err)
	}
}

func TestFlagsFromVariables(t *testing.T) {
	cmd := newCI(System())
	env := map[string]string{
		"SLUICE_CI_COMMENT_ID": "eu", "SLUICE_CI_ENV": "dev,prod", "SLUICE_CI_DRAFTS": "false",
		"SLUICE_CI_CONTEXT": "other",
	}
	if err := cmd.Flags().Set("context", "mine"); err != nil {
		t.Fatal(err)
	}
	if err := fromEnv(cmd, "SLUICE_CI_", func(name string) string { return env[name] }); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"comment-id": "eu", "env": "[dev,prod]", "drafts": "false",
		"context": "mine",
	} {
		if got := cmd.Flags().Lookup(flag).Value.String(); got != want {
			t.Errorf("--%s is %s, want %s", flag, got, want)
		}
	}
	if err := fromEnv(newCI(System()), "SLUICE_CI_", func(string) string { return "x" }); err == nil {
		t.Error("--jobs x is accepted")
	}
}

// releases serves the release 1.2.3, the release 6.6.6 with a wrong checksum, and 7.7.7 without one, for one system.
func releases(t *testing.T, system, arch string) *httptest.Server {
	t.Helper()
	name := fmt.Sprintf("sluice_1.2.3_%s_%s.tar.gz", system, arch)
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
		case "/v1.2.3/" + name, "/v6.6.6/" + strings.Replace(name, "1.2.3", "6.6.6", 1),
			"/v7.7.7/" + strings.Replace(name, "1.2.3", "7.7.7", 1):
			_, _ = w.Write(archive.Bytes())
		case "/latest":
			http.Redirect(w, r, "/tag/v1.2.3", http.StatusFound)
		case "/tag/v1.2.3":
		case "/v1.2.3/checksums.txt", "/v7.7.7/checksums.txt": // 7.7.7 has no checksum
			_, _ = io.WriteString(w, sum)
		case "/v6.6.6/checksums.txt":
			_, _ = io.WriteString(w, strings.Replace(strings.Replace(sum, "1.2.3", "6.6.6", 1), sum[:4], "0000", 1))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// TestInstallByRef installs the release that belongs to the ref of the action. It builds from source only if there is
// no release; a wrong checksum is an error, not a reason to build.
func TestInstallByRef(t *testing.T) {
	server := releases(t, runtime.GOOS, runtime.GOARCH)
	fake := t.TempDir() // a go command that records that it was called
	script := "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\nprintf '#!/bin/sh\\necho built\\n' > \"$2\"\nchmod +x \"$2\"\n"
	if err := os.WriteFile(filepath.Join(fake, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"v1.2.3": "installed\n", "v1": "installed\n", "v2": "built\n", "v9.9.9": "built\n", "main": "built\n",
		"": "built\n",
		"08c6903cd8c0fde910a37f88322edcfb5dd907a8": "built\n", "v6.6.6": "", "v7.7.7": "",
	} {
		cmd := exec.CommandContext(t.Context(), "bash", root+"deploy/ci/install.sh", t.TempDir())
		cmd.Env = append(os.Environ(), "SLUICE_VERSION=", "SLUICE_REF="+ref, "SLUICE_RELEASES="+server.URL,
			"SLUICE_BINARY=", "SLUICE_SOURCE="+fake, "PATH="+fake+":"+os.Getenv("PATH"))
		out, err := cmd.Output()
		if want == "" {
			if err == nil {
				t.Errorf("%q: a release with a wrong checksum was answered by %s", ref, out)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: the error is %v", ref, err)
			continue
		}
		path := strings.TrimPrefix(strings.TrimSpace(string(out)), "sluice=")
		if got, err := exec.CommandContext(t.Context(), path).Output(); err != nil || string(got) != want {
			t.Errorf("%q: the result of Output is %q, the error is %v, want %q", ref, got, err, want)
		}
	}
}

// TestInstall installs a release from a server, and refuses one with a wrong checksum.
func TestInstall(t *testing.T) {
	server := releases(t, runtime.GOOS, runtime.GOARCH)
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
		t.Errorf("the output is %s, the error is %v", out, err)
	}
	for _, version := range []string{"v6.6.6", "v7.7.7", "v9.9.9", "main; rm -rf /"} {
		if path, err := install(version); err == nil {
			t.Errorf("%s was installed as %s", version, path)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", root+"deploy/ci/install.sh", t.TempDir())
	cmd.Env = append(os.Environ(), "SLUICE_BINARY="+path)
	if out, err := cmd.Output(); err != nil || string(out) != "sluice="+path+"\n" {
		t.Errorf("a binary that is there: %s, %v", out, err)
	}
	cmd = exec.CommandContext(t.Context(), "bash", root+"deploy/ci/install.sh", t.TempDir())
	cmd.Env = append(os.Environ(), "SLUICE_BINARY=/no/sluice")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), `"/no/sluice" is no program`) {
		t.Errorf("a binary that is missing: %s, %v", out, err)
	}
}

// TestGitLabInstall runs the before_script and script of the component as a runner does: in one shell that stops at
// the first error.
func TestGitLabInstall(t *testing.T) {
	var jobs map[string]struct {
		BeforeScript []string `yaml:"before_script"`
		Script       []string
	}
	read(t, "templates/sluice.yml", 1, &jobs)
	lines := append(append([]string{}, jobs[".sluice"].BeforeScript...), jobs[".sluice"].Script...)
	if len(lines) != 2 || lines[1] != "sluice ci" {
		t.Fatalf("the lines are %q", lines)
	}
	arch := map[string]string{"amd64": "amd64", "arm64": "arm64"}[runtime.GOARCH]
	if runtime.GOOS != "linux" || arch == "" {
		t.Skip("the jobs run in Linux containers")
	}
	server := releases(t, "linux", arch)
	for _, shell := range [][]string{{"sh", "-e"}, {"bash", "-eo", "pipefail"}} {
		for version, want := range map[string]string{
			"v1.2.3": "sluice_1.2.3_linux_" + arch + ".tar.gz: OK\ninstalled\nCLEAN\n", "": "OWN\nCLEAN\n",
			"v6.6.6": "", "v7.7.7": "", "v9.9.9": "", // wrong checksum, no checksum, no archive
		} {
			project, own := t.TempDir(), t.TempDir()
			if err := os.WriteFile(filepath.Join(own, "sluice"), []byte("#!/bin/sh\necho OWN\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), shell[0], append(shell[1:], "-c", strings.Join(lines, "\n")+
				"\n[ \"$PWD\" != \"$CI_PROJECT_DIR\" ] || [ -n \"$(ls)\" ] || echo CLEAN")...)
			cmd.Dir = project
			cmd.Env = append(os.Environ(), "SLUICE_VERSION="+version, "SLUICE_RELEASES="+server.URL, "CI_PROJECT_DIR="+
				project, "TMPDIR="+t.TempDir(), "PATH="+own+":"+os.Getenv("PATH"))
			out, err := cmd.Output()
			if (err == nil) != (want != "") || want != "" && string(out) != want {
				t.Errorf("the shell is %v, the version is %q: the output is %q, the error is %v, want %q", shell,
					version, out, err, want)
			}
			if strings.Contains(string(out), "OWN") && version != "" {
				t.Errorf("%v %q: went on without the release", shell, version)
			}
		}
	}
}

// GitLab finds a component only as templates/<name>.yml, with the name in the documentation.
func TestComponent(t *testing.T) {
	page, err := os.ReadFile(root + "docs/ci-gitlab.md")
	if err != nil {
		t.Fatal(err)
	}
	component := regexp.MustCompile(`component: \S+/sluice/([a-z-]+)@\S+`).FindSubmatch(page)
	if component == nil {
		t.Fatal("docs/ci-gitlab.md includes no component")
	}
	for _, file := range append([]string{"templates/" + string(component[1]) + ".yml"}, remotes(page)...) {
		if _, err := os.Stat(root + file); err != nil {
			t.Errorf("docs/ci-gitlab.md includes what is not there: %v", err)
		}
	}
}

// remotes returns the files of this repository that a page includes by address.
func remotes(page []byte) []string {
	var out []string
	for _, m := range regexp.MustCompile(`remote: https://raw\.githubusercontent\.com/sluice-gitops/sluice/[^/]+/(\S+)`).FindAllSubmatch(page, -1) {
		out = append(out, string(m[1]))
	}
	return out
}

// `make dist` gives the archives the same names as install.sh.
func TestArchives(t *testing.T) {
	makefile, err := os.ReadFile(root + "Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"linux/amd64 linux/arm64 darwin/amd64 darwin/arm64",
		"sluice_$(VERSION)_$${os}_$$arch.tar.gz", "checksums.txt",
	} {
		if !strings.Contains(string(makefile), part) {
			t.Errorf("the Makefile has no %q", part)
		}
	}
}

// Every program that the Makefile builds from tools/ is a tool of its module, so that `go mod tidy` keeps it.
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
			if strings.HasPrefix(pkg, ".") { // a program of the module itself
				continue
			}
			if !regexp.MustCompile(`(?m)^(tool |\t)` + regexp.QuoteMeta(pkg) + `$`).Match(mod) {
				t.Errorf("%s is no tool of %s/go.mod: go mod tidy would drop it", pkg, b[1])
			}
		}
	}
}

// The image is built without network, runs as a user that the host does not have, and contains a static Linux binary.
func TestImage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "RUN") || strings.HasPrefix(line, "ADD") ||
			strings.HasPrefix(line, "FROM") && line != "FROM scratch\n" {
			t.Errorf("needs a network or a shell: %s", line)
		}
	}
	if !strings.Contains(string(text), "USER 65532") {
		t.Error("runs as root")
	}
	ignore, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil || !strings.HasSuffix(string(ignore), "\n*\n!bin/image\n") {
		t.Errorf("more than bin/image is sent to the builder: %q, %v", ignore, err)
	}
}

// The image contains a static binary and a folder /tmp.
func TestImageFiles(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make")
	}
	files := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "make", "-s", "-C", root, "image-files", "FILES="+files)
	cmd.Env = append(os.Environ(), "GOOS=", "GOARCH=", "CGO_ENABLED=1", "MAKEFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the error is %v\nthe output is\n%s", err, out)
	}
	binary, err := elf.Open(filepath.Join(files, "sluice"))
	if err != nil {
		t.Fatalf("no program for Linux: %v", err)
	}
	defer binary.Close() //nolint:errcheck // it was read
	for _, p := range binary.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary is linked dynamically: it has a %s", p.Type)
		}
	}
	if libraries, err := binary.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("the binary needs %v, %v", libraries, err)
	}
	if info, err := os.Stat(filepath.Join(files, "tmp")); err != nil || info.Mode().Perm() != 0o777 ||
		info.Mode()&os.ModeSticky == 0 {
		t.Errorf("/tmp is %v, %v", info.Mode(), err)
	}
}

// `make image` reports a missing builder before it starts docker.
func TestImageWithoutBuilder(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make")
	}
	for name, c := range map[string]struct{ docker, podman, want string }{
		"a daemon that does not answer": {docker: "exit 1", want: "its daemon does not answer"},
		"nothing":                       {want: "Neither docker nor podman"},
		"podman instead": {
			docker: "exit 1", podman: "echo podman $*",
			want: "podman build --platform linux/arm64 -t other .",
		},
		"docker": {
			docker: "echo docker $*", podman: "exit 1",
			want: "docker build --platform linux/arm64 -t other .",
		},
	} {
		bin := t.TempDir()
		for program, body := range map[string]string{"go": "exit 0", "docker": c.docker, "podman": c.podman} {
			if body == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, program := range []string{"bash", "sh", "rm", "mkdir", "chmod", "cp"} {
			path, err := exec.LookPath(program)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path, filepath.Join(bin, program)); err != nil {
				t.Fatal(err)
			}
		}
		path, _ := exec.LookPath("make")
		cmd := exec.CommandContext(t.Context(), path, "-s", "-C", root, "image", "SHELL="+filepath.Join(bin, "bash"),
			"IMAGE=other", "ARCH=arm64", "FILES="+filepath.Join(bin, "files"))
		cmd.Env = []string{"PATH=" + bin, "HOME=" + bin}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: the error is %v\nthe output is\n%s", name, err, out)
		}
	}
}
