package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/policy/lifecycle"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review/upgrade"
)

const header = "apiVersion: sluice.dev/v1alpha1\n"

func app(name, source string) string {
	return fmt.Sprintf(header+"kind: App\nmetadata: {name: %s}\nspec: {namespace: %[1]s, placement: {}, source: {%s}}\n", name, source)
}

// newFleet has clusters of three versions and an app for each kind of issue.
func newFleet(t *testing.T) *hydratetest.Repo {
	t.Helper()
	r := hydratetest.New(t)
	r.Write("sluice.yaml", header+`kind: Fleet
metadata: {name: f}
spec:
  environments: [{name: dev}, {name: prod, after: [dev]}]
  upgrades:
    addons: [{name: shop, images: [acme/shop], kubernetes: "<=1.24", source: "https://example.com"}]
    apis: [{apiVersion: example.com/v1alpha1, kind: Widget, removedIn: "1.25", replacement: example.com/v1 Widget}]
`)
	cluster := func(name, environment, version string) {
		r.Write("clusters/"+name+".yaml", fmt.Sprintf(header+"kind: Cluster\nmetadata: {name: %s, labels: {ring: %s}}\nspec: {environment: %[2]s, kubeVersion: %s}\n", name, environment, version))
	}
	cluster("dev-1", "dev", "1.23.5")
	cluster("eu-1", "prod", "1.24.1")
	cluster("eu-2", "prod", "1.24.1")
	cluster("us-1", "prod", "1.25.0")
	r.Write("apps/plain/app.yaml", app("plain", "manifests: {path: apps/plain/m}"))
	r.Write("apps/plain/m/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	r.Commit("start")
	return r
}

func plan(t *testing.T, r *hydratetest.Repo, to string, covers func(*fleet.Cluster) bool) *report.Upgrade {
	t.Helper()
	at, ok := lifecycle.ParseMinor(to)
	if !ok {
		t.Fatal(to)
	}
	if covers == nil {
		covers = func(*fleet.Cluster) bool { return true }
	}
	out, err := upgrade.Plan(t.Context(), r.Hydrator(2), upgrade.Request{
		Tree: r.Resolve("HEAD").Tree, To: at, Covers: covers, Key: []byte("k"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func verdicts(u *report.Upgrade) []string {
	out := []string{}
	for _, c := range u.Clusters {
		out = append(out, fmt.Sprintf("%s %s %s→%s changed %d", c.Verdict, c.Name, c.From, c.To, c.Changed))
	}
	return out
}

func issues(u *report.Upgrade) []string {
	out := []string{}
	for i := range u.Issues {
		one := &u.Issues[i]
		line := fmt.Sprintf("%s at %s: %s: %s on %s", one.Rule, one.At, one.App, one.Message, strings.Join(one.Clusters, ","))
		switch {
		case one.Unknown:
			line = "unknown: " + line
		case one.Existing:
			line = "existing: " + line
		case one.Blocks():
			line = "blocks: " + line
		}
		out = append(out, line)
	}
	return out
}

func want(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A cluster on which nothing changes is ready, and one that has the version is not rendered.
func TestReady(t *testing.T) {
	t.Parallel()
	u := plan(t, newFleet(t), "1.25", nil)
	want(t, "clusters", verdicts(u), []string{
		"ready dev-1 1.23→1.25 changed 0", "ready eu-1 1.24→1.25 changed 0", "ready eu-2 1.24→1.25 changed 0",
		"current us-1 1.25→1.25 changed 0",
	})
	want(t, "issues", issues(u), []string{})
	want(t, "steps", u.Steps, []string{"1.24", "1.25"})
	if got := u.Summary(); got != "Kubernetes 1.25: 3 clusters are ready, 1 cluster has the version" {
		t.Error(got)
	}
}

// What charts render by .Capabilities changes, with the APIs that the new version no longer serves.
func TestChanges(t *testing.T) {
	t.Parallel()
	r := newFleet(t)
	r.Write("clusters/eu-1.yaml", header+"kind: Cluster\nmetadata: {name: eu-1}\nspec: {environment: prod, kubeVersion: 1.24.1, apiVersions: [flowcontrol.apiserver.k8s.io/v1alpha1, policy/v1beta1/PodSecurityPolicy]}\n")
	r.Write("apps/web/app.yaml", app("web", "helm: {path: apps/web}"))
	r.Write("apps/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
	r.Write("apps/web/templates/a.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data:
  new: {{ semverCompare ">=1.25-0" .Capabilities.KubeVersion.Version | quote }}
  psp: {{ .Capabilities.APIVersions.Has "policy/v1beta1/PodSecurityPolicy" | quote }}
`)
	r.Commit("chart")
	u := plan(t, r, "1.25", func(c *fleet.Cluster) bool { return c.Environment == "prod" })
	want(t, "clusters", verdicts(u), []string{
		"changes eu-1 1.24→1.25 changed 1", "changes eu-2 1.24→1.25 changed 1", "current us-1 1.25→1.25 changed 0",
	})
	var diffs []string
	for _, g := range u.Changes.Groups {
		for _, o := range g.Objects {
			for _, h := range o.Hunks {
				for _, l := range h.Lines {
					if l[0] != ' ' {
						diffs = append(diffs, strings.Join(g.Clusters, ",")+l[:1]+strings.TrimSpace(l[1:]))
					}
				}
			}
		}
	}
	slices.Sort(diffs)
	want(t, "changes", diffs, []string{
		`eu-1+new: "true"`, `eu-1+psp: "false"`, `eu-1-new: "false"`, `eu-1-psp: "true"`,
		`eu-2+new: "true"`, `eu-2-new: "false"`,
	})
}

func TestBlocked(t *testing.T) {
	t.Parallel()
	r := newFleet(t)
	manifests := func(name, text string) {
		r.Write("apps/"+name+"/app.yaml", app(name, "manifests: {path: apps/"+name+"/m}"))
		r.Write("apps/"+name+"/m/a.yaml", text)
	}
	chart := func(name, kubeVersion string) {
		r.Write("apps/"+name+"/app.yaml", app(name, "helm: {path: apps/"+name+"}"))
		r.Write("apps/"+name+"/Chart.yaml", "apiVersion: v2\nname: "+name+"\nversion: 1.0.0\nkubeVersion: \""+kubeVersion+"\"\n")
		r.Write("apps/"+name+"/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+"}\n")
	}
	manifests("cron", "apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: a}\n")
	manifests("gone", "apiVersion: networking.k8s.io/v1beta1\nkind: Ingress\nmetadata: {name: a}\n")
	manifests("hpa", "apiVersion: autoscaling/v2beta2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\n")
	manifests("widget", "apiVersion: example.com/v1alpha1\nkind: Widget\nmetadata: {name: a}\n")
	manifests("shop", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: r.example.com/acme/shop:v1}]}\n")
	manifests("proxy", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: registry.k8s.io/kube-proxy:v1.25.1}]}\n")
	chart("old", "<1.25.0-0")
	chart("young", ">=1.24.0-0")
	chart("future", ">=1.40.0-0")
	r.Write("apps/broken/app.yaml", app("broken", "helm: {path: apps/broken}"))
	r.Write("apps/broken/Chart.yaml", "apiVersion: v2\nname: broken\nversion: 1.0.0\n")
	r.Write("apps/broken/templates/a.yaml", "{{ if semverCompare \">=1.25-0\" .Capabilities.KubeVersion.Version }}{{ fail \"too new\" }}{{ end }}apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n")
	r.Commit("apps")
	u := plan(t, r, "1.25", nil)
	want(t, "clusters", verdicts(u), []string{
		"blocked dev-1 1.23→1.25 changed 0", "blocked eu-1 1.24→1.25 changed 0", "blocked eu-2 1.24→1.25 changed 0",
		"current us-1 1.25→1.25 changed 0",
	})
	var list []string
	for _, line := range issues(u) {
		for _, known := range []string{" cannot be rendered", "apps/broken/templates"} {
			line, _, _ = strings.Cut(line, known)
		}
		list = append(list, line)
	}
	want(t, "issues", list, []string{
		"blocks: api-removed at 1.25: cron: Kubernetes no longer serves batch/v1beta1 CronJob since 1.25 on dev-1",
		"blocks: api-removed at 1.25: cron: Kubernetes no longer serves batch/v1beta1 CronJob since 1.25 on eu-1,eu-2",
		"blocks: api-removed at 1.25: widget: Kubernetes no longer serves example.com/v1alpha1 Widget since 1.25 on dev-1",
		"blocks: api-removed at 1.25: widget: Kubernetes no longer serves example.com/v1alpha1 Widget since 1.25 on eu-1,eu-2",
		"blocks: chart-refuses at 1.25: old: the chart old needs Kubernetes <1.25.0-0 on dev-1",
		"blocks: chart-refuses at 1.25: old: the chart old needs Kubernetes <1.25.0-0 on eu-1,eu-2",
		"blocks: not-rendered at 1.25: broken: ",
		"blocks: not-rendered at 1.25: broken: ",
		"blocks: version-skew at 1.25: shop: shop 1.0.0 is for Kubernetes <=1.24 on dev-1",
		"blocks: version-skew at 1.25: shop: shop 1.0.0 is for Kubernetes <=1.24 on eu-1,eu-2",
		"unknown: chart-refuses at 1.23: future: the chart future needs Kubernetes >=1.40.0-0 on dev-1",
		"unknown: chart-refuses at 1.24: future: the chart future needs Kubernetes >=1.40.0-0 on eu-1,eu-2",
		"existing: chart-refuses at 1.23: young: the chart young needs Kubernetes >=1.24.0-0 on dev-1",
		"existing: api-deprecated at 1.24: hpa: autoscaling/v2beta2 HorizontalPodAutoscaler is deprecated since Kubernetes 1.23, and removed in 1.26 on dev-1",
		"existing: api-removed at 1.24: gone: Kubernetes no longer serves networking.k8s.io/v1beta1 Ingress since 1.22 on dev-1",
		"existing: version-skew at 1.24: proxy: kube-proxy 1.25.1 must not be newer than the cluster on dev-1",
		"existing: api-deprecated at 1.25: hpa: autoscaling/v2beta2 HorizontalPodAutoscaler is deprecated since Kubernetes 1.23, and removed in 1.26 on eu-1,eu-2",
		"existing: api-removed at 1.25: gone: Kubernetes no longer serves networking.k8s.io/v1beta1 Ingress since 1.22 on eu-1,eu-2",
	})
	if reasons := u.Clusters[0].BlockedBy; !slices.Contains(reasons, "1 target cannot be rendered now") || len(reasons) != 6 {
		t.Errorf("reasons: %q", reasons)
	}
}

// The versions between are rendered too: a chart that refuses one of them stops the upgrade there.
func TestVersionsBetween(t *testing.T) {
	t.Parallel()
	r := newFleet(t)
	r.Write("apps/web/app.yaml", app("web", "helm: {path: apps/web}"))
	r.Write("apps/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\nkubeVersion: \"<1.24.0-0 || >=1.25.0-0\"\n")
	r.Write("apps/web/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n")
	r.Commit("chart")
	u := plan(t, r, "1.25", func(c *fleet.Cluster) bool { return c.Name == "dev-1" })
	want(t, "issues", issues(u), []string{
		"blocks: chart-refuses at 1.24: web: the chart web needs Kubernetes <1.24.0-0 || >=1.25.0-0 on dev-1",
	})
}

// counting counts what is rendered.
type counting struct {
	renderer.Renderer
	n *atomic.Int64
}

func (c counting) Render(ctx context.Context, b *renderer.Bundle) (*renderer.Rendering, error) {
	c.n.Add(1)
	return c.Renderer.Render(ctx, b)
}

// A plan takes the present rendering from the branches, and renders targets without charts once for all versions.
func TestReusesRenderings(t *testing.T) {
	t.Parallel()
	r := newFleet(t)
	r.Write("apps/web/app.yaml", app("web", "helm: {path: apps/web}"))
	r.Write("apps/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
	r.Write("apps/web/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n")
	r.Commit("chart")
	rendered := func() int64 {
		var n atomic.Int64
		c := r.Hydrator(1).Config
		c.Renderer = counting{c.Renderer, &n}
		_, err := upgrade.Plan(t.Context(), hydrate.New(c), upgrade.Request{
			Tree: r.Resolve("HEAD").Tree, To: lifecycle.Minor{Major: 1, Minor: 25},
			Covers: func(c *fleet.Cluster) bool { return c.Name == "dev-1" },
		})
		if err != nil {
			t.Fatal(err)
		}
		return n.Load()
	}
	if n := rendered(); n != 4 {
		t.Errorf("without branches: got %d renderings, want the chart at 3 versions and the manifests once", n)
	}
	r.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"dev"} })
	if n := rendered(); n != 3 {
		t.Errorf("with branches: got %d renderings, want the chart and the manifests without the present version", n)
	}
}

// Images that charts name by the version of the cluster are looked for in their registries, if somebody asks.
func TestImages(t *testing.T) {
	t.Parallel()
	r := newFleet(t)
	r.Write("apps/web/app.yaml", app("web", "helm: {path: apps/web}"))
	r.Write("apps/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
	r.Write("apps/web/templates/a.yaml", `apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: a, image: "r.example.com/tool:{{ .Capabilities.KubeVersion.Minor }}"}, {name: b, image: r.example.com/other:1}]}
`)
	r.Commit("chart")
	var asked []string
	u, err := upgrade.Plan(t.Context(), r.Hydrator(1), upgrade.Request{
		Tree: r.Resolve("HEAD").Tree, To: lifecycle.Minor{Major: 1, Minor: 25},
		Covers: func(c *fleet.Cluster) bool { return c.Environment == "prod" },
		Images: func(_ context.Context, names []string) (map[string]error, []string, error) {
			asked = append(asked, names...)
			return map[string]error{"r.example.com/tool:25": errors.New("there is no r.example.com/tool:25")}, []string{"a note"}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "images", asked, []string{"r.example.com/tool:25"})
	want(t, "issues", issues(u), []string{"blocks: image-exists at 1.25: web: there is no r.example.com/tool:25 on eu-1,eu-2"})
	want(t, "notes", u.Notes, []string{"a note"})
	want(t, "clusters", verdicts(u), []string{"blocked eu-1 1.24→1.25 changed 1", "blocked eu-2 1.24→1.25 changed 1", "current us-1 1.25→1.25 changed 0"})
}

// Of a frozen cluster, the plan says what the commit renders, and a note says that the cluster does not have it.
func TestFrozenClusters(t *testing.T) {
	t.Parallel()
	r := newFleet(t)
	r.Write("clusters/dev-1.yaml", header+"kind: Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev, kubeVersion: 1.24.0, state: frozen}\n")
	r.Commit("frozen")
	u := plan(t, r, "1.25", func(c *fleet.Cluster) bool { return c.Environment == "dev" })
	want(t, "clusters", verdicts(u), []string{"ready dev-1 1.24→1.25 changed 0"})
	want(t, "notes", u.Notes, []string{"frozen clusters keep what they have: of 1 frozen cluster the plan says what this commit renders for them"})
}

func TestRefusedPlans(t *testing.T) {
	t.Parallel()
	r := newFleet(t)
	for to, message := range map[string]string{
		"1.99": "more than the 20 of one plan", "2.0": "the major version differs",
	} {
		at, _ := lifecycle.ParseMinor(to)
		_, err := upgrade.Plan(t.Context(), r.Hydrator(1), upgrade.Request{
			Tree: r.Resolve("HEAD").Tree, To: at, Covers: func(*fleet.Cluster) bool { return true },
		})
		if err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// A comparison of two commits says the same of the clusters whose version rises, and nothing of others.
func TestOfAComparison(t *testing.T) {
	t.Parallel()
	r := newFleet(t)
	r.Write("apps/cron/app.yaml", app("cron", "manifests: {path: apps/cron/m}"))
	r.Write("apps/cron/m/a.yaml", "apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: a}\n")
	r.Write("apps/old/app.yaml", app("old", "helm: {path: apps/old}"))
	r.Write("apps/old/Chart.yaml", "apiVersion: v2\nname: old\nversion: 1.0.0\nkubeVersion: \"<1.24.0-0\"\n")
	r.Write("apps/old/templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	r.Commit("apps")
	of := func(request compare.Request) *report.Upgrade {
		request.Base, request.Head, request.Key = r.Resolve("HEAD~1"), r.Resolve("HEAD"), []byte("k")
		c, err := compare.Run(t.Context(), r.Hydrator(2), request)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		out, err := upgrade.Of(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if u := of(compare.Request{}); u != nil {
		t.Errorf("no version rises: %+v", u)
	}
	r.Write("clusters/dev-1.yaml", header+"kind: Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev, kubeVersion: 1.25.3}\n")
	r.Write("clusters/eu-1.yaml", header+"kind: Cluster\nmetadata: {name: eu-1}\nspec: {environment: prod, kubeVersion: 1.24.9}\n")
	r.Write("clusters/us-1.yaml", header+"kind: Cluster\nmetadata: {name: us-1}\nspec: {environment: prod, kubeVersion: 1.24.9}\n")
	r.Commit("versions")
	u := of(compare.Request{})
	if u == nil {
		t.Fatal("the version of dev-1 rises")
	}
	want(t, "clusters", verdicts(u), []string{"blocked dev-1 1.23→1.25 changed 0"})
	want(t, "issues", issues(u), []string{
		"blocks: api-removed at 1.25: cron: Kubernetes no longer serves batch/v1beta1 CronJob since 1.25 on dev-1",
		"blocks: chart-refuses at 1.25: old: the chart old needs Kubernetes <1.24.0-0 on dev-1",
	})
	want(t, "notes", u.Notes, []string{"the versions between were not rendered: `sluice upgrade plan` does it"})
	if u := of(compare.Request{Apps: []string{"plain"}}); u != nil {
		t.Errorf("only a part is compared: %+v", u)
	}
}
