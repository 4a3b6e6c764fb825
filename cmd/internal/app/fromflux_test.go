package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ofFlux are the files of a repository that Flux syncs: a Kustomization with a ConfigMap and a HelmRelease.
var ofFlux = map[string]string{
	"clusters/prod/flux-system/gotk-sync.yaml": `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec:
  interval: 1s
  ref: {branch: main}
  url: ADDRESS
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec:
  interval: 10m
  path: ./clusters/prod
  prune: true
  sourceRef: {kind: GitRepository, name: flux-system}
`,
	"clusters/prod/apps.yaml": `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec:
  interval: 10m
  path: ./apps
  prune: true
  sourceRef: {kind: GitRepository, name: flux-system}
  postBuild: {substitute: {color: blue}}
`,
	"apps/kustomization.yaml": "resources: [namespace.yaml, paint.yaml, release.yaml]\n",
	"apps/namespace.yaml":     "apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n",
	"apps/paint.yaml":         "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: paint, namespace: web}\ndata: {color: \"${color}\"}\n",
	"apps/release.yaml": `apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: web}
spec:
  interval: 10m
  chart:
    spec:
      chart: ./charts/web
      sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}
  values: {replicas: 2}
`,
	"charts/web/Chart.yaml":  "apiVersion: v2\nname: web\nversion: 1.0.0\n",
	"charts/web/values.yaml": "replicas: 1\n",
	"charts/web/templates/web.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec: {containers: [{name: web, image: "registry.example.com/web:1"}]}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {selector: {app: {{ .Release.Name }}}, ports: [{port: 80}]}
`,
}

// replaced replaces the files of the trunk, in which ADDRESS is the address of the repository, and returns them.
func (s *story) replaced(by map[string]string) map[string]string {
	s.t.Helper()
	files, work := map[string]string{}, filepath.Join(s.dir, "work")
	for name, text := range by {
		files[name] = strings.ReplaceAll(text, "ADDRESS", s.tea.URL+"/"+repo+".git")
	}
	s.run(work, "rm", "-rqf", ".")
	writeAll(s, work, files)
	s.commit("a repository of a sync tool")
	s.push("main")
	return files
}

// render stores what `sluice import` detects, and writes the branches, as mia, who may push them.
func (s *story) render() {
	s.t.Helper()
	s.run(filepath.Join(s.dir, "work"), "remote", "set-url", "origin", s.tea.remote(repo, "mia"))
	s.sluice("import", "--detect", "--write")
	s.commit("Render with Sluice")
	s.push("main")
	s.sluice("hydrate", "--push")
}

// objects returns the identities of the objects of the namespace web, and its own: a Deployment, a Service and a
// ConfigMap.
func (c *syncedCluster) objects() []string {
	c.s.t.Helper()
	const id = "{.kind}/{.metadata.name}/{.metadata.uid} "
	out := strings.Fields(c.do("", "-n", "web", "get", "deployment,service", "-o", "jsonpath={range .items[*]}"+id+"{end}") +
		c.do("", "-n", "web", "get", "configmap/paint", "-o", "jsonpath="+id) +
		c.do("", "get", "namespace/web", "-o", "jsonpath="+id))
	if len(out) != 4 {
		c.s.t.Fatalf("the objects of web are %q", out)
	}
	return out
}

// A cluster that Flux syncs is moved to rendered branches as docs/from-flux.md says. Every object that ran before is the
// same object afterwards, and a change then comes through the branch.
func TestFromFlux(t *testing.T) {
	needs(t, []string{"flux"}, func(t *testing.T, s *story) {
		t.Helper()
		work := filepath.Join(s.dir, "work")
		files := s.replaced(ofFlux)
		c := s.startFlux("prod")
		do := c.do
		do(files["clusters/prod/flux-system/gotk-sync.yaml"], "apply", "-f", "-")
		s.until("Flux has applied the repository", func() bool {
			return c.get("web", "helmrelease/web", "{.status.conditions[?(@.type=='Ready')].status}") == "True"
		})
		before := c.objects()

		// 3. Store it, 5. Write rendered branches
		s.render()
		c.statusSecret(s.statusToken())
		// 5.1: what `flux suspend` does is a patch
		suspend := func(kind, namespace string) {
			for name := range strings.FieldsSeq(do("", "-n", namespace, "get", kind, "-o", "name")) {
				do("", "-n", namespace, "patch", name, "--type", "merge", "-p", `{"spec":{"suspend":true}}`)
			}
		}
		suspend("kustomizations.kustomize.toolkit.fluxcd.io", "flux-system")
		suspend("helmreleases.helm.toolkit.fluxcd.io", "web")
		const kinds = "kustomizations.kustomize.toolkit.fluxcd.io,helmreleases.helm.toolkit.fluxcd.io"
		if got := strings.Fields(do("", "get", kinds, "--all-namespaces", "-o", "custom-columns=SUSPENDED:.spec.suspend")); !slices.Equal(got,
			[]string{"SUSPENDED", "true", "true", "true"}) {
			t.Fatalf("suspended: %q", got)
		}
		// 5.2
		do("", "-n", "web", "delete", "helmreleases.helm.toolkit.fluxcd.io", "--all")
		do("", "-n", "flux-system", "delete", "kustomizations.kustomize.toolkit.fluxcd.io", "--all")
		// 5.3
		do(c.bootstrapFlux(), "apply", "--server-side", "--field-manager", "sluice", "-f", "-")
		do("", "-n", "flux-system", "wait", "--for=condition=Ready", "--timeout=3m", "kustomizations.kustomize.toolkit.fluxcd.io", "--all")
		if got := c.objects(); !slices.Equal(got, before) {
			t.Errorf("the objects are\n%q, before they were\n%q", got, before)
		}

		release := filepath.Join(work, "apps/release.yaml")
		s.tea.check(os.WriteFile(release, []byte(strings.Replace(ofFlux["apps/release.yaml"], "replicas: 2", "replicas: 3", 1)), 0o600))
		s.commit("more replicas")
		s.push("main")
		s.sluice("hydrate", "--push")
		s.until("the change comes through the branch", func() bool {
			return c.get("web", "deployment/web", "{.spec.replicas}") == "3"
		})
		if after := c.objects(); !slices.Equal(after, before) {
			t.Errorf("the objects are\n%q, before they were\n%q", after, before)
		}
	})
}
