package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	helmregistry "helm.sh/helm/v3/pkg/registry"
	"helm.sh/helm/v3/pkg/repo"

	"github.com/sluice-gitops/sluice/cmd/internal/cli"
)

// withoutConfinement is the name under which the test binary is the launcher of TestServeWithoutConfinement.
const withoutConfinement = "without-confinement"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil { // the tests of the service wait more than they work
		panic(err)
	}
	testscript.Main(m, map[string]func(){"sluice": func() {
		o := cli.System()
		o.Env.Leases.Settle = time.Second                     // scripts with branches in a registry wait for it at each push
		if self, err := exec.LookPath("sluice"); err == nil { // the test binary is not the command of that name
			o.Env.Executable = self
		} else {
			o.Env.Executable = os.Args[0]
		}
		os.Exit(cli.Main(context.Background(), os.Args[1:], o))
	}, withoutConfinement: launch, networkSide: serveNetworkSide})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	commands := map[string]func(*testscript.TestScript, bool, []string){
		"git-server": gitServer, "chart-repo": chartRepo, "oci-registry": ociRegistry, "exit": exitStatus,
		"replace": replace, "forge": forgeCommand, "keep": keep, "schema": outputSchema,
		"artifact-registry": artifactRegistry, "artifact": artifactIs, "artifact-tag": artifactTag, "cosign-key": cosignKey,
		"health": health,
	}
	maps.Copy(commands, networkCommands())
	testscript.Run(t, testscript.Params{
		Dir: "../../testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Values["forge"], env.Values["registry-down"] = new(*scriptForge), new(atomic.Bool)
			env.Values["red"] = new(atomic.Bool)
			if err := scriptEnvironment(env); err != nil {
				return err
			}
			return os.CopyFS(filepath.Join(env.WorkDir, "fleet"), os.DirFS("../../testdata/fleet"))
		},
		Cmds: commands,
		Condition: func(name string) (bool, error) {
			if name == "namespaces" {
				return namespaces(), nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
	})
}

// scriptEnvironment gives a script an identity, a Git configuration and a cache of its own. The cache is elsewhere,
// because some scripts commit everything in their folder.
func scriptEnvironment(env *testscript.Env) error {
	cache, err := os.MkdirTemp("", "sluice-script")
	if err != nil {
		return err
	}
	env.Defer(func() { _ = os.RemoveAll(cache) })
	env.Setenv("SLUICE_CACHE_DIR", cache)
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("SLUICE_OFFLINE", "1")
	env.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(env.WorkDir, ".gitconfig"))
	env.Setenv("GIT_CONFIG_SYSTEM", "/dev/null")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env.Setenv("GIT_"+who+"_NAME", "Ada")
		env.Setenv("GIT_"+who+"_EMAIL", "ada@example.com")
		env.Setenv("GIT_"+who+"_DATE", "2024-01-02T03:04:05Z")
	}
	return os.WriteFile(filepath.Join(env.WorkDir, ".gitconfig"),
		[]byte("[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n"), 0o600)
}

// exitStatus runs a command and compares its exit status: exit 3 sluice verify
func exitStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit STATUS COMMAND…")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

// outputSchema validates the output of the last command with the schema of a verb: schema status
func outputSchema(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: schema VERB")
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(ts.ReadFile("stdout")))
	ts.Check(err)
	ts.Check(ts.Exec("sluice", "schema", args[0]))
	text, err := jsonschema.UnmarshalJSON(strings.NewReader(ts.ReadFile("stdout")))
	ts.Check(err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	ts.Check(c.AddResource(args[0], text))
	schema, err := c.Compile(args[0])
	ts.Check(err)
	if list, ok := value.([]any); !ok || len(list) == 0 {
		ts.Fatalf("the output is not a list with entries")
	}
	ts.Check(schema.Validate(value))
}

// keep stores the output of the last command in a variable: keep NAME
func keep(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// replace changes a file: replace FILE OLD NEW
func replace(ts *testscript.TestScript, _ bool, args []string) {
	data := ts.ReadFile(args[0])
	if !strings.Contains(data, args[1]) {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(data, args[1], args[2])), 0o600))
}

// gitServer serves $WORK with git http-backend and sets $GIT_URL: git-server [USER PASSWORD]
func gitServer(ts *testscript.TestScript, _ bool, args []string) {
	out, err := exec.Command("git", "--exec-path").Output() //nolint:noctx // a moment
	ts.Check(err)
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env: []string{
			"GIT_PROJECT_ROOT=" + ts.Getenv("WORK"), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x",
			"GIT_CONFIG_GLOBAL=/dev/null",
		},
		Stderr: io.Discard,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); len(args) == 2 && (u != args[0] || p != args[1]) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	ts.Defer(server.Close)
	ts.Setenv("GIT_URL", server.URL)
}

// health answers the checks of promotions: `health start` sets $HEALTH_URL, `health red` and `health green` say what it
// answers.
func health(ts *testscript.TestScript, neg bool, args []string) {
	red, ok := ts.Value("red").(*atomic.Bool)
	if !ok || neg || len(args) != 1 {
		ts.Fatalf("usage: health start|red|green")
	}
	if red.Store(args[0] == "red"); args[0] != "start" {
		return
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if red.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	ts.Defer(server.Close)
	ts.Setenv("HEALTH_URL", server.URL)
}

// packed returns a small chart.
func packed(ts *testscript.TestScript, version string) string {
	c := &chart.Chart{
		Metadata: &chart.Metadata{APIVersion: "v2", Name: "tiny", Version: version},
		Templates: []*chart.File{{
			Name: "templates/c.yaml",
			Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tiny}\ndata: {version: {{ .Chart.Version | quote }}, v: {{ .Values.v | quote }}}\n"),
		}},
		Raw:    []*chart.File{{Name: "values.yaml", Data: []byte("v: default\n")}},
		Values: map[string]any{"v": "default"},
	}
	file, err := chartutil.Save(c, ts.MkAbs("."))
	ts.Check(err)
	return file
}

// chartRepo serves three versions of a chart and sets $CHART_REPO. After `chart-repo stop`, it answers nothing, and a
// request leaves the file chart-repo-was-asked.
func chartRepo(ts *testscript.TestScript, _ bool, args []string) {
	stopped, asked := filepath.Join(ts.Getenv("WORK"), ".chart-repo-stopped"), filepath.Join(ts.Getenv("WORK"), "chart-repo-was-asked")
	if len(args) == 1 && args[0] == "stop" {
		ts.Check(os.WriteFile(stopped, nil, 0o600))
		return
	}
	index := repo.NewIndexFile()
	files := map[string][]byte{}
	for _, version := range []string{"1.0.0", "1.1.0", "2.0.0"} {
		data, err := os.ReadFile(packed(ts, version))
		ts.Check(err)
		name := "tiny-" + version + ".tgz"
		files["/"+name] = data
		ts.Check(index.MustAdd(&chart.Metadata{APIVersion: "v2", Name: "tiny", Version: version}, name, "", ""))
	}
	file := ts.MkAbs("index.yaml")
	ts.Check(index.WriteFile(file, 0o600))
	var err error
	files["/index.yaml"], err = os.ReadFile(file)
	ts.Check(err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(stopped); err == nil {
			_ = os.WriteFile(asked, []byte(r.URL.Path), 0o600)
			http.NotFound(w, r)
			return
		}
		data, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	}))
	ts.Defer(server.Close)
	ts.Setenv("CHART_REPO", server.URL)
}

// ociRegistry runs a registry with a chart in it and sets $OCI.
func ociRegistry(ts *testscript.TestScript, _ bool, _ []string) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	ts.Defer(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	client, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP(), helmregistry.ClientOptWriter(io.Discard),
		helmregistry.ClientOptCredentialsFile(ts.MkAbs("none.json")))
	ts.Check(err)
	data, err := os.ReadFile(packed(ts, "3.1.0"))
	ts.Check(err)
	_, err = client.Push(data, fmt.Sprintf("%s/charts/tiny:3.1.0", host))
	ts.Check(err)
	ts.Setenv("OCI", host)
}
