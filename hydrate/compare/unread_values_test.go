package compare_test

import (
	"strings"
	"testing"
)

const fluxChart = `-- clusters/prod/web.yaml --
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: shop}
spec:
  interval: 1h
  chart: {spec: {chart: ./charts/web, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}
  values:
    image: a
    old: 1
-- clusters/prod/flux-system/gotk-sync.yaml --
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {url: "https://git.example.com/acme/fleet.git"}
-- charts/web/Chart.yaml --
apiVersion: v2
name: web
version: 1.0.0
-- charts/web/values.yaml --
image: ""
replicaCount: 1
-- charts/web/templates/a.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {image: "{{ .Values.image }}", replicas: "{{ .Values.replicaCount }}"}
`

const argoChart = `-- apps/web.yaml --
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: web, namespace: argocd}
spec:
  destination: {server: "https://kubernetes.default.svc", namespace: shop}
  source:
    repoURL: https://git.example.com/acme/fleet.git
    path: charts/web
    helm: {valueFiles: [../../values/web.yaml]}
-- values/web.yaml --
image: a
old: 1
`

// A review of a repository of Flux or Argo CD warns about a value that the change adds and that no template of the
// chart reads, at its line. What the base has already is not said again, wherever its line moves.
func TestUnreadValuesOfImports(t *testing.T) {
	t.Parallel()
	chart := fluxChart[strings.Index(fluxChart, "-- charts/"):]
	const said = "warning: no template of the chart web reads the value replica, did you mean replicaCount? (correct it, or remove it)"
	for name, tc := range map[string]struct{ fleet, files, name, old, now, want string }{
		"flux": {
			fluxFleet, fluxChart, "clusters/prod/web.yaml", "    image: a\n", "    # more\n    replica: 3\n    image: b\n",
			"clusters/prod/web.yaml:9:14: " + said,
		},
		"argo cd": {
			argoFleet, argoChart + chart, "values/web.yaml", "image: a\n", "# more\nreplica: 3\nimage: b\n",
			"values/web.yaml:2:10: " + said,
		},
		"argo cd, a file of two charts": {
			argoFleet,
			argoChart + chart + strings.NewReplacer("values/web", "values/web", "web", "other").
				Replace(argoChart[:strings.Index(argoChart, "-- values")]) +
				strings.NewReplacer("web", "other", "replicaCount", "replica").Replace(chart),
			"values/web.yaml", "image: a\n", "replica: 3\nimage: b\n", "",
		},
		"read": {fluxFleet, fluxChart, "clusters/prod/web.yaml", "    image: a\n", "    image: b\n    replicaCount: 3\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := edited(t, tc.fleet, tc.files, tc.name, tc.old, tc.now)
			var got []string
			for _, p := range c.Warnings {
				if strings.Contains(p.Message, "reads the value") {
					got = append(got, p.String())
				}
			}
			if strings.Join(got, "\n") != tc.want {
				t.Errorf("warnings: got %q, want %q", got, tc.want)
			}
			if len(c.Changes.Groups) == 0 || len(c.Errors) > 0 {
				t.Errorf("the comparison: got %d groups and the errors %v", len(c.Changes.Groups), c.Errors)
			}
		})
	}
}
