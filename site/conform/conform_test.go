package conform_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/site/conform"
)

// newFleet is an environment with clusters a to f of one class, each with a name in its manifests.
func newFleet(t *testing.T) *hydratetest.Repo {
	t.Helper()
	r := hydratetest.New(t)
	r.Write("sluice.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec:\n  layers: [region, cluster]\n  environments: [{name: dev}]\n")
	for _, c := range "abcdef" {
		r.Write(fmt.Sprintf("clusters/%c.yaml", c), fmt.Sprintf(`apiVersion: sluice.dev/v1alpha1
kind: Cluster
metadata: {name: %c, labels: {region: eu}}
spec: {environment: dev, class: edge, kubeVersion: 1.33.2, vars: {zone: zone-%c}}
`, c, c))
	}
	r.Write("clusters/classes.yaml",
		"apiVersion: sluice.dev/v1alpha1\nkind: ClusterClass\nmetadata: {name: edge}\nspec: {}\n")
	r.Write("apps/web/app.yaml",
		"apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: web}\nspec:\n  namespace: web\n  placement: {}\n  source: {helm: {path: chart}}\n")
	r.Write("apps/web/layers/global/values.yaml", "zone: ${cluster.vars.zone}\nsize: 1\n")
	r.Write("chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
	r.Write("chart/templates/config.yaml",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata:\n  zone: {{ .Values.zone }}\n  host: www.{{ .Values.zone }}.example.com\n  size: {{ .Values.size | quote }}\n")
	r.Write("chart/templates/secret.yaml",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData:\n  key: secret-of-size-{{ .Values.size }}\n")
	return r
}

func compare(t *testing.T, r *hydratetest.Repo, o conform.Options) []conform.Group {
	t.Helper()
	r.Commit("fleet")
	if result := r.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"dev"}; q.AllowPolicy = nil }); !result.OK() {
		t.Fatalf("the result is %+v", result)
	}
	h := r.Hydrator(1)
	f, _, err := h.Fleet(t.Context(), r.Resolve("HEAD").Tree)
	if err != nil {
		t.Fatal(err)
	}
	members, unfilled, err := conform.Read(t.Context(), h, f, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	o.Unfilled = unfilled
	o.Masker = diff.NewMasker([]byte("key"))
	groups, err := conform.Compare(t.Context(), h.Store, f, members, o)
	if err != nil {
		t.Fatal(err)
	}
	return groups
}

// TestVariablesDoNotCount: every cluster has manifests of its own, because of a variable; that is no deviation.
func TestVariablesDoNotCount(t *testing.T) {
	t.Parallel()
	groups := compare(t, newFleet(t), conform.Options{})
	if len(groups) != 1 || groups[0].Name() != "class=edge, environment=dev" || len(groups[0].Clusters) != 6 ||
		len(groups[0].Deviate) != 0 {
		t.Fatalf("the groups are %+v", groups)
	}
	a := groups[0].Apps[0]
	if len(a.Variants) > 0 || len(a.Norm) != 6 || len(a.Variables) != 1 ||
		a.Variables[0] != (conform.Reference{Name: "cluster.vars.zone", Clusters: 5}) {
		t.Errorf("the first is %+v", a)
	}
}

// TestDeviation: the first cluster by name is the one that differs, so the norm has to be found among the others.
func TestDeviation(t *testing.T) {
	t.Parallel()
	r := newFleet(t)
	r.Write("apps/web/layers/cluster/a/values.yaml", "size: 9\n")
	r.Write("apps/extra/app.yaml",
		"apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: extra}\nspec:\n  namespace: x\n  placement: {matchExpressions: [{key: cluster, operator: NotIn, values: [b]}]}\n  source: {manifests: {}}\n")
	r.Write("apps/extra/one.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n")
	r.Write("apps/rare/app.yaml",
		"apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: rare}\nspec:\n  namespace: x\n  placement: {matchLabels: {cluster: c}}\n  source: {manifests: {}}\n")
	r.Write("apps/rare/one.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: rare}\n")
	groups := compare(t, r, conform.Options{})
	if got := groups[0].Deviate; !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Fatalf("deviate %q", got)
	}
	for _, a := range groups[0].Apps {
		switch a.App {
		case "web":
			if len(a.Variants) != 1 || !slices.Equal(a.Variants[0].Clusters, []string{"a"}) || len(a.Norm) != 5 {
				t.Fatalf("the first is %+v", a)
			}
			v := a.Variants[0]
			if !slices.Equal(v.Layers, []string{"cluster=a"}) {
				t.Errorf("the layers that explain the variant: got %q, want cluster=a", v.Layers)
			}
			if len(v.Causes) != 1 || v.Causes[0].String() != "cluster=a (apps/web/layers/cluster/a/values.yaml)" {
				t.Errorf("causes %q", v.Causes)
			}
			text := fmt.Sprint(v.Objects)
			if !strings.Contains(text, "data.size 1 9") || strings.Contains(text, "zone-") ||
				strings.Contains(text, "secret-of-size") || !strings.Contains(text, "masked") {
				t.Errorf("objects %s", text)
			}
		case "extra":
			if !slices.Equal(a.Missing, []string{"b"}) || len(a.Variants) > 0 {
				t.Errorf("the first is %+v", a)
			}
		case "rare":
			if len(a.Variants) != 1 || !slices.Equal(a.Variants[0].Clusters, []string{"c"}) || len(a.Missing) > 0 {
				t.Errorf("the first is %+v", a)
			}
		default:
			t.Errorf("unexpected app %s", a.App)
		}
	}
}

func TestGrouping(t *testing.T) {
	t.Parallel()
	r := newFleet(t)
	r.Write("clusters/a.yaml", strings.Replace(r.Read("clusters/a.yaml"), "region: eu", "region: us", 1))
	r.Write("apps/web/layers/region/us/values.yaml", "size: 2\n")
	groups := compare(t, r, conform.Options{By: []string{"region"}})
	if len(groups) != 2 || groups[0].Name() != "region=eu" || len(groups[0].Clusters) != 5 ||
		len(groups[0].Deviate)+len(groups[1].Deviate) != 0 {
		t.Errorf("the groups are %+v", groups)
	}
	if groups = compare(t, r, conform.Options{Class: "none"}); len(groups) != 0 {
		t.Errorf("an unknown class has groups: %+v", groups)
	}
	groups = compare(t, r, conform.Options{Most: 2})
	if got := groups[0].Unread; got != 3 {
		t.Errorf("%d renderings are named as not compared, want 3", got)
	}
}

// TestTie: three clusters have one rendering and three another one, so that neither is the norm. Both halves differ.
func TestTie(t *testing.T) {
	t.Parallel()
	r := newFleet(t)
	for _, c := range "abc" {
		name := fmt.Sprintf("clusters/%c.yaml", c)
		r.Write(name, strings.Replace(r.Read(name), "region: eu", "region: us", 1))
	}
	r.Write("apps/web/layers/region/us/values.yaml", "size: 2\n")
	r.Write("apps/half/app.yaml",
		"apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: half}\nspec:\n  namespace: x\n  placement: {matchLabels: {region: us}}\n  source: {manifests: {}}\n")
	r.Write("apps/half/one.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: half}\n")
	g := compare(t, r, conform.Options{})[0]
	if want := []string{"a", "b", "c", "d", "e", "f"}; !slices.Equal(g.Deviate, want) {
		t.Errorf("clusters that differ: got %q, want %q", g.Deviate, want)
	}
	for _, a := range g.Apps {
		if len(a.Norm) > 0 || len(a.Against) != 3 {
			t.Errorf("%s: got the norm %q against %q, want no norm, and one half", a.App, a.Norm, a.Against)
		}
		switch a.App {
		case "web":
			if len(a.Variants) != 1 || len(a.Variants[0].Clusters) != 3 ||
				!slices.Equal(a.Variants[0].Layers, []string{"region=us"}) {
				t.Errorf("web: got the variants %+v, want the other half, explained by region=us", a.Variants)
			}
		case "half":
			if !slices.Equal(a.Missing, []string{"d", "e", "f"}) {
				t.Errorf("half: got %q without the app, want d, e and f", a.Missing)
			}
		}
	}
}

// TestBranchThatNothingExplains: no layer explains what somebody else pushed to a cluster branch.
func TestBranchThatNothingExplains(t *testing.T) {
	t.Parallel()
	r := newFleet(t)
	r.Write("apps/web/layers/cluster/a/values.yaml", "size: 9\n")
	r.Commit("fleet")
	r.Hydrate(func(q *hydrate.Request) { q.Environments, q.AllowPolicy = []string{"dev"}, nil })
	r.Git("branch", "-f", "cluster/b", r.Git("rev-parse", "cluster/a"))
	h := r.Hydrator(1)
	f, _, err := h.Fleet(t.Context(), r.Resolve("HEAD").Tree)
	if err != nil {
		t.Fatal(err)
	}
	members, unfilled, err := conform.Read(t.Context(), h, f, time.Now())
	if err != nil || len(unfilled) > 0 {
		t.Fatalf("read: unfilled clusters %q, the error is %v", unfilled, err)
	}
	groups, err := conform.Compare(t.Context(), h.Store, f, members,
		conform.Options{Masker: diff.NewMasker([]byte("key"))})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range groups[0].Apps[0].Variants {
		if foreign := slices.Contains(v.Clusters, "b"); foreign && len(v.Layers) > 0 {
			t.Errorf("on b, whose branch somebody moved: %q explain the difference, want nothing", v.Layers)
		}
	}
	if !slices.Contains(groups[0].Deviate, "b") || len(groups[0].Waiting) > 0 {
		t.Errorf("got %q differ and %q wait, want b among those that differ, and none that waits", groups[0].Deviate,
			groups[0].Waiting)
	}
}
