package conform_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

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
	members, err := conform.Read(t.Context(), h, f)
	if err != nil {
		t.Fatal(err)
	}
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
