package hydrate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate/diff"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

func (r *repo) resolve(rev string) gitstore.Commit {
	r.t.Helper()
	h := r.hydrator(1)
	c, err := h.store.Resolve(r.t.Context(), rev)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *repo) compare(request CompareRequest) *Comparison {
	r.t.Helper()
	request.Key = []byte("k")
	c, err := r.hydrator(2).Compare(r.t.Context(), request)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// lines describes groups: app, clusters, and the objects with their verbs.
func lines(set *diff.ChangeSet) []string {
	var out []string
	for _, g := range set.Groups {
		var objects []string
		for _, o := range g.Objects {
			mark := string(o.Verb)
			if o.OnlyNoise() {
				mark = "noise"
			}
			objects = append(objects, mark+" "+o.Title())
		}
		out = append(out, fmt.Sprintf("%s on %s: %s", g.App, diff.Patterns(g.Where), strings.Join(objects, ", ")))
	}
	return out
}

func expectLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestCompareTwoCommits(t *testing.T) {
	for _, hydrated := range []bool{false, true} {
		t.Run(fmt.Sprintf("hydrated %v", hydrated), func(t *testing.T) {
			r := demo(t)
			if hydrated {
				r.hydrate(nil)
			}
			r.write("apps/shop/layers/region/us-east-1/values.yaml", "config: {currency: CAD}\n")
			r.commit("Canada")
			c := r.compare(CompareRequest{Base: r.resolve("HEAD~1"), Head: r.resolve("HEAD")})
			expectLines(t, lines(c.Changes), "shop on prod/prod-us-1: noise Deployment shop/shop, changed ConfigMap shop/shop")
			want := 2 // both sides
			if hydrated {
				want = 1
			}
			if c.Rendered != want {
				t.Errorf("rendered %d, want %d", c.Rendered, want)
			}
			if c.Changes.Totals != (diff.Counts{Changed: 1, Noise: 1, Workloads: 1}) {
				t.Errorf("totals %+v", c.Changes.Totals)
			}
		})
	}
}

func TestCompareWithBranches(t *testing.T) {
	r := demo(t)
	r.hydrate(nil)
	r.write("apps/shop/layers/environment/prod/values.yaml", "replicas: 9\n")
	r.git("rm", "-rq", "apps/baseline")
	r.commit("nine")
	c := r.compare(CompareRequest{Against: AgainstBranches, Environments: []string{"prod"}, Head: r.resolve("HEAD")})
	var apps []string
	for _, g := range c.Changes.Groups {
		apps = append(apps, g.App)
	}
	if !slices.Contains(apps, "shop") || !slices.Contains(apps, "baseline") || c.Changes.Totals.Removed == 0 {
		t.Errorf("%v %+v", lines(c.Changes), c.Changes.Totals)
	}
	// what is promised is what a hydration then does
	result := r.hydrate(func(q *Request) { q.Environments = []string{"prod"}; q.MaxDeletions = 1000 })
	for _, e := range result.Environments {
		if e.Name == "prod" && (e.Objects.Added != c.Changes.Totals.Added || e.Objects.Removed != c.Changes.Totals.Removed || e.Objects.Changed != c.Changes.Totals.Changed+c.Changes.Totals.Noise) {
			t.Errorf("promised %+v, got %+v", c.Changes.Totals, e.Objects)
		}
	}
	c = r.compare(CompareRequest{Against: AgainstBranches, Environments: []string{"prod"}, Head: r.resolve("HEAD")})
	if !c.Changes.Empty() || c.Rendered != 0 {
		t.Errorf("%v, %d rendered", lines(c.Changes), c.Rendered)
	}
}

func TestComparisonWithholdsWhatFails(t *testing.T) {
	r := demo(t)
	r.write("apps/shop/layers/cluster/prod-eu-1/values.yaml", "replicas: many\n")
	r.write("apps/shop/layers/environment/dev/values.yaml", "replicas: 5\n")
	r.commit("many")
	c := r.compare(CompareRequest{Base: r.resolve("HEAD~1"), Head: r.resolve("HEAD")})
	if len(c.Changes.Withheld) != 1 || c.Changes.Withheld[0].Cluster != "prod-eu-1" || c.Changes.Totals.Removed != 0 {
		t.Fatalf("%+v %v", c.Changes.Withheld, lines(c.Changes))
	}
	if len(c.Changes.Groups) != 1 || c.Changes.Groups[0].Clusters[0] != "dev-1" {
		t.Errorf("the others: %v", lines(c.Changes))
	}
}

func TestComparisonMasksSecretsWhereverTheyRecur(t *testing.T) {
	r := demo(t)
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {password: %s}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: url}\ndata: {url: 'postgres://x:%s@db/%d'}\n"
	r.write("manifests/baseline/db.yaml", fmt.Sprintf(secret, "correct-horse", "correct-horse", 1))
	r.commit("one")
	r.write("manifests/baseline/db.yaml", fmt.Sprintf(secret, "battery-staple", "battery-staple", 2))
	r.commit("two")
	c := r.compare(CompareRequest{Base: r.resolve("HEAD~1"), Head: r.resolve("HEAD")})
	text := fmt.Sprintf("%+v", c.Changes) + fmt.Sprintf("%+v", c.Targets[0].After) + fmt.Sprintf("%+v", c.Targets[0].Before)
	for _, leak := range []string{"correct-horse", "battery-staple"} {
		if strings.Contains(text, leak) {
			t.Errorf("%s leaks", leak)
		}
	}
	if c.Changes.Totals.Changed != 2*7 || !strings.Contains(text, "14 bytes") {
		t.Errorf("%+v", c.Changes.Totals)
	}
}

func TestComparisonWithABaseThatIsNoFleet(t *testing.T) {
	r := demo(t)
	r.hydrate(nil)
	r.write("clusters/dev-1.yaml", "kind: Cluster\n")
	r.commit("broken")
	r.git("revert", "--no-edit", "HEAD")
	c := r.compare(CompareRequest{Base: r.resolve("HEAD~1"), Head: r.resolve("HEAD")})
	if !c.Changes.Empty() || len(c.Notes) == 0 {
		t.Errorf("%v %v", lines(c.Changes), c.Notes)
	}
}

func TestComparisonLeavesFrozenClustersOut(t *testing.T) {
	r := demo(t)
	data := strings.Replace(r.read("clusters/prod-us-1.yaml"), "spec:", "spec:\n  state: frozen", 1)
	r.write("clusters/prod-us-1.yaml", data)
	r.commit("freeze")
	r.write("apps/shop/layers/environment/prod/values.yaml", "replicas: 9\n")
	r.commit("nine")
	c := r.compare(CompareRequest{Base: r.resolve("HEAD~1"), Head: r.resolve("HEAD")})
	if c.Frozen != 1 || slices.ContainsFunc(c.Changes.Groups, func(g diff.Group) bool { return slices.Contains(g.Clusters, "prod-us-1") }) {
		t.Errorf("%d frozen, %v", c.Frozen, lines(c.Changes))
	}
}

func (r *repo) read(name string) string { return r.git("show", "HEAD:"+name) }

func TestPreview(t *testing.T) {
	r := demo(t)
	r.hydrate(nil)
	r.write("apps/shop/layers/region/us-east-1/values.yaml", "config: {currency: CAD}\n")
	r.commit("Canada")
	preview := func(limit int) *PreviewResult {
		c := r.compare(CompareRequest{Base: r.resolve("main~1"), Head: r.resolve("main"), Preview: &Preview{Branch: "sluice/preview/7", Title: "Canada", Limit: limit}})
		return c.Preview
	}
	first := preview(0)
	if again := preview(5); *first != *again || first.Head != r.git("rev-parse", "sluice/preview/7") {
		t.Errorf("%+v %+v", first, again)
	}
	if got := r.git("diff", "--name-only", "sluice/preview/7^", "sluice/preview/7"); got != "prod/prod-us-1/shop/configmap-shop.yaml\nprod/prod-us-1/shop/deployment-shop.yaml" {
		t.Errorf("the preview changes %q", got)
	}
	r.git("fsck", "--strict")
	r.write("apps/shop/layers/region/us-east-1/values.yaml", "config: {currency: MXN}\n")
	r.commit("Mexico")
	if second := preview(0); second.Head == first.Head || second.Base != first.Base {
		// the base is main~1, another commit by now
		if r.git("rev-parse", "sluice/preview/7") != second.Head {
			t.Errorf("%+v", second)
		}
	}
	c := r.compare(CompareRequest{Base: r.resolve("main"), Head: r.resolve("main"), Preview: &Preview{Branch: "sluice/preview/7"}})
	if c.Preview.Reason == "" || r.git("branch", "--list", "sluice/preview/*") != "" {
		t.Errorf("%+v: the branch is still there", c.Preview)
	}
}
