package hydrate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// Clusters with equal trees share the work of an edit. The counts of each hydration are those of git diff all the same.
func TestCountsOfAlikeClusters(t *testing.T) {
	t.Parallel()
	const base, object = "apiVersion: sluice.dev/v1alpha1\nkind: ",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {a: %q}\n"
	r := hydratetest.New(t)
	r.Write("sluice.yaml", base+"Fleet\nmetadata: {name: f}\nspec: {environments: [{name: dev}]}\n")
	for i := range 9 { // three kinds of clusters, by the apps that they have
		r.Write(fmt.Sprintf("clusters/c-%d.yaml", i),
			fmt.Sprintf("%sCluster\nmetadata: {name: c-%d, labels: {kind: k%d}}\nspec: {environment: dev}\n", base, i,
				i%3))
	}
	for name, placement := range map[string]string{
		"all": "{}", "one": "{matchLabels: {kind: k1}}",
		"two": "{matchLabels: {kind: k2}}",
	} {
		r.Write("apps/"+name+"/app.yaml", base+"App\nmetadata: {name: "+name+"}\nspec: {namespace: x, placement: "+
			placement+", source: {manifests: {path: m/"+name+"}}}\n")
		r.Write("m/"+name+"/a.yaml", fmt.Sprintf(object, "a", "1"))
		r.Write("m/"+name+"/b.yaml", fmt.Sprintf(object, "b", "1"))
	}
	for step, change := range []func(){
		func() {},
		func() { r.Write("m/all/a.yaml", fmt.Sprintf(object, "a", "2")) },
		func() {
			r.Write("m/all/c.yaml", fmt.Sprintf(object, "c", "1"))
			r.Write("m/one/a.yaml", fmt.Sprintf(object, "another", "1"))
		},
		func() {
			r.Write("apps/two/app.yaml", strings.Replace(r.Read("apps/two/app.yaml"), "kind: k2", "kind: k0", 1))
			r.Write("m/all/b.yaml", fmt.Sprintf(object, "b", "2"))
		},
		func() {
			for _, name := range []string{"clusters/c-4.yaml", "m/all/b.yaml"} {
				if err := os.Remove(filepath.Join(r.Dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		change()
		r.Commit(fmt.Sprint(step))
		before := "4b825dc642cb6eb9a060e54bf8d69288fbee4904" // the empty tree
		if step > 0 {
			before = r.Git("rev-parse", "env/dev")
		}
		e := r.Hydrate(func(q *hydrate.Request) { q.Environments, q.MaxDeletions = nil, 1000 }).Environments[0]
		if e.Status != hydrate.StatusUpdated {
			t.Fatalf("step %d: %s: %s %+v", step, e.Status, e.Reason, e.Failures)
		}
		lines := "\n" + r.Git("diff", "--no-renames", "--name-status", before, "env/dev", "--", "c-*")
		files := strings.Count("\n"+r.Git("ls-tree", "-r", "--name-only", "env/dev"), "\nc-")
		want := hydrate.ObjectCounts{
			Total: files, Added: strings.Count(lines, "\nA"),
			Changed: strings.Count(lines, "\nM"), Removed: strings.Count(lines, "\nD"),
		}
		if e.Objects != want {
			t.Errorf("step %d: %+v, git counts %+v", step, e.Objects, want)
		}
	}
}
