package hydrate_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/verify"
)

func expect(r *hydratetest.Repo, result *hydrate.Result, want ...string) {
	r.T.Helper()
	var got []string
	for _, e := range result.Environments {
		line := fmt.Sprintf("%s %s %d/%d moved %d", e.Name, e.Status, e.Rendered, e.Targets, len(e.Clusters))
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		r.T.Errorf("got %q, want %q (%+v)", got, want, result.Environments)
	}
}

func TestOnlyChangedTargetsAreRenderedAndMoved(t *testing.T) {
	r := hydratetest.Demo(t)
	expect(r, r.Hydrate(nil), "dev updated 7/7 moved 2", "staging updated 7/7 moved 2", "prod updated 11/11 moved 3")
	expect(r, r.Hydrate(nil), "dev unchanged 0/7 moved 0", "staging unchanged 0/7 moved 0",
		"prod unchanged 0/11 moved 0")
	for _, c := range []string{"dev-1", "prod-eu-1", "prod-edge-1"} {
		env, _, _ := strings.Cut(c, "-")
		if tree, sub := r.Git("rev-parse", "cluster/"+c+"^{tree}"), r.Git("rev-parse", "env/"+env+":"+c); tree != sub {
			t.Errorf("%s: %s is not %s", c, tree, sub)
		}
	}
	r.Write("apps/shop/layers/region/us-east-1/values.yaml", "config: {currency: CAD}\n")
	r.Commit("Canada")
	expect(r, r.Hydrate(nil), "dev updated 0/7 moved 0", "staging updated 0/7 moved 0", "prod updated 1/11 moved 1")
	if got := r.Git("log", "-1", "--format=%an %cn %ad|%s|%(trailers:key=Sluice-Environment,valueonly)",
		"--date=iso-strict", "cluster/prod-us-1"); !strings.HasPrefix(got,
		"A Sluice 2024-01-02T03:04:05+01:00|Canada|prod") {
		t.Errorf("the result of Git is %q", got)
	}
	r.Write("README.md", "nobody reads this\n")
	r.Commit("readme")
	expect(r, r.Hydrate(nil), "dev updated 0/7 moved 0", "staging updated 0/7 moved 0", "prod updated 0/11 moved 0")
	r.Git("fsck", "--strict", "--full")
	found, err := verify.Run(t.Context(), r.Hydrator(1), gitstore.Commit{Tree: mustTree(r)}, nil, time.Now())
	if err != nil || len(found) != 3 || found[0].Status != "ok" || found[2].Status != "ok" {
		t.Errorf("the found is %+v, the error is %v", found, err)
	}
}

func mustTree(r *hydratetest.Repo) gitstore.Hash {
	h, err := gitstore.ParseHash(r.Git("rev-parse", "HEAD^{tree}"))
	if err != nil {
		r.T.Fatal(err)
	}
	return h
}

func TestOnlyEnvironmentsOfTheTrunkAreWritten(t *testing.T) {
	r := hydratetest.Demo(t)
	none := func(q *hydrate.Request) { q.Environments = nil }
	expect(r, r.Hydrate(none), "dev updated 7/7 moved 2", "staging checked 7/7 moved 0", "prod checked 11/11 moved 0")
	if got := r.Git("branch", "--format=%(refname:short)"); strings.Contains(got, "prod") {
		t.Errorf("prod was written: %s", got)
	}
	r.Write("apps/shop/layers/environment/prod/values.yaml", "replicas: many\n")
	r.Commit("break prod")
	result := r.Hydrate(none)
	expect(r, result, "dev updated 0/7 moved 0", "staging checked 7/7 moved 0", "prod failed 11/11 moved 0")
	if f := result.Environments[2].Failures; result.OK() || len(f) != 1 || f[0].Cluster != "prod-us-1" ||
		!strings.Contains(f[0].Message, "replicas") {
		t.Errorf("the failures are %+v", f)
	}
}

func TestRemovedAppsAndTheDeletionLimit(t *testing.T) {
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	r.Git("rm", "-rq", "apps/baseline")
	r.Commit("no baseline")
	expect(r, r.Hydrate(nil), "dev updated 0/5 moved 2", "staging updated 0/5 moved 2", "prod updated 0/8 moved 3")
	if got := r.Git("ls-tree", "-r", "--name-only", "env/dev"); strings.Contains(got, "baseline") {
		t.Errorf("baseline is still there:\n%s", got)
	}
	r.Git("rm", "-rq", "apps/monitor", "apps/gateway")
	r.Commit("hardly anything")
	result := r.Hydrate(nil)
	if e := result.Environments[2]; e.Status != hydrate.StatusRefused ||
		!strings.Contains(e.Reason, "--max-deletions") {
		t.Errorf("the entry is %+v", e)
	}
	result = r.Hydrate(func(q *hydrate.Request) { q.MaxDeletions = 1000 })
	if !result.OK() {
		t.Errorf("the result is %+v", result)
	}
}

// An environment or a cluster that would be empty, or would lose more than a third of its objects, is refused with the
// command that allows it. Whatever replaces objects may do so, and a retired cluster may lose everything.
func TestLossOfAnEnvironmentOrACluster(t *testing.T) {
	t.Parallel()
	chart := func(objects ...string) string {
		var out strings.Builder
		for _, name := range objects {
			fmt.Fprintf(&out, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n---\n", name)
		}
		return out.String()
	}
	const cluster = "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: %s, labels: {some: %q}}\nspec: {environment: dev, state: %s}\n"
	const app = "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: %s}\nspec: {namespace: n, placement: %s, source: {manifests: {path: %s}}}\n"
	dev := func(q *hydrate.Request) { q.Environments = []string{"dev"} }
	for name, c := range map[string]struct {
		safety string
		edit   func(r *hydratetest.Repo)
		want   string // "" if it is written
	}{
		"emptied": {
			"", func(r *hydratetest.Repo) { r.Git("rm", "-rq", "apps") },
			"environment dev would lose all its objects (12): if that is right, run `sluice hydrate --env dev --max-deletions 12`",
		},
		"a third": {"", func(r *hydratetest.Repo) { r.Write("base/a.yaml", chart("a", "b")) }, ""},
		"more than a third": {
			"", func(r *hydratetest.Repo) { r.Write("base/a.yaml", chart("a")) },
			"environment dev would lose 8 of its 12 objects, more than a third: if that is right, run `sluice hydrate --env dev --max-deletions 8`",
		},
		"a cluster is emptied": {"", func(r *hydratetest.Repo) {
			r.Write("apps/base/app.yaml", fmt.Sprintf(app, "base", "{matchLabels: {some: \"yes\"}}", "base"))
		}, "cluster b would lose all its objects (3): if that is right, run `sluice hydrate --env dev --max-deletions 3`"},
		"replaced": {"", func(r *hydratetest.Repo) { r.Write("base/a.yaml", chart("a", "v", "w")) }, ""},
		"retired": {"", func(r *hydratetest.Repo) {
			r.Write("clusters/b.yaml", fmt.Sprintf(cluster, "b", "no", "retired"))
		}, ""},
		"the fleet allows it":   {"  safety: {maxDeletions: 100%}\n", func(r *hydratetest.Repo) { r.Git("rm", "-rq", "apps") }, ""},
		"the fleet allows half": {"  safety: {maxDeletions: 50%}\n", func(r *hydratetest.Repo) { r.Write("base/a.yaml", chart("a", "b")) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := hydratetest.New(t)
			r.Write("sluice.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec:\n  environments: [{name: dev}]\n"+c.safety)
			for _, name := range []string{"a", "b", "c", "d"} {
				some := map[bool]string{true: "no", false: "yes"}[name == "b"]
				r.Write("clusters/"+name+".yaml", fmt.Sprintf(cluster, name, some, "active"))
			}
			r.Write("base/a.yaml", chart("a", "b", "c"))
			r.Write("apps/base/app.yaml", fmt.Sprintf(app, "base", "{}", "base"))
			r.Commit("a fleet")
			if result := r.Hydrate(dev); !result.OK() {
				t.Fatalf("the first run: %+v", result)
			}
			c.edit(r)
			r.Commit("a change")
			got := r.Hydrate(dev).Environments[0]
			if got.Reason != c.want || (got.Status == hydrate.StatusRefused) != (c.want != "") {
				t.Errorf("the environment is %s: %q, want %q", got.Status, got.Reason, c.want)
			}
			if c.want == "" {
				return
			}
			if got := r.Hydrate(func(q *hydrate.Request) { q.Environments, q.MaxDeletions = []string{"dev"}, 12 }); !got.OK() {
				t.Errorf("with --max-deletions: %+v", got.Environments[0])
			}
			r.Write("README.md", "a later commit\n")
			r.Commit("later")
			if got := r.Hydrate(dev); !got.OK() {
				t.Errorf("the commit after the allowed one: %+v", got.Environments[0])
			}
		})
	}
}

func TestRetiredAndFrozenClusters(t *testing.T) {
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	before := r.Git("rev-parse", "cluster/prod-eu-1")
	for name, state := range map[string]string{"prod-edge-1": "retired", "prod-eu-1": "frozen"} {
		data, err := os.ReadFile(filepath.Join(r.Dir, "clusters", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		r.Write("clusters/"+name+".yaml", string(data)+"  state: "+state+"\n")
	}
	r.Write("apps/shop/layers/global/values.yaml", "replicas: 9\nhost: x.example.com\n")
	r.Commit("retire and freeze")
	r.Hydrate(func(q *hydrate.Request) { q.MaxDeletions = 1000 })
	if got := r.Git("rev-parse", "cluster/prod-eu-1"); got != before {
		t.Error("a frozen cluster moved")
	}
	if got := r.Git("ls-tree", "--name-only", "env/prod"); strings.Contains(got, "prod-edge-1") ||
		!strings.Contains(got, "prod-eu-1") {
		t.Errorf("env/prod holds %s", got)
	}
	r.Git("rev-parse", "cluster/prod-edge-1")
	r.Hydrate(func(q *hydrate.Request) { q.Prune = true })
	if got := r.Git("branch", "--format=%(refname:short)"); strings.Contains(got, "prod-edge-1") ||
		!strings.Contains(got, "cluster/prod-us-1") {
		t.Errorf("after --prune: %s", got)
	}
}

// A cluster that lost its last app while it was frozen loses the files when it is active again.
func TestUnfrozenClusterWithoutTargets(t *testing.T) {
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	const file = "clusters/prod-eu-1.yaml"
	active, err := os.ReadFile(filepath.Join(r.Dir, file))
	if err != nil {
		t.Fatal(err)
	}
	r.Write(file, string(active)+"  state: frozen\n")
	r.Git("rm", "-rq", "apps")
	r.Commit("freeze, and remove all apps")
	many := func(q *hydrate.Request) { q.MaxDeletions = 1000 }
	r.Hydrate(many)
	if got := r.Git("ls-tree", "-r", "--name-only", "env/prod"); !strings.Contains(got, "prod-eu-1/shop") ||
		strings.Contains(got, "prod-us-1/shop") {
		t.Fatalf("the test is void: env/prod has\n%s", got)
	}
	r.Write(file, string(active))
	r.Commit("active again")
	r.Hydrate(many)
	if got := r.Git("ls-tree", "-r", "--name-only", "env/prod"); strings.Contains(got, "prod-eu-1/shop") {
		t.Errorf("env/prod keeps\n%s", got)
	}
}

func TestForeignCommitsAreNotOverwritten(t *testing.T) {
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	human := func(branch string) {
		r.Git("checkout", "-q", branch)
		r.Write("hotfix.yaml", "a: b\n")
		r.Commit("a human's hotfix")
		r.Git("checkout", "-q", "main")
	}
	human("env/dev")
	r.Write("README.md", "x\n")
	r.Commit("next")
	result := r.Hydrate(nil)
	if e := result.Environments[0]; e.Status != hydrate.StatusRefused ||
		!strings.Contains(e.Reason, "--overwrite-foreign") {
		t.Errorf("the entry is %+v", e)
	}
	if !result.Environments[2].Status.OK() {
		t.Errorf("a foreign commit in one environment stopped another: %+v", result.Environments[2])
	}
	found, err := verify.Run(t.Context(), r.Hydrator(1), gitstore.Commit{Tree: mustTree(r)}, []string{"dev"},
		time.Now())
	if err != nil || found[0].Status != "differs" || len(found[0].Differences) != 1 ||
		found[0].Differences[0].Path != "hotfix.yaml" {
		t.Errorf("the found is %+v, the error is %v", found, err)
	}
	result = r.Hydrate(func(q *hydrate.Request) { q.Overwrite = true })
	if !result.OK() || strings.Contains(r.Git("ls-tree", "--name-only", "env/dev"), "hotfix") ||
		!strings.Contains(r.Git("log", "--format=%s", "env/dev"), "a human's hotfix") {
		t.Errorf("the environments are %+v", result.Environments[0])
	}
	human("cluster/dev-1")
	r.Write("apps/shop/layers/global/values.yaml", "replicas: 9\nhost: x.example.com\n")
	r.Commit("touch shop")
	if e := r.Hydrate(nil).Environments[0]; e.Status != hydrate.StatusRefused ||
		!strings.Contains(e.Reason, "cluster/dev-1") {
		t.Errorf("the entry is %+v", e)
	}
}

func TestDeletedBranchesStayDeleted(t *testing.T) {
	r := hydratetest.Demo(t)
	r.Hydrate(nil)
	r.Write("apps/shop/layers/global/values.yaml", "replicas: 9\nhost: x.example.com\n")
	r.Commit("touch shop")
	r.Git("branch", "-qD", "cluster/prod-us-1")
	if e := r.Hydrate(nil).Environments[2]; e.Status != hydrate.StatusRefused ||
		!strings.Contains(e.Reason, "--recreate") {
		t.Errorf("the entry is %+v", e)
	}
	if !r.Hydrate(func(q *hydrate.Request) { q.Recreate = true }).OK() {
		t.Error("--recreate did not create the branch")
	}
	r.Git("branch", "-qD", "env/dev")
	if e := r.Hydrate(nil).Environments[0]; e.Status != hydrate.StatusRefused ||
		!strings.Contains(e.Reason, "deleted env/dev") {
		t.Errorf("the entry is %+v", e)
	}
}

func TestOlderStateNeverOverwritesNewer(t *testing.T) {
	r := hydratetest.Demo(t)
	r.Write("apps/shop/layers/global/values.yaml", "replicas: 9\nhost: x.example.com\n")
	r.Commit("second")
	r.Hydrate(nil)
	tip := r.Git("rev-parse", "env/dev")
	h := r.Hydrator(2)
	old, err := h.Store.Resolve(t.Context(), "HEAD~1")
	if err != nil {
		t.Fatal(err)
	}
	result := r.Hydrate(func(q *hydrate.Request) { q.Commit = old })
	if e := result.Environments[0]; e.Status != hydrate.StatusSuperseded || !result.OK() ||
		r.Git("rev-parse", "env/dev") != tip {
		t.Errorf("the entry is %+v", e)
	}
	r.Git("commit", "-q", "--amend", "-m", "rewritten")
	if e := r.Hydrate(nil).Environments[0]; e.Status != hydrate.StatusRefused ||
		!strings.Contains(e.Reason, "rewritten") {
		t.Errorf("the entry is %+v", e)
	}
}

const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s.example.com}
spec: {group: example.com, scope: %s, names: {kind: %s, plural: x}, versions: []}
`

func TestScopesOfCustomKindsComeFromTheFleet(t *testing.T) {
	r := hydratetest.Demo(t)
	app := func(name, manifests string) {
		r.Write("apps/"+name+"/app.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: "+name+
			"}\nspec: {namespace: own, placement: {matchLabels: {cluster: dev-1}}, source: {manifests: {path: m/"+name+
			"}}}\n")
		r.Write("m/"+name+"/all.yaml", manifests)
	}
	app("objects", "apiVersion: example.com/v1\nkind: Wide\nmetadata: {name: w}\n---\napiVersion: example.com/v1\nkind: Narrow\nmetadata: {name: n1}\n---\napiVersion: example.com/v1\nkind: Unknown\nmetadata: {name: u}\n")
	app("kinds", fmt.Sprintf(crd, "wides", "Cluster", "Wide")+"---\n"+
		fmt.Sprintf(crd, "narrows", "Namespaced", "Narrow"))
	r.Commit("custom kinds")
	result := r.Hydrate(nil)
	if !result.OK() {
		t.Fatalf("the result is %+v", result)
	}
	show := func(name string) string { return r.Git("show", "env/dev:dev-1/objects/"+name+".yaml") }
	if strings.Contains(show("wide-w"), "namespace") || !strings.Contains(show("narrow-n1"), "namespace: own") ||
		!strings.Contains(show("unknown-u"), "namespace: own") {
		t.Errorf("%s\nshow is\n%s\nshow is\n%s", show("wide-w"), show("narrow-n1"), show("unknown-u"))
	}
	if w := result.Environments[0].Notes; len(w) != 1 || !strings.Contains(w[0].Message, "Unknown.example.com") {
		t.Errorf("the notes are %q", w)
	}
	app("kinds", fmt.Sprintf(crd, "wides", "Cluster", "Wide")+"---\n"+fmt.Sprintf(crd, "narrows", "Cluster", "Narrow"))
	r.Commit("narrow is wide now")
	expect(r, r.Hydrate(nil), "dev updated 2/9 moved 1", "staging updated 0/7 moved 0", "prod updated 0/11 moved 0")
	if strings.Contains(show("narrow-n1"), "namespace") {
		t.Errorf("show is %s", show("narrow-n1"))
	}
	r.Git("rm", "-rq", "apps/kinds", "m/kinds")
	r.Commit("no kinds")
	r.Hydrate(nil)
	if !strings.Contains(show("wide-w"), "namespace: own") {
		t.Errorf("show is %s", show("wide-w"))
	}
}

func TestUnstableOutput(t *testing.T) {
	r := hydratetest.Demo(t)
	r.Write("charts/web/templates/secret.yaml",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: {{ randAlphaNum 12 }}, fixed: a}\n")
	r.Commit("random")
	result := r.Hydrate(nil)
	if e := result.Environments[0]; e.Status != hydrate.StatusFailed ||
		!strings.Contains(e.Failures[0].Message, "stringData.password") ||
		!strings.Contains(e.Failures[0].Message, "unstable: keep") {
		t.Fatalf("the entry is %+v", e)
	}
	for _, app := range []string{"shop", "gateway"} {
		data, err := os.ReadFile(filepath.Join(r.Dir, "apps", app, "app.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		r.Write("apps/"+app+"/app.yaml", string(data)+"  unstable: keep\n")
	}
	r.Commit("keep")
	if !r.Hydrate(nil).OK() {
		t.Fatal("unstable: keep did not keep the value")
	}
	secret := func(c string) string { return r.Git("show", "env/prod:"+c+"/shop/secret-s.yaml") }
	first := secret("prod-eu-1")
	if first == secret("prod-us-1") {
		t.Error("two clusters have one password")
	}
	r.Write("charts/web/templates/secret.yaml",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: {{ randAlphaNum 12 }}, fixed: b}\n")
	r.Commit("fixed changes")
	r.Hydrate(nil)
	if got := secret("prod-eu-1"); got != strings.Replace(first, "fixed: a", "fixed: b", 1) {
		t.Errorf("got\n%s\nafter\n%s", got, first)
	}
	found, err := verify.Run(t.Context(), r.Hydrator(1), gitstore.Commit{Tree: mustTree(r)}, nil, time.Now())
	if err != nil || found[2].Status != "ok" {
		t.Errorf("the found is %+v, the error is %v", found, err)
	}
}

func TestFailuresNameTheirTarget(t *testing.T) {
	for name, c := range map[string]struct {
		file, text, want string
	}{
		"identity twice": {
			"manifests/baseline/again.yaml",
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: baseline, labels: {a: b}}\n",
			"Namespace baseline is rendered twice, from manifests/baseline/again.yaml and from manifests/baseline/",
		},
		"no object": {"manifests/baseline/x.yaml", "hello\n", `manifests/baseline/x.yaml: document 1`},
		"remote base": {
			"kustomize/monitor/overlays/dev/kustomization.yaml",
			"resources: [\"https://example.com/x\"]\n", "https://example.com/x",
		},
		"unset": {
			"apps/shop/layers/global/values.yaml", "a: ${cluster.vars.nope}\nhost: x\n",
			"apps/shop/layers/global/values.yaml:1:4",
		},
		"schema": {
			"apps/shop/layers/global/values.yaml", "image: {repository: 1, tag: x}\nhost: x\n",
			"values.schema.json",
		},
		"template": {"charts/web/templates/x.yaml", "{{ fail \"not like this\" }}\n", "not like this"},
		"unlocked": {
			"apps/baseline/app.yaml",
			"apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: baseline}\nspec: {namespace: b, placement: {}, source: {helm: {chart: x, repo: \"https://example.com\", version: 1.0.0}}}\n", "sluice deps lock",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := hydratetest.Demo(t)
			r.Write(c.file, c.text)
			r.Commit("break")
			e := r.Hydrate(nil).Environments[0]
			if e.Status != hydrate.StatusFailed || len(e.Failures) == 0 ||
				!strings.Contains(e.Failures[0].Message, c.want) || e.New != "" {
				t.Errorf("the entry is %+v", e)
			}
			if got := r.Git("branch", "--format=%(refname:short)"); strings.Contains(got, "env/dev") {
				t.Error("a failed environment was written")
			}
		})
	}
	r := hydratetest.Demo(t)
	if err := os.Symlink("/etc/passwd", filepath.Join(r.Dir, "manifests/baseline/link.yaml")); err != nil {
		t.Fatal(err)
	}
	r.Commit("link")
	if e := r.Hydrate(nil).Environments[0]; e.Status != hydrate.StatusFailed ||
		!strings.Contains(e.Failures[0].Message, "symbolic link") {
		t.Errorf("the entry is %+v", e)
	}
}

// Plays random edits. Hydrating commit by commit gives the same tree as hydrating the last commit from scratch with
// another number of jobs.
func TestTheSameCommitGivesTheSameTree(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 3))
		r := hydratetest.Demo(t)
		for step := range 6 {
			edit(r, rng)
			r.Commit(fmt.Sprint("step ", step))
			r.Hydrate(func(q *hydrate.Request) { q.MaxDeletions = 1000 })
		}
		fresh := &hydratetest.Repo{T: t, Dir: filepath.Join(t.TempDir(), "clone")}
		r.Git("clone", "-q", "--single-branch", "-b", "main", r.Dir, fresh.Dir)
		h := fresh.Hydrator(4)
		c, err := h.Store.Resolve(t.Context(), "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		result, err := h.Hydrate(t.Context(), hydrate.Request{
			Commit: c, Write: true,
			Environments: []string{"dev", "staging", "prod"},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range result.Environments {
			if !e.Status.OK() {
				continue
			}
			if a, b := r.Git("rev-parse", e.Branch+"^{tree}"), fresh.Git("rev-parse", e.Branch+"^{tree}"); a != b {
				t.Errorf("seed %d: %s: step by step %s, at once %s:\n%s", seed, e.Branch, a, b,
					fresh.Git("-C", r.Dir, "diff", "--stat", a, b))
			}
		}
	}
}

func edit(r *hydratetest.Repo, rng *rand.Rand) {
	n := rng.IntN(100)
	switch rng.IntN(7) {
	case 0:
		r.Write("layers/environment/prod/values.yaml", fmt.Sprintf("logLevel: l%d\n", n))
	case 1:
		r.Write("apps/shop/layers/cluster/prod-us-1/values.yaml", fmt.Sprintf("replicas: %d\n", n))
	case 2:
		r.Write("kustomize/monitor/base/collector.conf", fmt.Sprintf("interval = %d\n", n))
	case 3:
		r.Write("manifests/baseline/more.yaml", fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\n",
			n))
	case 4:
		r.Write("clusters/dev-2.yaml",
			fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev-2, labels: {region: eu-west-1}}\nspec: {environment: dev, class: core, vars: {shortName: d%d, lbRange: x}}\n", n))
	case 5:
		r.Write("apps/gateway/layers/class/edge/values.yaml", fmt.Sprintf("config: {n: %d}\n", n))
	default:
		r.Write("charts/web/values.yaml",
			fmt.Sprintf("replicas: %d\nimage: {repository: r, tag: t}\nlogLevel: info\nhost: \"\"\nresources: {}\nenv: {}\nconfig: {}\n", n))
	}
}

func TestComponentsReferenceFilesOutsideTheirFolder(t *testing.T) {
	r := hydratetest.Demo(t)
	r.Write("shared/team/kustomization.yaml",
		"apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {team: blue}\n")
	r.Write("apps/shop/layers/environment/dev/kustomization.yaml",
		"apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncomponents: [../../../../../shared/team]\n")
	r.Commit("team")
	r.Hydrate(nil)
	if got := r.Git("show", "cluster/dev-1:shop/service-shop.yaml"); !strings.Contains(got, "team: blue") {
		t.Errorf("\nthe result of Git is %s", got)
	}
	r.Write("shared/team/kustomization.yaml",
		"apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {team: red}\n")
	r.Commit("red")
	expect(r, r.Hydrate(nil), "dev updated 1/7 moved 1", "staging updated 0/7 moved 0", "prod updated 0/11 moved 0")
	if got := r.Git("show", "cluster/dev-1:shop/service-shop.yaml"); !strings.Contains(got, "team: red") {
		t.Errorf("\nthe result of Git is %s", got)
	}
}

func TestAffectedTargetsAreRendered(t *testing.T) {
	r := hydratetest.Demo(t)
	r.Write("kustomize/monitor/overlays/prod/kustomization.yaml", "resources: [../../base]\nnamespace: monitor\n")
	r.Commit("no retention")
	h := r.Hydrator(1)
	base, _ := h.Store.Resolve(t.Context(), "HEAD~1")
	head, _ := h.Store.Resolve(t.Context(), "HEAD")
	got, err := h.Affected(t.Context(), base.Tree, head.Tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range got {
		if a.App != "monitor" || !strings.HasPrefix(a.Cluster, "prod") || a.Effect != fleet.EffectChanged {
			t.Errorf("the first is %+v", a)
		}
	}
	if len(got) != 3 {
		t.Errorf("the result of Affected is %+v", got)
	}
}
