package hydrate_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// A hydration that plans only the affected targets writes what a first hydration of the same commit writes, records
// included.
func TestStepsGiveTheTreesOfAFirstHydration(t *testing.T) {
	r := tenants(t)
	expect(r, hydrateAll(r), "dev updated 6/6 moved 2")
	const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
	configMap := func(name, value string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {a: " + value + "}\n"
	}
	app := func(name, namespace string) string {
		return base + "App\nmetadata: {name: " + name + "}\nspec: {namespace: " + namespace +
			", placement: {}, source: {manifests: {path: " + name + "}}}\n"
	}
	for _, step := range []struct {
		what   string
		change func(r *hydratetest.Repo)
		want   string
	}{
		{"one app of one workspace", func(r *hydratetest.Repo) {
			r.Write("workspaces/team-a/m/web.yaml",
				configMap("web", "two"))
		}, "dev updated 2/6 moved 2"},
		{"another app of it", func(r *hydratetest.Repo) {
			r.Write("workspaces/team-a/apps/shop/app.yaml", app("shop", "team-a"))
			r.Write("workspaces/team-a/shop/c.yaml", configMap("shop", "one"))
		}, "dev updated 2/8 moved 2"},
		{"an app of the fleet and a third workspace", func(r *hydratetest.Repo) {
			r.Write("workspaces/team-c.yaml", base+
				"Workspace\nmetadata: {name: team-c}\nspec: {clusters: {matchLabels: {cluster: dev-1}}, namespaces: [team-c]}\n")
			r.Write("workspaces/team-c/apps/shop/app.yaml", app("shop", "team-c"))
			r.Write("workspaces/team-c/shop/c.yaml", configMap("shop", "one"))
			r.Write("m/web.yaml", configMap("web", "two"))
		}, "dev updated 3/9 moved 2"},
		{"the last app of a workspace moves to the fleet", func(r *hydratetest.Repo) {
			r.Git("rm", "-rq", "workspaces/team-c/apps")
			r.Write("apps/shop/app.yaml", app("shop", "shop"))
			r.Write("shop/c.yaml", configMap("shop", "one"))
		}, "dev updated 2/10 moved 2"},
		{"a cluster is frozen, and an app goes", func(r *hydratetest.Repo) {
			r.Write("clusters/dev-2.yaml", base+
				"Cluster\nmetadata: {name: dev-2}\nspec: {environment: dev, state: frozen}\n")
			r.Git("rm", "-rq", "workspaces/team-a/apps/shop")
		}, "dev updated 0/4 moved 1"},
		{"it is active again", func(r *hydratetest.Repo) {
			r.Write("clusters/dev-2.yaml", base+"Cluster\nmetadata: {name: dev-2}\nspec: {environment: dev}\n")
		}, "dev updated 0/8 moved 1"},
		{"a custom kind becomes cluster-scoped", func(r *hydratetest.Repo) {
			r.Write("m/kind.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\nspec:\n  group: example.com\n  scope: Cluster\n  names: {kind: Thing, plural: things}\n  versions: [{name: v1, served: true, storage: true}]\n")
			r.Write("workspaces/team-b/m/thing.yaml", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n")
		}, "dev updated 4/8 moved 2"},
		{"and namespaced", func(r *hydratetest.Repo) {
			r.Write("m/kind.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {kind: Thing, plural: things}\n  versions: [{name: v1, served: true, storage: true}]\n")
		}, "dev updated 4/8 moved 2"},
	} {
		step.change(r)
		r.Commit(step.what)
		expect(r, hydrateAll(r), step.want)
		stepped := r.Git("rev-parse", "env/dev^{tree}")
		if step.what == "a cluster is frozen, and an app goes" {
			continue // a first hydration leaves a frozen cluster out
		}
		r.Git("branch", "-qD", "env/dev", "cluster/dev-1", "cluster/dev-2")
		hydrateAll(r)
		if first := r.Git("rev-parse", "env/dev^{tree}"); first != stepped {
			t.Errorf("%s:\nGit is\n%s", step.what, r.Git("diff", stepped, first))
		}
	}
	r.Git("fsck", "--strict", "--full")
}

// A workspace whose repository cannot be fetched at first is rendered as soon as it can be, although no commit of the
// fleet changes it.
func TestAWorkspaceThatCouldNotBeFetchedIsRenderedLater(t *testing.T) {
	r := tenants(t)
	hydrateAll(r)
	const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
	other := hydratetest.New(t)
	other.Write("apps/shop/app.yaml", base+
		"App\nmetadata: {name: shop}\nspec: {namespace: team-c, placement: {}, source: {manifests: {path: m}}}\n")
	other.Write("m/shop.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop}\n")
	other.Commit("shop")
	const url = "https://git.example.com/acme/team-c"
	r.Write("repositories/team-c.yaml", base+"Repository\nmetadata: {name: team-c}\nspec: {url: \""+url+
		"\", branch: main}\n")
	r.Write("workspaces/team-c.yaml", base+
		"Workspace\nmetadata: {name: team-c}\nspec: {repository: team-c, clusters: {}, namespaces: [team-c]}\n")
	r.Write("sluice.lock", "apiVersion: sluice.dev/v1alpha1\nkind: Lock\ncharts: []\nrepositories:\n- {name: team-c, url: \""+url+"\", wanted: refs/heads/main, resolved: refs/heads/main, commit: "+other.Git("rev-parse", "HEAD")+"}\n")
	r.Commit("team-c joins")
	if dev := hydrateAll(r).Environments[0]; dev.Status != hydrate.StatusUpdated || len(dev.Held) != 1 ||
		!strings.Contains(dev.Held[0].Reason, "cannot be fetched") {
		t.Fatalf("Summary is %s, the dev is %+v", dev.Summary(), dev)
	}
	r.Git("fetch", "-q", other.Dir, "HEAD")
	expect(r, hydrateAll(r), "dev updated 2/8 moved 2")
	if got := r.Git("ls-tree", "-r", "--name-only", "cluster/dev-2"); !strings.Contains(got,
		"workspaces/team-c/shop/configmap-shop.yaml") {
		t.Errorf("the branch has\n%s", got)
	}
	expect(r, hydrateAll(r), "dev unchanged 0/8 moved 0")
}
