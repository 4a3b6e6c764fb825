package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
)

// A cluster whose name in its repository is no name of the fleet gets one, and its targets are found.
func TestDetectedClustersHaveNames(t *testing.T) {
	t.Parallel()
	const arn, long = "arn:aws:eks:eu-west-1:1234:cluster/prod", "arn-aws-eks-eu-west-1-1234-cluster-prod"
	application := func(name, destination string) string {
		return fmt.Sprintf("---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: %s}\nspec: {project: default, source: {repoURL: \"https://git.example.com/acme/fleet\", path: app}, destination: {name: %q}}\n", name, destination)
	}
	set := "---\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set}\nspec:\n  generators: [{clusters: {}}]\n" +
		"  template: {metadata: {name: \"set-{{nameNormalized}}\"}, spec: {project: default, source: {repoURL: \"https://git.example.com/acme/fleet\", path: app}, destination: {name: \"{{name}}\"}}}\n"
	kustomization := func(dir string) string {
		return "-- " + dir + "/app.yaml --\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: app, namespace: flux-system}\nspec: {path: ./app, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}\n"
	}
	const object = "-- app/config.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\n"
	for name, c := range map[string]struct {
		files string
		want  []string
	}{
		"Flux": {
			kustomization("clusters/PROD_1") + kustomization("clusters/prod-1") +
				kustomization("clusters/.lock") + kustomization("clusters/"+strings.Repeat("x", 60)) + object,
			[]string{
				"lock app", "lock flux-system", "prod-1 app", "prod-1 flux-system", "prod-1-2 app",
				"prod-1-2 flux-system", strings.Repeat("x", 60) + " app", strings.Repeat("x", 60) + " flux-system",
			},
		},
		"Argo CD": {"-- apps.yaml --\n" + application("a", arn) + application("b", "Prod_3") +
			application("c", "prod-1") + set + object, []string{
			long + " a", long + " set-" + long, "prod-1 c",
			"prod-1 set-prod-1", "prod-3 b", "prod-3 set-prod-3",
		}},
	} {
		f, problems := fleet.Loader{Importer: New(nil), Detect: true}.Load(t.Context(), tree(c.files))
		if err := problems.Err(); err != nil {
			t.Errorf("%s: the error is %v", name, err)
			continue
		}
		var got []string
		for _, one := range f.Imports() {
			if got = append(got, one.Cluster+" "+one.App); one.Err != nil {
				t.Errorf("%s: the app is %s: the error is %v", name, one.App, one.Err)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\nthe result is\n%q\nwant\n%q", name, got, c.want)
		}
	}
}

// What tells Argo CD to render helmCharts is part of the entry: the ConfigMap, a patch, and values of Argo CD's chart,
// but no comment.
func TestDetectedBuildOptions(t *testing.T) {
	t.Parallel()
	const apps = "-- apps.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec: {project: default, source: {repoURL: \"https://git.example.com/acme/fleet\", path: app}, destination: {name: prod}}\n"
	for text, want := range map[string]bool{
		"kind: ConfigMap\nmetadata: {name: argocd-cm}\ndata:\n  kustomize.buildOptions: --enable-helm\n": true,
		"configs:\n  cm:\n    kustomize.buildOptions: \"--load-restrictor X --enable-helm\" # yes\n":     true,
		"data: {\"kustomize.buildOptions\": '--enable-helm=true'}\n":                                     true,
		"data:\n  # kustomize.buildOptions: --enable-helm\n  a: b\n":                                     false,
		"data:\n  kustomize.buildOptions: --load-restrictor X # not --enable-helm\n":                     false,
		"data:\n  kustomize.buildOptions: --enable-helm=false\n":                                         false,
		"data:\n  kustomize.buildOptions: --enable-helmet\n":                                             false,
	} {
		got, err := New(nil).Detect(t.Context(), tree(apps+"-- install/cm.yaml --\n"+text))
		if err != nil || strings.Contains(string(got), "buildOptions: --enable-helm") != want {
			t.Errorf("%s: the error is %v: the result of Detect is %s", text, err, got)
		}
	}
}

// An Application for a cluster that only a cluster Secret describes fails: the fleet has no branch for it.
func TestClusterOfSecretAlone(t *testing.T) {
	t.Parallel()
	const files = `
-- sluice.yaml --
apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: fleet}
spec:
  environments: [{name: prod}]
  import: [{argocd: {clusters: {prod: {environment: prod, server: "https://prod.example.com"}, eu: {environment: prod, name: "EU 1"}}}}]
-- app/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
-- secrets.yaml --
apiVersion: v1
kind: Secret
metadata: {name: new, labels: {argocd.argoproj.io/secret-type: cluster}}
stringData: {name: new, server: "https://new.example.com"}
---
apiVersion: v1
kind: Secret
metadata: {name: eu, labels: {argocd.argoproj.io/secret-type: cluster}}
stringData: {name: "EU 1", server: "https://eu.example.com"}
-- apps.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: all}
spec:
  generators: [{clusters: {}}]
  template: {metadata: {name: "all-{{nameNormalized}}"}, spec: {project: default, source: {repoURL: "https://git.example.com/acme/fleet", path: app}, destination: {server: "{{server}}"}}}
`
	var got []string
	for _, one := range loaded(t, files).Imports() {
		got = append(got, fmt.Sprintf("%s %s %v", one.Cluster, one.App, one.Err))
	}
	want := []string{` all-new spec.destination: the cluster "new" is not known (add it to spec.import argocd clusters, with its name or its server)`, "eu all-eu-1 <nil>", "prod all-prod <nil>"}
	if !slices.Equal(got, want) {
		t.Errorf("the result is %q\nwant\n%q", got, want)
	}
	twice := strings.Replace(files, "environment: prod, name: \"EU 1\"", "environment: prod, name: prod", 1)
	if _, problems := (fleet.Loader{Importer: New(nil)}).Load(t.Context(), tree(twice)); problems.Err() == nil ||
		!strings.Contains(problems.Err().Error(), `the clusters eu and prod have the same name "prod" in Argo CD`) {
		t.Errorf("two clusters of one name: %v", problems.Err())
	}
}

// Two ApplicationSets of one name that cannot be generated are one failed target on each cluster, and two warnings.
func TestFailedSetsOfOneName(t *testing.T) {
	t.Parallel()
	set := func(value string) string {
		return "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set}\nspec:\n  goTemplate: true\n  goTemplateOptions: [missingkey=error]\n  generators: [{list: {elements: [{a: b}]}}]\n" +
			"  template: {metadata: {name: \"{{." + value +
			"}}\"}, spec: {project: default, source: {repoURL: \"https://git.example.com/acme/fleet\", path: app}, destination: {name: \"{{.a}}\"}}}\n"
	}
	const good = "---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: good}\nspec: {project: default, source: {repoURL: \"https://git.example.com/acme/fleet\", path: app}, destination: {name: prod}}\n"
	request := fleet.ImportRequest{
		Entry:    fleet.Import{ArgoCD: &fleet.ArgoCDImport{Clusters: map[string]fleet.ArgoCDCluster{"prod": {Environment: "prod"}}}},
		Clusters: []fleet.ImportCluster{{Name: "prod", Environment: "prod"}},
	}
	found, problems, err := New(nil).Import(t.Context(), tree("-- one.yaml --\n"+set("x")+good+"-- two.yaml --\n"+
		set("y")+"-- app/config.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\n"), request)
	if err != nil || problems.Err() != nil {
		t.Fatal(problems, err)
	}
	var got []string
	for _, one := range found {
		got = append(got, fmt.Sprint(one.Cluster, " ", one.App, " ", one.Err != nil))
	}
	if want := []string{"prod set.appset true", "prod good false"}; !slices.Equal(got, want) {
		t.Errorf("the result is %q, want %q", got, want)
	}
	var files []string
	for _, p := range problems {
		files = append(files, p.File)
	}
	if !slices.Contains(files, "one.yaml") || !slices.Contains(files, "two.yaml") {
		t.Errorf("not both are named: %q", files)
	}
}

// Clusters that only Argo CD knows become comments to fill in: their labels, and the names that merge generators give.
func TestDetectedRegisteredClusters(t *testing.T) {
	t.Parallel()
	set := func(generators string) string {
		return "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set}\nspec:\n  generators: " +
			generators + "\n" +
			"  template: {metadata: {name: 'a-{{name}}'}, spec: {project: default, source: {repoURL: 'https://git.example.com/acme/fleet', path: web}, destination: {server: '{{server}}'}}}\n"
	}
	for name, c := range map[string]struct {
		generators   string
		want, absent []string
	}{
		"labels": {
			generators: "[{clusters: {selector: {matchLabels: {env: prod, argocd.argoproj.io/secret-type: cluster}, matchExpressions: [{key: tier, operator: In, values: [a, b]}, {key: any, operator: Exists}]}}}]",
			want: []string{
				"#   env: prod\n", "#   tier: a\n", "#   tier: b\n", "#   any\n",
				"\n      clusters:\n        in-cluster:\n",
			}, absent: []string{
				"secret-type: cluster\n#   env",
				"#   argocd", "that generators name",
			},
		},
		"names": {
			generators: "[{merge: {mergeKeys: [nameNormalized], generators: [{clusters: {}}, {list: {elements: [{nameNormalized: prod-1, ring: a}, {nameNormalized: Prod_2}]}}]}}]",
			want: []string{
				"#   prod-1: {server: \"https://…\", environment: prod-1, labels: {}}\n",
				"#   prod-2: {name: \"Prod_2\", server: ",
			}, absent: []string{"ring"},
		},
		"servers": {
			generators: "[{merge: {mergeKeys: [server], generators: [{clusters: {}}, {list: {elements: [{server: 'https://one.example.com'}]}}]}}]",
			want:       []string{"{server: \"https://one.example.com\", environment: one.example.com"},
		},
		"elements only": {
			generators: "[{list: {elements: [{name: x, server: 'https://x.example.com'}]}}]",
			want:       []string{"x.example.com:\n"}, absent: []string{
				"# Argo CD", "# ApplicationSets", "# Clusters",
				"# Labels",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := New(nil).Detect(t.Context(), tree("-- argocd/set.yaml --\n"+set(c.generators)+
				"-- web/cm.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			for _, absent := range c.absent {
				if strings.Contains(string(text), absent) {
					t.Errorf("%q is in\n%s", absent, text)
				}
			}
		})
	}
}

// A chart that renders Applications is named if nothing installs it.
func TestDetectedRootCharts(t *testing.T) {
	t.Parallel()
	const chart = "-- roots/apps/Chart.yaml --\napiVersion: v2\nname: apps\nversion: 0.1.0\n-- roots/apps/templates/web.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: web-{{ .Values.env }}}\n"
	const root = "-- root.yaml --\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: root}\nspec: {project: default, source: {repoURL: 'https://git.example.com/acme/fleet', path: roots/apps}, destination: {name: in-cluster}}\n"
	for files, want := range map[string]bool{chart: true, chart + root: false} {
		text, err := New(nil).Detect(t.Context(), tree(files))
		if got := strings.Contains(string(text), "# The chart roots/apps has templates of Applications"); err != nil ||
			got != want || !strings.Contains(string(text), "in-cluster:\n") {
			t.Errorf("the chart is named: %v, want %v; %v\n%s", got, want, err, text)
		}
	}
}
