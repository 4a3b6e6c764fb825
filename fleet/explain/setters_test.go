package explain_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/explain"
	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// targets imports a fixed list of targets.
type targets []fleet.Imported

func (t targets) Import(context.Context, fleet.Tree, fleet.ImportRequest) ([]fleet.Imported, fleet.Problems, error) {
	return slices.Clone(t), nil, nil
}

func (t targets) Detect(context.Context, fleet.Tree) ([]byte, error) { return nil, nil }

const fluxFiles = `
-- sluice.yaml --
apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: x}
spec:
  environments: [{name: prod}]
  import: [{flux: {clusters: {prod: {path: clusters/prod, environment: prod}}}}]
-- clusters/prod/apps.yaml --
kind: Kustomization
spec:
  patches:
  - target: {kind: Helm.*, name: web}
    patch: |
      kind: HelmRelease
      metadata: {name: any}
      spec:
        values: {outer: 7}
  - target: {kind: HelmRelease, name: other}
    patch: "[{op: add, path: /spec/values/stranger, value: 1}]"
-- base/web.yaml --
kind: HelmRelease
metadata: {name: web}
spec:
  valuesFrom:
  - {kind: ConfigMap, name: shared}
  - {kind: ConfigMap, name: generated, valuesKey: web.yaml}
  - {kind: ConfigMap, name: shared, valuesKey: host, targetPath: hosts.main}
  - {kind: Secret, name: sealed, valuesKey: password, targetPath: password}
  - {kind: Secret, name: open, valuesKey: token, targetPath: token}
  values:
    replicas: 1
    size: ${size:=4}
    sealed: ${SEALED}
    own: 1
-- overlays/prod/kustomization.yaml --
resources: [../../base]
patches:
- path: patch.yaml
- target: {kind: HelmRelease}
  patch: |-
    - op: replace
      path: /spec/values/limits~1memory
      value: 64Mi
    - {op: add, path: /spec/values/args/-, value: "-v"}
- path: foreign.yaml
patchesStrategicMerge:
- |
  kind: HelmRelease
  metadata: {name: web}
  spec:
    values:
      old: true
configMapGenerator:
- {name: generated, files: [web.yaml=values/web.yaml, values/other.yaml]}
-- overlays/prod/patch.yaml --
kind: HelmRelease
metadata: {name: web}
spec:
  values:
    replicas: 3
    image: {tag: "2"}
-- overlays/prod/foreign.yaml --
kind: HelmRelease
metadata: {name: foreign}
spec: {values: {stranger: 1}}
-- overlays/prod/values/web.yaml --
# of the file
file: true
-- base/shared.yaml --
kind: ConfigMap
metadata: {name: shared}
data:
  host: web.example.com
  values.yaml: |
    shared:
      deep: yes
---
kind: Secret
metadata: {name: sealed}
data: {password: c2VjcmV0}
---
kind: Secret
metadata: {name: open}
stringData: {token: t0ken}
-- charts/web/values-prod.yaml --
chart: 1
password: secret
sealed: secret
`

// A value of a HelmRelease has the position that sets it, wherever Flux takes it from. Only what a file other than a
// Secret has as it is is shown on pages.
func TestExplainWhatSetsAValue(t *testing.T) {
	t.Parallel()
	tree := map[string]string{}
	for _, f := range txtar.Parse([]byte(fluxFiles)).Files {
		tree[f.Name] = string(f.Data)
	}
	values := map[string]any{
		"replicas": 3.0, "image": map[string]any{"tag": "2"}, "outer": 7.0, "limits/memory": "64Mi",
		"args": []any{"-a", "-v"}, "old": true, "file": true, "own": 1.0, "size": 4.0,
		"shared": map[string]any{"deep": true}, "hosts": map[string]any{"main": "web.example.com"},
		"password": "secret", "token": "t0ken", "sealed": "secret", "chart": 1.0, "stranger": 1.0,
	}
	f, problems := fleet.Loader{Importer: targets{
		{
			Cluster: "prod", App: "apps", Kind: "Kustomization", File: "clusters/prod/apps.yaml", Line: 1,
			Sources: []fleet.ImportedSource{{}}, Reads: []string{
				"base/shared.yaml", "base/web.yaml", "overlays/prod/foreign.yaml", "overlays/prod/gone.yaml",
				"overlays/prod/kustomization.yaml", "overlays/prod/patch.yaml", "overlays/prod/values/web.yaml",
			},
		},
		{
			Cluster: "prod", App: "web.web", Parent: "apps", Kind: "HelmRelease", File: "base/web.yaml", Line: 1,
			Sources: []fleet.ImportedSource{{
				Helm: &fleet.HelmSource{Path: "charts/web"}, Values: values,
				ValuesFiles: []string{"charts/web/values-prod.yaml"},
			}},
		},
	}}.Load(t.Context(), fleettest.NewTree(tree))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	wantPlaces(t, f, "web.web", "", []string{
		"args overlays/prod/kustomization.yaml:9 hidden", "chart charts/web/values-prod.yaml:1",
		"file overlays/prod/values/web.yaml:2", "hosts.main base/shared.yaml:4",
		"image.tag overlays/prod/patch.yaml:6", "limits/memory overlays/prod/kustomization.yaml:8",
		"old overlays/prod/kustomization.yaml:17", "outer clusters/prod/apps.yaml:9",
		"own base/web.yaml:14", "password base/shared.yaml:11 hidden", "replicas overlays/prod/patch.yaml:5",
		"sealed base/web.yaml:13 hidden", "shared.deep base/shared.yaml:7",
		"size base/web.yaml:12 hidden", "stranger base/web.yaml:1 hidden", "token base/shared.yaml:15 hidden",
	})
}

func wantPlaces(t *testing.T, f *fleet.Fleet, app, source string, want []string) {
	t.Helper()
	a, _ := f.App(app)
	c, _ := f.Cluster("prod")
	chains, err := explain.Values(f, fleet.Target{App: a, Cluster: c}, source, "", explain.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, chain := range chains {
		last := chain.Origins[len(chain.Origins)-1]
		line := fmt.Sprintf("%s %s:%d", chain.Path, last.File, last.Line)
		if last.Elsewhere {
			line += " hidden"
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s:\nthe result is\n%q\nwant\n%q", app, got, want)
	}
}

const argoFiles = `
-- sluice.yaml --
apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: x}
spec:
  environments: [{name: prod}]
  import: [{argocd: {clusters: {prod: {environment: prod}}}}]
-- single.yaml --
kind: Application
spec:
  source:
    path: charts/web
    helm:
      parameters:
      - {name: replicas, value: "3"}
      - name: image.tag
        value: "2"
        forceString: true
      fileParameters: [{name: config, path: config.txt}]
      values: |
        own: 1
        image: {tag: "1"}
-- set.yaml --
kind: ApplicationSet
spec:
  template:
    spec:
      sources:
      - {repoURL: x, ref: values}
      - path: charts/web
        helm:
          valuesObject:
            own: 1
            host: "{{.name}}.example.com"
          valueFiles: [values.yaml]
-- charts/web/base.yaml --
base: 1
both: 1
-- charts/web/prod.yaml --
both: 2
`

// A value of an Application has the position of the parameter, the values or the values file that sets it. So has one
// of an Application that an ApplicationSet generates. A source that only has a ref is no source of the target.
func TestExplainWhatSetsAValueOfAnApplication(t *testing.T) {
	t.Parallel()
	tree := map[string]string{}
	for _, f := range txtar.Parse([]byte(argoFiles)).Files {
		tree[f.Name] = string(f.Data)
	}
	files := []string{"charts/web/base.yaml", "charts/web/prod.yaml"}
	f, problems := fleet.Loader{Importer: targets{
		{
			Cluster: "prod", App: "single", Kind: "Application", File: "single.yaml", Line: 1,
			Sources: []fleet.ImportedSource{{
				Helm: &fleet.HelmSource{Path: "charts/web"}, ValuesFiles: files,
				Values: map[string]any{
					"replicas": 3.0, "image": map[string]any{"tag": "2"}, "config": "text\n", "own": 1.0, "base": 1.0,
					"both": 2.0,
				},
			}},
		},
		{
			Cluster: "prod", App: "set", Kind: "Application", File: "set.yaml", Line: 1,
			Sources: []fleet.ImportedSource{{
				Helm: &fleet.HelmSource{Path: "charts/web"}, ValuesFiles: files[:1],
				Values: map[string]any{
					"own": 1.0, "host": "prod.example.com", "base": 1.0,
				},
			}},
		},
	}}.Load(t.Context(), fleettest.NewTree(tree))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	wantPlaces(t, f, "single", "", []string{
		"base charts/web/base.yaml:1", "both charts/web/prod.yaml:1", "config single.yaml:11 hidden",
		"image.tag single.yaml:9", "own single.yaml:13", "replicas single.yaml:7",
	})
	wantPlaces(t, f, "set", "", []string{"base charts/web/base.yaml:1", "host set.yaml:11 hidden", "own set.yaml:10"})
}
