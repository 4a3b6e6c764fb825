package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the golden files of output branches anew")

// The tests of this file compare the branches that `sluice hydrate` writes with ids in testdata/golden. They use only
// the command and Git, so that they survive changes of the packages. A difference is a change of what users get: see
// goldenRepo.compare for how to look at it.

// goldenRepo is a source repository, with the commands that ran in it.
type goldenRepo struct {
	t      *testing.T
	dir    string // of the working tree
	env    []string
	record bytes.Buffer // what the golden file says
	files  bool         // record each file of the output, and not only each target
	clock  bool         // commits carry the time of day: record their authors and messages instead of their ids
}

// newGoldenRepo returns an empty repository with an identity and a cache of its own.
func newGoldenRepo(t *testing.T) *goldenRepo {
	t.Helper()
	home := t.TempDir()
	g := &goldenRepo{t: t, dir: filepath.Join(home, "fleet"), env: append(os.Environ(),
		"HOME="+home, "SLUICE_CACHE_DIR="+filepath.Join(home, "cache"), "SLUICE_OFFLINE=1",
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_AUTHOR_DATE=2024-01-02T03:04:05+02:00",
		"GIT_COMMITTER_NAME=Grace", "GIT_COMMITTER_EMAIL=grace@example.com", "GIT_COMMITTER_DATE=2024-02-03T04:05:06Z")}
	if err := os.MkdirAll(g.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	g.git("init", "-q", "-b", "main")
	return g
}

// run runs a command in the working tree and returns its standard output. The exit status 1 of sluice is for the
// caller.
func (g *goldenRepo) run(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(g.t.Context(), name, args...)
	cmd.Dir, cmd.Env = g.dir, g.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return strings.TrimRight(string(out), "\n"), err
}

func (g *goldenRepo) git(args ...string) string {
	g.t.Helper()
	out, err := g.run("git", args...)
	if err != nil {
		g.t.Fatal(err)
	}
	return out
}

// write writes a file of the source.
func (g *goldenRepo) write(name, text string) {
	g.t.Helper()
	file := filepath.Join(g.dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		g.t.Fatal(err)
	}
}

// replace changes a text of a file of the source.
func (g *goldenRepo) replace(name, before, after string) {
	g.t.Helper()
	text, err := os.ReadFile(filepath.Join(g.dir, filepath.FromSlash(name)))
	if err != nil || !bytes.Contains(text, []byte(before)) {
		g.t.Fatalf("%s does not contain %q: %v", name, before, err)
	}
	g.write(name, strings.ReplaceAll(string(text), before, after))
}

// folder copies a folder into the source.
func (g *goldenRepo) folder(from, to string) {
	g.t.Helper()
	if err := os.CopyFS(filepath.Join(g.dir, filepath.FromSlash(to)), os.DirFS(from)); err != nil {
		g.t.Fatal(err)
	}
}

// archive writes the files of a txtar archive whose names begin with a prefix, and leaves out those that only a script
// uses: files in no folder, except sluice.yaml.
func (g *goldenRepo) archive(file, prefix string) {
	g.t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, f := range a.Files {
		if name, ok := strings.CutPrefix(f.Name, prefix); ok && (strings.Contains(name, "/") || name == "sluice.yaml") {
			g.write(name, string(f.Data))
		}
	}
}

func (g *goldenRepo) commit(message string) {
	g.t.Helper()
	g.git("add", "-A", "-f")
	g.git("commit", "-q", "--no-verify", "-m", message)
}

// failure is a target that hydrate could not render.
type failure struct{ Cluster, App, File, Message string }

// hydrate runs sluice hydrate, records its result and the branches, and returns the failures.
func (g *goldenRepo) hydrate(args ...string) []failure {
	g.t.Helper()
	out, failed := g.run("sluice", append([]string{"hydrate", "-q", "-o", "json"}, args...)...)
	var result struct {
		Environments []struct {
			Environment, Status       string
			Targets, Rendered, Reused int
			Objects                   struct{ Total, Added, Changed, Removed int }
			Failures                  []failure
			Violations                []struct{ Rule, App, Object string }
			Held                      []struct{ Workspace string }
		}
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		g.t.Fatalf("%v\n%v", err, failed)
	}
	fmt.Fprintf(&g.record, "hydrate %s: %s\n", strings.Join(args, " "), g.git("log", "-1", "--format=%s"))
	var failures []failure
	for _, e := range result.Environments {
		fmt.Fprintf(&g.record, "  %s: %s, %d targets, %d rendered, %d reused, %d failed, %d objects, %d added, %d changed, %d removed\n",
			e.Environment, e.Status, e.Targets, e.Rendered, e.Reused, len(e.Failures), e.Objects.Total, e.Objects.Added,
			e.Objects.Changed, e.Objects.Removed)
		for _, f := range e.Failures {
			fmt.Fprintf(&g.record, "    failed: %s/%s\n", f.Cluster, f.App)
		}
		for _, v := range e.Violations {
			fmt.Fprintf(&g.record, "    violation: %s of %s: %s\n", v.Rule, v.App, v.Object)
		}
		for _, h := range e.Held {
			fmt.Fprintf(&g.record, "    held: workspace %s\n", h.Workspace)
		}
		failures = append(failures, e.Failures...)
	}
	g.branches()
	return failures
}

// branches records the output branches. Git lists them sorted.
func (g *goldenRepo) branches() {
	g.t.Helper()
	format := "  %(refname:lstrip=2) commit %(objectname) tree %(tree)"
	if g.clock {
		format = "  %(refname:lstrip=2) tree %(tree)\n    author %(authorname) %(authoremail) %(authordate:iso-strict)\n    committer %(committername) %(committeremail)\n%(contents)"
	}
	for line := range strings.Lines(g.git("for-each-ref", "--format="+strings.ReplaceAll(format, "\n", "%0a"),
		"refs/heads/env", "refs/heads/cluster")) {
		switch line = strings.TrimRight(line, "\n"); {
		case line == "":
		case strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "  env/") ||
			strings.HasPrefix(line, "  cluster/"):
			fmt.Fprintln(&g.record, line)
		default: // of a message
			fmt.Fprintf(&g.record, "    | %s\n", line)
		}
	}
}

// contents records the targets of the environment branches, and their files.
func (g *goldenRepo) contents() {
	g.t.Helper()
	for branch := range strings.Lines(g.git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/env")) {
		branch = strings.TrimSpace(branch)
		fmt.Fprintf(&g.record, "contents of %s\n", branch)
		for line := range strings.Lines(g.git("ls-tree", "-r", "-t", branch)) {
			meta, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
			depth := strings.Count(name, "/")
			// The app of a workspace is in workspaces/WORKSPACE/APP.
			target := depth == 1 || strings.HasPrefix(name, ".sluice/") ||
				depth == 3 && strings.Contains(name, "/workspaces/")
			if g.files && depth > 0 || target {
				fmt.Fprintf(&g.record, "  %s %s\n", meta, name)
			}
		}
	}
}

// compare compares the record with the golden file of the test. Its messages name the lines that differ.
// GOLDEN_KEEP=DIR keeps the repositories of all fleets whether they differ or not, so that those of two versions of
// Sluice can be compared.
func (g *goldenRepo) compare() {
	g.t.Helper()
	g.contents()
	name := strings.ReplaceAll(strings.TrimPrefix(g.t.Name(), "TestGolden"), "/", "-")
	if keep := os.Getenv("GOLDEN_KEEP"); keep != "" {
		if err := os.CopyFS(filepath.Join(keep, name), os.DirFS(g.dir)); err != nil {
			g.t.Fatal(err)
		}
	}
	file := filepath.Join("testdata", "golden", strings.ToLower(name)+".txt")
	if *update {
		if err := os.WriteFile(file, g.record.Bytes(), 0o644); err != nil {
			g.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		g.t.Fatal(err)
	}
	if bytes.Equal(want, g.record.Bytes()) {
		return
	}
	before, after := strings.Split(string(want), "\n"), strings.Split(g.record.String(), "\n")
	var text strings.Builder
	count := 0
	show := func(sign string, lines, others []string) {
		has := map[string]bool{}
		for _, line := range others {
			has[line] = true
		}
		for _, line := range lines {
			if !has[line] {
				if count++; count <= 80 {
					fmt.Fprintf(&text, "%s %s\n", sign, line)
				}
			}
		}
	}
	show("-", before, after)
	show("+", after, before)
	if count > 80 {
		fmt.Fprintf(&text, "and %d more\n", count-80)
	}
	g.t.Errorf(`the output branches differ from cmd/sluice/%[1]s:
%[2]s
To see the files that differ, run this test with GOLDEN_KEEP=/tmp/before at a commit where it passes, with GOLDEN_KEEP=/tmp/after here, and then
  git -C /tmp/after/%[3]s fetch -q /tmp/before/%[3]s '+refs/heads/*:refs/before/*'
  git -C /tmp/after/%[3]s diff refs/before/BRANCH BRANCH
If the change is intended: go test ./cmd/sluice -run TestGolden -update`, file, text.String(), name)
}

// TestGoldenOwn compares the branches of fleets of our own.
func TestGoldenOwn(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	const scripts = "../../testdata/script/"
	for name, play := range map[string]func(g *goldenRepo){
		// Helm, Kustomize and manifests in layers, and a value of one region that changes.
		"Harbour": func(g *goldenRepo) {
			g.folder("../../testdata/fleet", ".")
			g.commit("start")
			g.hydrate("--env", "dev,staging,prod")
			g.replace("apps/shop/layers/region/us-east-1/values.yaml", "currency: USD", "currency: CAD")
			g.commit("another currency in one region")
			g.hydrate("--env", "dev,staging,prod")
			g.hydrate("--env", "dev,staging,prod")
		},
		"Promote": func(g *goldenRepo) {
			g.clock = true
			g.folder("../../testdata/fleet", ".")
			g.commit("start")
			origin := filepath.Join(filepath.Dir(g.dir), "origin.git")
			g.git("clone", "-q", "--bare", g.dir, origin)
			g.git("remote", "add", "origin", origin)
			promote := func(more ...string) {
				for _, environment := range []string{"staging", "prod"} {
					if _, err := g.run("sluice", append([]string{"promote", environment, "--by", "grace"},
						more...)...); err != nil {
						g.t.Fatal(err)
					}
					fmt.Fprintf(&g.record, "promote %s\n", environment)
					g.fetched()
				}
			}
			g.hydratePushed()
			promote()
			g.replace("apps/shop/layers/global/values.yaml", "mind the gap", "mind the step")
			g.commit("greet otherwise")
			g.git("push", "-q", "origin", "main")
			g.hydratePushed()
			promote("--now", "--reason", "a test")
			if _, err := g.run("sluice", "rollback", "prod", "--reason", "a test", "--by", "grace"); err != nil {
				g.t.Fatal(err)
			}
			fmt.Fprintf(&g.record, "rollback prod\n")
			g.fetched()
		},
		// Hooks, CRDs, subcharts, variables, nulls, patches of layers, a frozen and a retired cluster.
		"Features": func(g *goldenRepo) {
			g.archive("testdata/golden/features.txtar", "")
			g.commit("start")
			g.hydrate("--env", "dev,prod")
			g.replace("layers/environment/dev/values.yaml", "tier: low", "tier: high")
			g.commit("another tier in dev")
			g.hydrate("--env", "dev,prod")
			g.replace("clusters/all.yaml", "{environment: dev, class: small, vars: {domain: two.example.com}}",
				"{environment: dev, class: small, state: retired}")
			g.commit("retire a cluster")
			g.hydrate("--env", "dev,prod", "--prune")
			g.replace("charts/app/templates/all.yaml", `{{ .Values.size | quote }}`, `{{ fail "no size" }}`)
			g.commit("break a chart")
			g.hydrate("--env", "dev,prod")
		},
		"Layouts": func(g *goldenRepo) {
			g.archive(scripts+"layouts.txtar", "repo/")
			g.commit("start")
			g.hydrate("--env", "dev,prod")
			g.replace("charts/web/values-prod.yaml", "size: 7", "size: 8")
			g.commit("another size in prod")
			g.hydrate("--env", "dev,prod")
		},
		// Two workspaces in folders, of which one breaks its bounds.
		"Workspaces": func(g *goldenRepo) {
			g.archive(scripts+"workspaces.txtar", "")
			g.commit("start")
			g.hydrate("--env", "dev,prod")
			g.write("workspaces/team-a/m/role.yaml",
				"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: x}\nrules: []\n")
			g.replace("workspaces/team-b/m/shop.yaml", "one", "two")
			g.commit("both teams")
			g.hydrate("--env", "dev,prod")
		},
		// A workspace, a chart, a layer and a Kustomize root of another repository.
		"Repositories": func(g *goldenRepo) {
			g.serve(scripts+"repositories.txtar", "components/")
			g.archive(scripts+"repositories.txtar", "acme/")
			g.replace("repositories/components.yaml", "URL", "http://git.example.com/lib.git")
			g.write("repositories/team.yaml",
				"apiVersion: sluice.dev/v1alpha1\nkind: Repository\nmetadata: {name: team}\nspec: {url: \"http://git.example.com/team.git\", branch: main}\n")
			g.write("workspaces/team.yaml",
				"apiVersion: sluice.dev/v1alpha1\nkind: Workspace\nmetadata: {name: team}\nspec: {repository: team, clusters: {}, namespaces: [team]}\n")
			g.pin()
			g.commit("pin")
			g.hydrate()
		},
		"Flux": func(g *goldenRepo) {
			g.archive(scripts+"import_flux.txtar", "")
			if err := os.Remove(filepath.Join(g.dir, "clusters/prod/elsewhere.yaml")); err != nil {
				g.t.Fatal(err)
			}
			g.imported()
			g.replace("apps/prod/values.yaml", "replicas: 5", "replicas: 6")
			g.commit("another value")
			g.hydrate()
		},
		"FluxRepositories": func(g *goldenRepo) {
			g.serve(scripts+"import_repositories.txtar", "lib/")
			g.archive(scripts+"import_repositories.txtar", "repo/")
			g.replace("clusters/prod/lib.yaml", "URL", "http://git.example.com/lib.git")
			g.write("repositories/lib.yaml",
				"apiVersion: sluice.dev/v1alpha1\nkind: Repository\nmetadata: {name: lib}\nspec: {url: \"http://git.example.com/lib.git\", tags: v1.*}\n")
			g.pin()
			g.commit("pin")
			g.hydrate()
		},
		"ArgoCD": func(g *goldenRepo) {
			g.archive(scripts+"import_argocd.txtar", "")
			if err := os.Remove(filepath.Join(g.dir, "argocd/jsonnet.yaml")); err != nil {
				g.t.Fatal(err)
			}
			g.imported()
			g.replace("charts/web/values-prod.yaml", "replicas: 5", "replicas: 6")
			g.commit("another value")
			g.hydrate()
		},
		// Argo CD and Flux in one fleet, with a parent that fails in the second commit.
		"Partial": func(g *goldenRepo) {
			g.archive(scripts+"import_partial.txtar", "")
			g.commit("start")
			g.hydrate()
			g.write("more/broken.yaml", "apiVersion: v1\nkind: [\n")
			g.commit("break a Kustomization")
			g.hydrate()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGoldenRepo(t)
			g.files = true
			play(g)
			g.compare()
		})
	}
}

// hydratePushed hydrates the branches of the remote.
func (g *goldenRepo) hydratePushed(args ...string) {
	g.t.Helper()
	if _, err := g.run("sluice", append([]string{"hydrate", "-q", "--push"}, args...)...); err != nil {
		g.t.Fatal(err)
	}
	fmt.Fprintf(&g.record, "hydrate --push %s: %s\n", strings.Join(args, " "), g.git("log", "-1", "--format=%s"))
	g.fetched()
}

// fetched records the branches of the remote.
func (g *goldenRepo) fetched() {
	g.t.Helper()
	g.git("fetch", "-q", "origin", "+refs/heads/env/*:refs/heads/env/*", "+refs/heads/cluster/*:refs/heads/cluster/*")
	g.branches()
}

// imported writes the sluice.yaml that imports the repository as it is, and hydrates it.
func (g *goldenRepo) imported() {
	g.t.Helper()
	g.commit("start")
	if _, err := g.run("sluice", "import", "--detect", "--write"); err != nil {
		g.t.Fatal(err)
	}
	g.commit("import")
	g.hydrate()
}

// pin writes sluice.lock.
func (g *goldenRepo) pin() {
	g.t.Helper()
	if _, err := g.run("sluice", "deps", "lock"); err != nil {
		g.t.Fatal(err)
	}
}

// serve serves two repositories as http://git.example.com/lib.git, which has files of an archive, and team.git, which
// has a workspace. The server is the proxy of g's commands, because ids depend on the address and a server of a test
// has a new port each time.
func (g *goldenRepo) serve(file, prefix string) {
	g.t.Helper()
	root := filepath.Dir(g.dir)
	for name, fill := range map[string]func(r *goldenRepo){
		"lib": func(r *goldenRepo) { r.archive(file, prefix) },
		"team": func(r *goldenRepo) {
			r.write("apps/shop/app.yaml",
				"apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: shop}\nspec: {namespace: team, placement: {}, source: {manifests: {path: m}}}\n")
			r.write("m/shop.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop}\n")
		},
	} {
		r := newGoldenRepo(g.t)
		fill(r)
		r.commit("v1")
		r.git("tag", "v1.0.0")
		bare := filepath.Join(root, name+".git")
		r.git("clone", "-q", "--bare", ".", bare)
		r.git("-C", bare, "config", "uploadpack.allowFilter", "true")
		r.git("-C", bare, "config", "uploadpack.allowAnySHA1InWant", "true")
	}
	backend := &cgi.Handler{
		Path: filepath.Join(g.git("--exec-path"), "git-http-backend"), InheritEnv: []string{"PATH"}, Stderr: io.Discard,
		Env: []string{
			"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
			"GIT_CONFIG_SYSTEM=" + os.DevNull,
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Scheme, r.URL.Host = "", ""
		backend.ServeHTTP(w, r)
	}))
	g.t.Cleanup(server.Close)
	g.env = append(g.env, "http_proxy="+server.URL, "HTTP_PROXY="+server.URL, "no_proxy=", "NO_PROXY=")
}
