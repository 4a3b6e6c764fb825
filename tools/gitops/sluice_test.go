package gitops

import (
	"bytes"
	"flag"
	"fmt"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// binary is sluice, built from this tree; work is a folder for all tests.
var binary, work string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "sluice-gitops")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary, work = filepath.Join(dir, "sluice"), dir
		if out, err := exec.Command("go", "build", "-C", "../..", "-o", binary,
			"./cmd/sluice").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build sluice: %v\n%s", err, out)
			return 1
		}
		defer func() {
			if server != nil {
				server.Close()
			}
		}()
		return m.Run()
	}())
}

// server serves the repositories below work. It starts once.
var server *httptest.Server

// source is a repository with a fleet. Its branches are pushed to a bare repository that server serves.
type source struct {
	t   *testing.T
	dir string
}

// newSource returns the test fleet with dependencies, and with an app whose objects and name are unusual. All tests
// share it, do not change it, and do not run in parallel.
func newSource(t *testing.T) *source {
	t.Helper()
	s := &source{t: t, dir: filepath.Join(work, "fleet")}
	if server != nil {
		return s
	}
	if err := os.CopyFS(s.dir, os.DirFS("../../testdata/fleet")); err != nil {
		t.Fatal(err)
	}
	shop := s.read("apps/shop/app.yaml")
	s.write("apps/shop/app.yaml", shop+"  dependsOn: [baseline, gateway]\n")
	s.write("apps/odd/app.yaml",
		"apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: odd.-app}\nspec:\n  namespace: odd\n  placement: {}\n  source: {manifests: {path: manifests/odd}}\n  dependsOn: [shop]\n")
	s.write("manifests/odd/all.yaml", odd)
	served := serve(t, filepath.Join(work, "served"))
	s.run("git", "init", "-q", "--bare", "-b", "main", filepath.Join(work, "served", "acme", "fleet.git"))
	s.run("git", "init", "-q", "-b", "main")
	s.run("git", "add", "-A")
	s.run("git", "commit", "-qm", "start")
	s.run("git", "remote", "add", "origin", served.URL+"/acme/fleet.git")
	s.run("git", "push", "-q", "origin", "main")
	s.run(binary, "hydrate", "--push", "--allow-policy", "plaintext-secret", "--reason", "a fixture")
	s.run(binary, "promote", "staging", "--no-policy")
	s.run(binary, "promote", "prod", "--no-policy")
	server = served
	return s
}

// odd are objects with values that a builder could misread.
const odd = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "odd:reader"}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: odd, annotations: {note: "1e3"}}
data:
  "yes": "no"
  octal: "0755"
  null.txt: "null"
  empty: ""
  shell: "${HOME} $(VAR) $$"
  tabs: "a\tb\n\n  c \n"
  script: |
    #!/bin/sh
    echo "---"
    ---
    exit 0
---
apiVersion: v1
kind: ConfigMap
metadata: {name: odd, namespace: elsewhere}
data: {a: b}
---
apiVersion: v1
kind: Secret
metadata: {name: odd}
stringData: {key: "!!binary"}
---
apiVersion: example.com/v1
kind: Odd
metadata: {name: odd}
spec: {big: 9007199254740993, float: 1.50, time: "2024-01-02T03:04:05Z", list: [null, 1, "1", true, "true"]}
`

func (s *source) read(name string) string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

func (s *source) write(name, data string) {
	s.t.Helper()
	file := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a program in the source repository and returns its output.
func (s *source) run(name string, args ...string) string {
	s.t.Helper()
	c := exec.CommandContext(s.t.Context(), name, args...)
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	c.Dir = s.dir
	c.Env = append(os.Environ(), "HOME="+s.t.TempDir(), "GIT_CONFIG_SYSTEM=/dev/null", "SLUICE_OFFLINE=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada",
		"GIT_COMMITTER_EMAIL=ada@example.com")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		s.t.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String()
}

// bootstrap returns the objects that sluice prints for a cluster.
func (s *source) bootstrap(kind, cluster string, args ...string) []*unstructured.Unstructured {
	s.t.Helper()
	out := objects(s.t, s.run(binary, append([]string{"bootstrap", kind, "--cluster", cluster}, args...)...))
	if len(out) == 0 {
		s.t.Fatalf("sluice bootstrap %s prints nothing", kind)
	}
	return out
}

// objects decodes a stream of documents.
func objects(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(&u.Object); err != nil {
			if err.Error() == "EOF" {
				return out
			}
			t.Fatal(err)
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
}

// serve serves the repositories below a folder with git http-backend; anybody may push.
func serve(t *testing.T, root string) *httptest.Server {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env: []string{
			"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x",
			"GIT_CONFIG_GLOBAL=/dev/null",
		},
	})
}
