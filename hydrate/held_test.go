package hydrate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/verify"
)

// tenants is a repository with an app of the fleet, and two workspaces with an app each.
func tenants(t *testing.T) *hydratetest.Repo {
	t.Helper()
	r := hydratetest.New(t)
	const base = "apiVersion: sluice.dev/v1alpha1\nkind: "
	r.Write("sluice.yaml", base+"Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}]}\n")
	for _, c := range []string{"dev-1", "dev-2"} {
		r.Write("clusters/"+c+".yaml", base+"Cluster\nmetadata: {name: "+c+"}\nspec: {environment: dev}\n")
	}
	r.Write("apps/web/app.yaml", base+
		"App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {manifests: {path: m}}}\n")
	r.Write("m/web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: one}\n")
	for _, team := range []string{"team-a", "team-b"} {
		r.Write("workspaces/"+team+".yaml", base+"Workspace\nmetadata: {name: "+team+
			"}\nspec: {clusters: {}, namespaces: ["+team+"]}\n")
		r.Write("workspaces/"+team+"/apps/web/app.yaml", base+"App\nmetadata: {name: web}\nspec: {namespace: "+team+
			", placement: {}, source: {manifests: {path: m}}}\n")
		r.Write("workspaces/"+team+"/m/web.yaml",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: one}\n")
	}
	r.Commit("tenants")
	return r
}

func hydrateAll(r *hydratetest.Repo) *hydrate.Result {
	return r.Hydrate(func(q *hydrate.Request) { q.Environments = nil })
}

func TestAppsOfWorkspacesHaveFoldersOfTheirOwn(t *testing.T) {
	r := tenants(t)
	expect(r, hydrateAll(r), "dev updated 6/6 moved 2")
	want := "web/configmap-web.yaml\nworkspaces/team-a/web/configmap-web.yaml\nworkspaces/team-b/web/configmap-web.yaml"
	if got := r.Git("ls-tree", "-r", "--name-only", "cluster/dev-1"); got != want {
		t.Errorf("the branch has\n%s", got)
	}
	if got := r.Git("show", "env/dev:.sluice/workspaces/team-a/dev-1.yaml"); !strings.Contains(got,
		"team-a/web: sha256:") || strings.Contains(got, "team-b") {
		t.Errorf("the inputs are\n%s", got)
	}
	expect(r, hydrateAll(r), "dev unchanged 0/6 moved 0")
	r.Git("rm", "-rq", "workspaces/team-b", "workspaces/team-b.yaml")
	r.Commit("team-b leaves")
	expect(r, hydrateAll(r), "dev updated 0/4 moved 2")
	for _, branch := range []string{"cluster/dev-1", "env/dev"} {
		if got := r.Git("ls-tree", "-r", "--name-only", branch); strings.Contains(got, "team-b") {
			t.Errorf("%s has\n%s", branch, got)
		}
	}
}

// The branch of an earlier version has the inputs of all workspaces in the file of the cluster. The next change gives
// them files of their own on every cluster, so that the tree is that of a branch that this version began.
func TestInputsOfAnEarlierVersionAreDivided(t *testing.T) {
	r := tenants(t)
	hydrateAll(r)
	records := r.Git("rev-parse", "env/dev:.sluice")
	var inputs strings.Builder
	for _, cluster := range []string{"dev-1", "dev-2"} {
		text := r.Git("show", "env/dev:.sluice/inputs/"+cluster+".yaml") + "\n"
		for _, team := range []string{"team-a", "team-b"} {
			text = strings.Replace(text, "apps:\n", strings.TrimSpace(r.Git("show", "env/dev:.sluice/workspaces/"+team+
				"/"+cluster+".yaml"))+"\n", 1)
		}
		fmt.Fprintf(&inputs, "100644 blob %s\t%s.yaml\n", r.Pipe(text, "hash-object", "-w", "--stdin"), cluster)
	}
	record := fmt.Sprintf("100644 blob %s\tenvironment.yaml\n040000 tree %s\tinputs\n",
		r.Git("rev-parse", "env/dev:.sluice/environment.yaml"), r.Pipe(inputs.String(), "mktree"))
	root := strings.Replace(r.Git("ls-tree", "env/dev"), records, r.Pipe(record, "mktree"), 1)
	old := r.Pipe(r.Git("log", "-1", "--format=%B", "env/dev"), "commit-tree", r.Pipe(root+"\n", "mktree"))
	r.Git("update-ref", "refs/heads/env/dev", old)
	expect(r, hydrateAll(r), "dev updated 0/6 moved 0")
	if got := r.Git("rev-parse", "env/dev:.sluice"); got != records {
		t.Errorf("the records are\n%s", r.Git("ls-tree", "-r", got))
	}
	expect(r, hydrateAll(r), "dev unchanged 0/6 moved 0")
}

// What one workspace breaks keeps its own targets where they are, and nothing else.
func TestAWorkspaceThatFailsIsHeld(t *testing.T) {
	for name, breakIt := range map[string]func(r *hydratetest.Repo){
		"a manifest":     func(r *hydratetest.Repo) { r.Write("workspaces/team-a/m/web.yaml", "kind: [\n") },
		"the app's file": func(r *hydratetest.Repo) { r.Write("workspaces/team-a/apps/web/app.yaml", "kind: [\n") },
		"a file not its own": func(r *hydratetest.Repo) {
			r.Write("workspaces/team-a/apps/web/app.yaml",
				strings.Replace(r.Read("workspaces/team-a/apps/web/app.yaml"), "manifests: {path: m}",
					"kustomize: {path: k}", 1))
			r.Write("workspaces/team-a/k/kustomization.yaml", "resources: [../../../shared]\n")
			r.Write("shared/kustomization.yaml", "resources: [web.yaml]\n")
			r.Write("shared/web.yaml", r.Read("m/web.yaml"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := tenants(t)
			hydrateAll(r)
			first := r.Git("rev-parse", "HEAD")
			trees := r.Git("rev-parse", "env/dev:dev-1/workspaces/team-a")
			breakIt(r)
			for _, own := range []string{"m/web.yaml", "workspaces/team-b/m/web.yaml"} {
				r.Write(own, strings.Replace(r.Read(own), "one", "two", 1))
			}
			r.Commit("break team-a")
			result := hydrateAll(r)
			dev := result.Environments[0]
			if dev.Status != hydrate.StatusUpdated || len(dev.Held) != 1 || dev.Held[0].Workspace != "team-a" ||
				result.OK() {
				t.Fatalf("Summary is %s, the dev is %+v", dev.Summary(), dev)
			}
			if got := r.Git("rev-parse", "cluster/dev-1:workspaces/team-a"); got != trees {
				t.Error("the targets of team-a have changed")
			}
			for _, file := range []string{"web/configmap-web.yaml", "workspaces/team-b/web/configmap-web.yaml"} {
				if got := r.Git("show", "cluster/dev-2:"+file); !strings.Contains(got, "two") {
					t.Errorf("%s was not written:\n%s", file, got)
				}
			}
			if got := r.Git("show", "env/dev:.sluice/environment.yaml"); !strings.Contains(got, "team-a/web: \""+
				first) {
				t.Errorf("the record is\n%s", got)
			}
			if got := r.Git("log", "-1", "--format=%(trailers:key=Sluice-App-Source,valueonly)",
				"cluster/dev-1"); got != "team-a/web "+first {
				t.Errorf("the trailer is %q", got)
			}
			found, err := verify.Run(t.Context(), r.Hydrator(1), gitstore.Commit{Tree: mustTree(r)}, nil, time.Now())
			if err != nil || found[0].Status != "ok" {
				t.Errorf("verify: %+v %v", found, err)
			}
			if again := hydrateAll(r).Environments[0]; again.Status != hydrate.StatusUnchanged || len(again.Held) != 1 {
				t.Errorf("again: %s", again.Summary())
			}
			r.Git("checkout", "-q", first, "--", "workspaces/team-a")
			r.Commit("mend team-a")
			if dev := hydrateAll(r).Environments[0]; dev.Status != hydrate.StatusUpdated || len(dev.Held) != 0 {
				t.Errorf("mended: %s", dev.Summary())
			}
			if got := r.Git("show", "env/dev:.sluice/environment.yaml"); strings.Contains(got, "apps:") {
				t.Errorf("the record is\n%s", got)
			}
		})
	}
}

func TestAWorkspaceWithoutAnEarlierStateFailsTheEnvironment(t *testing.T) {
	r := tenants(t)
	r.Write("workspaces/team-a/apps/web/app.yaml", "kind: [\n")
	r.Commit("break team-a")
	if dev := hydrateAll(r).Environments[0]; dev.Status != hydrate.StatusFailed ||
		!strings.Contains(dev.Reason, "workspace team-a") {
		t.Errorf("Summary is %s", dev.Summary())
	}
}

// A workspace that would lose most of its objects is held; the rest of the environment is written.
func TestMassDeletionsHoldTheWorkspace(t *testing.T) {
	objects := func(names ...string) string {
		var out strings.Builder
		for _, name := range names {
			out.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n---\n")
		}
		return out.String()
	}
	many := strings.Fields("a b c d e f g h i j k l")
	r := tenants(t)
	for _, file := range []string{"m/web.yaml", "workspaces/team-a/m/web.yaml", "workspaces/team-b/m/web.yaml"} {
		r.Write(file, objects(many...))
	}
	r.Commit("12 objects each, on 2 clusters")
	hydrateAll(r)
	r.Write("workspaces/team-a/m/web.yaml", objects("a"))
	r.Write("workspaces/team-b/m/web.yaml", objects(append(many[1:], "m")...))
	r.Commit("team-a removes most")
	dev := hydrateAll(r).Environments[0]
	if dev.Status != hydrate.StatusUpdated || len(dev.Held) != 1 || dev.Held[0].Workspace != "team-a" ||
		!strings.Contains(dev.Held[0].Reason, "22 of its 24 objects would go") {
		t.Fatalf("Summary is %s", dev.Summary())
	}
	if got := r.Git("ls-tree", "--name-only", "cluster/dev-1:workspaces/team-a/web"); !strings.Contains(got,
		"configmap-b") {
		t.Errorf("team-a has\n%s", got)
	}
	if got := r.Git("ls-tree", "--name-only", "cluster/dev-1:workspaces/team-b/web"); !strings.Contains(got,
		"configmap-m") || strings.Contains(got, "configmap-a.") {
		t.Errorf("team-b has\n%s", got)
	}
	dev = r.Hydrate(func(q *hydrate.Request) { q.Environments, q.MaxDeletions = nil, 24 }).Environments[0]
	if dev.Status != hydrate.StatusUpdated || len(dev.Held) != 0 {
		t.Errorf("allowed: %s", dev.Summary())
	}
	r.Write("m/web.yaml", objects("a"))
	r.Commit("the fleet removes most")
	if dev := hydrateAll(r).Environments[0]; dev.Status != hydrate.StatusRefused ||
		!strings.Contains(dev.Reason, "22 of 50 objects would go") {
		t.Errorf("the fleet: %s", dev.Summary())
	}
}

// Workspaces that are within their limits do not exceed that of the environment together.
func TestDeletionsOfSeveralWorkspaces(t *testing.T) {
	r := tenants(t)
	r.Write("sluice.yaml", strings.Replace(r.Read("sluice.yaml"), "spec: {", "spec: {safety: {maxDeletions: 2}, ", 1))
	r.Commit("2 deletions")
	hydrateAll(r)
	for _, team := range []string{"team-a", "team-b"} {
		r.Write("workspaces/"+team+"/m/web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n")
	}
	r.Commit("2 on each of 2 clusters")
	dev := hydrateAll(r).Environments[0]
	if dev.Status != hydrate.StatusUpdated || len(dev.Held) != 1 || dev.Objects.Removed != 2 {
		t.Errorf("Summary is %s", dev.Summary())
	}
}
