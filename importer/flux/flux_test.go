package flux_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluice-gitops/sluice/importer/flux"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

type mapTree struct{ fstest.MapFS }

func (m mapTree) Stat(name string) (fs.FileInfo, error) { return fs.Stat(m.MapFS, name) }

// sync is what `flux bootstrap` puts into a cluster's directory.
const sync = `
-- clusters/prod/flux-system/gotk-sync.yaml --
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1m, url: "https://git.example.com/acme/fleet", ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 10m, path: ./clusters/prod, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
-- clusters/prod/flux-system/kustomization.yaml --
resources: [gotk-sync.yaml]
`

// app adds a Kustomization `app` with some fields of its spec.
func app(spec string) string {
	return "-- clusters/prod/app.yaml --\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: app, namespace: flux-system}\n" +
		"spec:\n  interval: 10m\n  prune: true\n  sourceRef: {kind: GitRepository, name: flux-system}\n  path: ./app\n" + indent(spec)
}

func indent(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("  " + line)
	}
	return out.String()
}

const configMap = `
-- app/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {color: red}
`

const deployment = `
-- app/deployment.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  template: {spec: {containers: [{name: web, image: "nginx:1.27"}]}}
`

func units(t *testing.T, archive string, others ...flux.Repository) map[string]flux.Unit {
	t.Helper()
	tree := fstest.MapFS{}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		tree[f.Name] = &fstest.MapFile{Data: f.Data}
		if string(f.Data) == "submodule\n" {
			tree[f.Name].Mode = fs.ModeIrregular
		}
	}
	i, err := flux.New(mapTree{tree}, kustomize.NewBuilder(manifest.DefaultBudget()).AnyFile(), others...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := i.Import(t.Context(), "clusters/prod")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]flux.Unit{}
	for _, u := range list {
		out[u.Key.Kind+"/"+u.Key.Name] = u
	}
	return out
}

// objects are those of a unit's stream.
func objects(t *testing.T, u flux.Unit) []manifest.Object {
	t.Helper()
	out, err := manifest.Decode(u.Stream, manifest.DefaultBudget())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// One case for each field of a Kustomization that decides what is applied. want are pieces of the objects as JSON; none
// are pieces that must not be there.
func TestKustomizationFields(t *testing.T) {
	for name, c := range map[string]struct {
		files      string
		want, none []string
	}{
		"generated kustomization": {app("") + configMap, []string{`"color":"red"`}, nil},
		"generated kustomization takes folders": {app("") + configMap +
			"-- app/sub/kustomization.yaml --\nnamePrefix: sub-\nresources: [c.yaml]\n-- app/sub/c.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", []string{`"name":"sub-x"`, `"name":"config"`}, nil},
		"targetNamespace": {
			app("targetNamespace: team-a\n") + configMap,
			[]string{`"namespace":"team-a"`},
			nil,
		},
		"namePrefix and nameSuffix": {
			app("namePrefix: a-\nnameSuffix: -z\n") + configMap,
			[]string{`"name":"a-config-z"`},
			nil,
		},
		"patches":         {app("patches:\n- patch: |\n    - {op: replace, path: /data/color, value: blue}\n  target: {kind: ConfigMap}\n") + configMap, []string{`"color":"blue"`}, []string{"red"}},
		"strategic patch": {app("patches:\n- patch: |\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: config}\n    data: {size: l}\n") + configMap, []string{`"color":"red","size":"l"`}, nil},
		"images": {
			app("images: [{name: nginx, newTag: \"1.28\"}]\n") + deployment,
			[]string{`"image":"nginx:1.28"`},
			nil,
		},
		"images replace a digest of the kustomization": {app("images: [{name: nginx, newTag: \"1.29\"}]\n") +
			deployment + "-- app/kustomization.yaml --\nresources: [deployment.yaml]\nimages: [{name: nginx, digest: \"sha256:0123456789012345678901234567890123456789012345678901234567890123\"}]\n", []string{`"image":"nginx:1.29"`}, []string{"sha256"}},
		"components": {app("components: [../components/c]\n") + configMap +
			"-- components/c/kustomization.yaml --\napiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nnamePrefix: from-component-\n", []string{"from-component-config"}, nil},
		"ignoreMissingComponents": {app("components: [../components/none]\nignoreMissingComponents: true\n") + configMap, []string{`"color":"red"`}, nil},
		"commonMetadata": {app("commonMetadata: {labels: {team: a}, annotations: {note: n}}\n") +
			configMap, []string{`"labels":{"team":"a"}`, `"annotations":{"note":"n"}`}, nil},
		"substitute": {app("postBuild: {substitute: {color: green}}\n") +
			strings.Replace(configMap, "red", "'${color} ${other:=x}'", 1), []string{`"color":"green x"`}, nil},
		"substitute gives types": {app("postBuild: {substitute: {count: \"3\"}}\n") +
			strings.Replace(deployment, "replicas: 1", "replicas: ${count}", 1), []string{`"replicas":3`}, nil},
		"no substitution without variables": {app("postBuild: {}\n") +
			strings.Replace(configMap, "red", "'${color}'", 1), []string{`"color":"${color}"`}, nil},
		"substitution disabled for an object": {
			app("postBuild: {substitute: {color: green}}\n") +
				strings.Replace(strings.Replace(configMap, "red", "'${color}'", 1), "{name: config}",
					"{name: config, annotations: {kustomize.toolkit.fluxcd.io/substitute: disabled}}", 1),
			[]string{`"color":"${color}"`},
			nil,
		},
		"substituteFrom a ConfigMap in Git": {app("postBuild: {substituteFrom: [{kind: ConfigMap, name: vars}]}\n") + strings.Replace(configMap, "red", "'${color}'", 1) + "-- clusters/prod/vars.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: vars, namespace: flux-system}\ndata: {color: teal}\n", []string{`"color":"teal"`}, nil},
		"substituteFrom a Secret in Git": {app("postBuild: {substituteFrom: [{kind: Secret, name: vars}]}\n") +
			strings.Replace(configMap, "red", "'${color}'", 1) +
			"-- clusters/prod/vars.yaml --\napiVersion: v1\nkind: Secret\nmetadata: {name: vars, namespace: flux-system}\ndata: {color: dGVhbA==}\n", []string{`"color":"teal"`}, nil},
		"optional substituteFrom":               {app("postBuild: {substituteFrom: [{kind: Secret, name: none, optional: true}], substitute: {color: teal}}\n") + strings.Replace(configMap, "red", "'${color}'", 1), []string{`"color":"teal"`}, nil},
		"an encrypted Secret leaves references": {app("postBuild: {substituteFrom: [{kind: Secret, name: vars}], substitute: {size: l}}\n") + strings.Replace(configMap, "red", "'${color}-${size}'", 1) + "-- clusters/prod/vars.yaml --\napiVersion: v1\nkind: Secret\nmetadata: {name: vars, namespace: flux-system}\nstringData: {color: \"ENC[AES256_GCM,data:x]\"}\nsops: {mac: x}\n", []string{`"color":"${color}-l"`}, nil},
		"files from outside the directory": {app("") + configMap +
			"-- app/kustomization.yaml --\nresources: [../shared/other.yaml]\n-- shared/other.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n", []string{`"name":"other"`}, nil},
		"a kustomization without resources": {
			app("") +
				"-- app/kustomization.yaml --\nconfigMapGenerator: [{name: g, literals: [a=b]}]\n",
			[]string{`"a":"b"`},
			nil,
		},
		"sourceignore": {
			app("") + configMap +
				"-- .sourceignore --\n/app/ignored.yaml\n-- app/ignored.yaml --\nnot: kubernetes\n",
			[]string{`"color":"red"`},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			u, ok := units(t, sync+c.files)["Kustomization/app"]
			if !ok || u.Err != nil {
				t.Fatalf("app: there %v, error %v", ok, u.Err)
			}
			got := encoded(t, objects(t, u))
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s is missing in\n%s", want, got)
				}
			}
			for _, none := range c.none {
				if strings.Contains(got, none) {
					t.Errorf("%s is in\n%s", none, got)
				}
			}
			if !slices.Contains(u.Reads, "clusters/prod/app.yaml") || u.Origin.String() != "clusters/prod/app.yaml:1" {
				t.Errorf("reads %v, origin %s", u.Reads, u.Origin)
			}
		})
	}
}

// TestDeletionPolicy: MirrorPrune, the default, follows spec.prune; the other policies overrule it.
func TestDeletionPolicy(t *testing.T) {
	for _, c := range []struct {
		prune  bool
		policy string
		want   bool
	}{
		{true, "", false},
		{false, "", true},
		{true, "deletionPolicy: MirrorPrune\n", false},
		{false, "deletionPolicy: MirrorPrune\n", true},
		{true, "deletionPolicy: Orphan\n", true},
		{false, "deletionPolicy: Orphan\n", true},
		{false, "deletionPolicy: Delete\n", false},
		{false, "deletionPolicy: WaitForTermination\n", false},
	} {
		text := strings.Replace(app(c.policy), "prune: true", fmt.Sprintf("prune: %v", c.prune), 1)
		u, ok := units(t, sync+text+configMap)["Kustomization/app"]
		if !ok || u.Err != nil {
			t.Fatalf("prune %v, %q: there %v, error %v", c.prune, c.policy, ok, u.Err)
		}
		if u.Prune != c.prune || u.Orphan != c.want {
			t.Errorf("prune %v, %q: prune %v, orphan %v; want orphan %v", c.prune, c.policy, u.Prune, u.Orphan, c.want)
		}
	}
}

func TestKustomizationErrors(t *testing.T) {
	for name, c := range map[string]struct{ files, want string }{
		"no directory": {app(""), `"./app" is not a directory`},
		"no source": {strings.Replace(app(""), "name: flux-system}\n  path", "name: other}\n  path", 1) +
			configMap, "GitRepository flux-system/other is not in Git"},
		"another repository": {strings.Replace(app(""), "name: flux-system}\n  path", "name: other}\n  path", 1) +
			configMap + "-- clusters/prod/other.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: other, namespace: flux-system}\nspec: {interval: 1m, url: \"https://git.example.com/acme/other\"}\n", "(https://git.example.com/acme/other) is not this repository"},
		"another branch": {strings.Replace(app(""), "name: flux-system}\n  path", "name: other}\n  path", 1) +
			configMap + "-- clusters/prod/other.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: other, namespace: flux-system}\nspec: {interval: 1m, url: \"https://git.example.com/acme/fleet\", ref: {branch: next}}\n", "is not this repository"},
		"missing ConfigMap": {
			app("postBuild: {substituteFrom: [{kind: ConfigMap, name: vars}]}\n") + configMap,
			"ConfigMap flux-system/vars is not in Git (add it, or set optional: true)",
		},
		"a path that leaves": {app("components: [../../x]\n") + configMap, "must be a relative path in the source"},
		"kubeConfig": {
			app("kubeConfig: {secretRef: {name: x}}\n") + configMap,
			"other clusters are not supported",
		},
		"a remote base": {app("") +
			"-- app/kustomization.yaml --\nresources: [\"https://example.com/x?ref=1\"]\n", "is remote"},
		"a bad substitution": {app("postBuild: {substitute: {a: b}}\n") +
			strings.Replace(configMap, "red", "'${a'", 1), "variable substitution"},
		"bad variable": {
			app("postBuild: {substitute: {a-b: c}}\n") + configMap,
			`"a-b" is not a variable name`,
		},
		"a broken kustomization": {
			app("") + "-- app/kustomization.yaml --\nresources: [none.yaml]\n",
			"app/kustomization.yaml:1: resources[0]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := units(t, sync+c.files)
			u := all["Kustomization/app"]
			if u.Err == nil || !strings.Contains(u.Err.Error(), c.want) {
				t.Errorf("error %v, want %q", u.Err, c.want)
			}
			if root := all["Kustomization/flux-system"]; root.Err != nil || len(objects(t, root)) == 0 {
				t.Errorf("the failure spread to the root: %v", root.Err)
			}
		})
	}
}

// Kustomizations come out of Kustomizations, which patch them.
func TestNested(t *testing.T) {
	all := units(t, sync+app("patches:\n- patch: |\n    - {op: add, path: /spec/targetNamespace, value: patched}\n  target: {kind: Kustomization}\n")+`
-- app/inner.yaml --
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: inner, namespace: flux-system}
spec: {interval: 10m, prune: false, path: ./inner, sourceRef: {kind: GitRepository, name: flux-system}, dependsOn: [{name: app}]}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: asleep, namespace: flux-system}
spec: {interval: 10m, prune: true, suspend: true, path: ./none, sourceRef: {kind: GitRepository, name: flux-system}}
-- inner/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
`)
	inner := all["Kustomization/inner"]
	if inner.Err != nil || !strings.Contains(encoded(t, objects(t, inner)), `"namespace":"patched"`) || inner.Prune ||
		inner.Parent.Name != "app" || len(inner.DependsOn) != 1 {
		t.Errorf("the inner is %+v", inner)
	}
	if got := len(objects(t, all["Kustomization/app"])); got != 0 {
		t.Errorf("app still has %d objects", got)
	}
	if u := all["Kustomization/asleep"]; !u.Suspended || u.Err != nil {
		t.Errorf("the unit is %+v", u)
	}
}

const helmRelease = `
-- app/release.yaml --
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: web}
spec:
  interval: 10m
`

func TestHelmReleases(t *testing.T) {
	const repository = "-- app/source.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: charts, namespace: web}\nspec: {interval: 1h, url: \"https://charts.example.com\"}\n"
	const chart = "  chart: {spec: {chart: web, version: \"1.x\", sourceRef: {kind: HelmRepository, name: charts}}}\n"
	const vars = "-- app/values.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: values, namespace: web}\ndata: {values.yaml: \"a: from\\nb: from\\n\", single: \"7\"}\n"
	for name, c := range map[string]struct{ files, want string }{
		"chart repository": {
			helmRelease + chart + repository,
			`"Repo":"https://charts.example.com","Chart":"web","Version":"1.x","Name":"web","Namespace":"web","Values":{},"Defaults":null,"ValuesFiles":null,"Without":null,"IncludeCRDs":true`,
		},
		"OCI chart repository": {helmRelease + chart + strings.Replace(repository, `url: "https://`,
			`type: oci, url: "oci://`, 1), `"Chart":"oci://charts.example.com/web"`},
		"OCIRepository": {helmRelease +
			"  chartRef: {kind: OCIRepository, name: web}\n-- app/source.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {name: web, namespace: web}\nspec: {interval: 1h, url: \"oci://registry.example.com/web\", ref: {tag: 1.2.3}}\n", `"Chart":"oci://registry.example.com/web","Version":"1.2.3"`},
		"a tag and a digest": {helmRelease +
			"  chartRef: {kind: OCIRepository, name: web}\n-- app/source.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {name: web, namespace: web}\nspec: {interval: 1h, url: \"oci://registry.example.com/web\", ref: {tag: 1.2.3, digest: \"sha256:aa\"}}\n", `"Chart":"oci://registry.example.com/web","Version":"1.2.3@sha256:aa"`},
		"a chart of the repository": {
			helmRelease +
				"  chart: {spec: {chart: ./charts/web, valuesFiles: [charts/web/values-prod.yaml], sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}\n  values: {b: 3}\n" +
				"-- charts/web/Chart.yaml --\nname: web\n-- charts/web/values-prod.yaml --\na: 1\nb: 2\n",
			`"Path":"charts/web","Repo":"","Chart":"","Version":"","Name":"web","Namespace":"web","Values":{"b":3},"Defaults":{"a":1,"b":2},"ValuesFiles":["charts/web/values-prod.yaml"]`,
		},
		"release name and namespaces": {
			helmRelease + chart + "  targetNamespace: apps\n" + repository,
			`"Name":"apps-web","Namespace":"apps"`,
		},
		"releaseName": {helmRelease + chart + "  releaseName: other\n" + repository, `"Name":"other"`},
		"valuesFrom": {
			helmRelease + chart +
				"  valuesFrom: [{kind: ConfigMap, name: values}]\n  values: {b: own}\n" + repository + vars,
			`"Values":{"a":"from","b":"own"}`,
		},
		"valuesFrom with targetPath": {helmRelease + chart +
			"  valuesFrom: [{kind: ConfigMap, name: values, valuesKey: single, targetPath: x.count}]\n" + repository +
			vars, `"Values":{"x":{"count":7}}`},
		"optional valuesFrom": {helmRelease + chart +
			"  valuesFrom: [{kind: Secret, name: none, optional: true}]\n" + repository, `"Values":{}`},
		"no CRDs": {
			helmRelease + chart + "  install: {crds: Skip}\n" + repository,
			`"IncludeCRDs":false`,
		},
		"no hooks": {
			helmRelease + chart + "  install: {disableHooks: true}\n" + repository,
			`"DropHooks":true`,
		},
		"an older API": {strings.Replace(helmRelease, "fluxcd.io/v2", "fluxcd.io/v2beta2", 1) + chart +
			repository, `"Chart":"web"`},
	} {
		t.Run(name, func(t *testing.T) {
			u := units(t, sync+app("")+c.files)["HelmRelease/web"]
			if u.Err != nil {
				t.Fatal(u.Err)
			}
			if got := encoded(t, u.Release); !strings.Contains(got, c.want) {
				t.Errorf("\nthe result of encoded is %s\nwant\n%s", got, c.want)
			}
			if u.Origin.String() != "app/release.yaml:1" {
				t.Errorf("origin %s", u.Origin)
			}
		})
	}
	t.Run("post-renderers", func(t *testing.T) {
		u := units(t, sync+app("")+helmRelease+chart+
			"  postRenderers: [{kustomize: {images: [{name: nginx, newTag: \"2\"}], patches: [{patch: \"- {op: add, path: /x, value: y}\", target: {kind: Service}}]}}]\n"+repository)["HelmRelease/web"]
		if u.Err != nil || !strings.Contains(string(u.Release.Component), "newTag: \"2\"") ||
			!strings.Contains(string(u.Release.Component), "kind: Service") {
			t.Errorf("%v\nthe component is\n%s", u.Err, u.Release.Component)
		}
	})
	for name, c := range map[string]struct{ files, want string }{
		"no source": {helmRelease + chart, "HelmRepository web/charts is not in Git"},
		"no values": {helmRelease + chart + "  valuesFrom: [{kind: ConfigMap, name: values}]\n" +
			repository, "spec.valuesFrom[0]: ConfigMap web/values is not in Git"},
		"no key": {
			helmRelease + chart +
				"  valuesFrom: [{kind: ConfigMap, name: values, valuesKey: other}]\n" + repository + vars,
			`has no key "other"`,
		},
		"encrypted values": {helmRelease + chart + "  valuesFrom: [{kind: Secret, name: v}]\n" + repository +
			"-- app/secret.yaml --\napiVersion: v1\nkind: Secret\nmetadata: {name: v, namespace: web}\nstringData: {values.yaml: \"ENC[AES256_GCM,data:x]\"}\nsops: {mac: x}\n", "the values are encrypted"},
		"no hooks to renderers": {
			helmRelease + chart +
				"  postRenderStrategy: nohooks\n  commonMetadata: {labels: {a: b}}\n" + repository,
			"spec.postRenderStrategy: nohooks is not supported",
		},
		"neither chart": {helmRelease + "  values: {}\n", "spec.chart or spec.chartRef is missing"},
		"a bucket": {helmRelease + strings.Replace(chart, "HelmRepository", "Bucket", 1) +
			"-- app/source.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: Bucket\nmetadata: {name: charts, namespace: web}\nspec: {interval: 1h}\n", "Bucket web/charts is not this repository, so its content is not rendered (if it is pushed from a directory of this repository, name the directory in its annotation sluice.dev/pushed-from"},
		"an OCI chart by digest": {helmRelease +
			"  chartRef: {kind: OCIRepository, name: web}\n-- app/source.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {name: web, namespace: web}\nspec: {interval: 1h, url: \"oci://registry.example.com/web\", ref: {digest: \"sha256:1\"}}\n", "with ref.digest and without ref.tag is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			u := units(t, sync+app("")+c.files)["HelmRelease/web"]
			if u.Err == nil || !strings.Contains(u.Err.Error(), c.want) {
				t.Errorf("error %v, want %q", u.Err, c.want)
			}
		})
	}
}

// A chart of a Bucket that CI pushes from the repository is the chart in the repository.
func TestChartOfPushedBucket(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{"published": "published/charts/web", ".": "charts/web"} {
		files := helmRelease + "  chart: {spec: {chart: charts/web, valuesFiles: [charts/web/values.yaml], sourceRef: {kind: Bucket, name: charts}}}\n" +
			"-- app/source.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: Bucket\nmetadata: {name: charts, namespace: web, annotations: {sluice.dev/pushed-from: " + from + "}}\nspec: {interval: 1h}\n" +
			"-- " + want + "/Chart.yaml --\napiVersion: v2\nname: web\nversion: 1.0.0\n-- " + want + "/values.yaml --\na: b\n"
		u := units(t, sync+app("")+files)["HelmRelease/web"]
		if u.Err != nil || u.Release == nil || u.Release.Path != want || u.Release.Defaults["a"] != "b" {
			t.Errorf("pushed from %q: %v: the release is %+v, want the chart %s", from, u.Err, u.Release, want)
		}
	}
}

// A repository without Flux's own sync objects, and artifacts that an ArtifactGenerator makes.
func TestSources(t *testing.T) {
	all := units(t, strings.Replace(app(""), "{kind: GitRepository, name: flux-system}",
		"{kind: GitRepository, name: fleet}", 1)+configMap)
	if u := all["Kustomization/app"]; u.Err != nil || len(objects(t, u)) != 1 {
		t.Errorf("the unit is %+v", u)
	}
	all = units(t, sync+strings.Replace(app(""), "{kind: GitRepository, name: flux-system}\n  path: ./app", "{kind: ExternalArtifact, name: apps}\n  path: ./web", 1)+configMap+`
-- clusters/prod/artifacts.yaml --
apiVersion: source.extensions.fluxcd.io/v1beta1
kind: ArtifactGenerator
metadata: {name: g, namespace: flux-system}
spec:
  sources: [{alias: repo, kind: GitRepository, name: flux-system}]
  artifacts: [{name: apps, copy: [{from: "@repo/app/**", to: "@artifact/web/"}]}]
`)
	u := all["Kustomization/app"]
	if u.Err != nil || len(objects(t, u)) != 1 || !slices.Contains(u.Reads, "app/config.yaml") {
		t.Errorf("the unit is %+v", u)
	}
}

// source-controller checks out only what spec.sparseCheckout names, and content of submodules is not in the commit.
func TestCheckedOutFiles(t *testing.T) {
	spec := func(fields string) string {
		return strings.Replace(sync, "ref: {branch: main}", "ref: {branch: main}, "+fields, 1)
	}
	sub := "-- app/sub/kustomization.yaml --\nresources: [sub.yaml]\n-- app/sub/sub.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: sub}\n"
	const submodule = "-- app/module --\nsubmodule\n"
	for name, c := range map[string]struct {
		files, want string // an error
		objects     int
	}{
		"all": {spec("recurseSubmodules: true") + configMap + sub, "", 2},
		"the directories": {
			spec("sparseCheckout: [./clusters/, ./app/config.yaml]") + configMap + sub, "",
			1,
		},
		"ignored files among them": {
			spec(`sparseCheckout: [clusters, app], ignore: "/app/sub/"`) + configMap + sub,
			"", 1,
		},
		"a .sourceignore outside": {spec("sparseCheckout: [clusters, app]") + configMap + sub +
			"-- .sourceignore --\nsub/\n", "", 2},
		"not the directory": {
			spec("sparseCheckout: [clusters]") + configMap,
			`"./app" is not a directory of the source`, 0,
		},
		"a submodule": {
			spec("recurseSubmodules: true") + configMap + submodule,
			"spec.path: the submodule app/module is not in the commit", 0,
		},
		"a submodule of no interest": {spec("recurseSubmodules: true") + configMap + submodule +
			"-- app/kustomization.yaml --\nresources: [config.yaml]\n", "", 1},
		"a submodule that Flux leaves": {sync + configMap + submodule, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			u := units(t, app("")+c.files)["Kustomization/app"]
			if c.want == "" && (u.Err != nil || len(objects(t, u)) != c.objects) ||
				c.want != "" && (u.Err == nil || !strings.Contains(u.Err.Error(), c.want)) {
				t.Errorf("%d objects, error %v; want %d, %q", len(objects(t, u)), u.Err, c.objects, c.want)
			}
		})
	}
}

// A label that a variable leaves without a value is empty, and labels that are no texts give way to common ones, as in
// Flux.
func TestLabelsThatAreNoTexts(t *testing.T) {
	const object = "-- app/c.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  labels: {a: \"${none}\", b: x}\n  annotations: {n: \"${number}\", k: v}\n"
	for common, want := range map[string]string{
		"":                                   `{"annotations":{"k":"v","n":5},"labels":{"a":"","b":"x"},"name":"c"}`,
		"commonMetadata: {labels: {c: d}}\n": `{"annotations":{"k":"v","n":5},"labels":{"a":"","b":"x","c":"d"},"name":"c"}`,
		"commonMetadata: {annotations: {c: d}}\n": `{"annotations":{"c":"d"},"labels":{"a":"","b":"x"},"name":"c"}`,
	} {
		u := units(t, sync+app("postBuild: {substitute: {none: \"\", number: \"5\"}}\n"+
			common)+object)["Kustomization/app"]
		if u.Err != nil {
			t.Fatal(u.Err)
		}
		if got := encoded(t, objects(t, u)[0]["metadata"]); got != want {
			t.Errorf("%q: the result of encoded is %s, want %s", common, got, want)
		}
	}
}
