package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bed/bedtest"
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

// A cluster that Flux syncs is moved to rendered branches as docs/from-flux.md says. Every object that ran before is the
// same object afterwards, and a change then comes through the branch.
func TestFromFlux(t *testing.T) {
	for _, part := range []string{"gitea", "kubernetes", "flux"} {
		bedtest.Need(t, part)
	}
	t.Parallel()
	t.Run("gitea", func(t *testing.T) {
		s := newStory(t, "gitea")
		work := filepath.Join(s.dir, "work")
		s.run(work, "rm", "-rqf", ".")
		files := map[string]string{}
		for name, text := range ofFlux {
			files[name] = strings.ReplaceAll(text, "ADDRESS", s.tea.URL+"/"+repo+".git")
		}
		writeAll(s, work, files)
		s.commit("a repository of Flux")
		s.push("main")
		c, err := s.startFlux("prod")
		s.tea.check(err)
		do := func(input string, args ...string) string {
			t.Helper()
			out, err := c.Kubectl(t.Context(), input, args...)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		do(files["clusters/prod/flux-system/gotk-sync.yaml"], "apply", "-f", "-")
		s.until("Flux has applied the repository", func() bool {
			return c.get("web", "helmrelease/web", "{.status.conditions[?(@.type=='Ready')].status}") == "True"
		})
		objects := func() []string {
			const id = "{.kind}/{.metadata.name}/{.metadata.uid} "
			return strings.Fields(do("", "-n", "web", "get", "deployment,service", "-o", "jsonpath={range .items[*]}"+id+"{end}") +
				do("", "-n", "web", "get", "configmap/paint", "-o", "jsonpath="+id) +
				do("", "get", "namespace/web", "-o", "jsonpath="+id))
		}
		before := objects()
		if len(before) != 4 {
			t.Fatalf("before: %q", before)
		}

		// 3. Store it, 5. Write rendered branches
		s.run(work, "remote", "set-url", "origin", s.tea.remote(repo, "mia")) // who may push the branches
		s.sluice("import", "--detect", "--write")
		s.commit("Render with Sluice")
		s.push("main")
		s.sluice("hydrate", "--push")
		_, err = s.tea.AddUser(t.Context(), "flux")
		s.tea.check(err)
		s.tea.check(s.tea.Grant(t.Context(), repo, "flux", "write"))
		token, err := s.tea.Token(t.Context(), "flux")
		s.tea.check(err)
		s.tea.check(c.statusSecret(token))
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
		do(c.bootstrap(), "apply", "--server-side", "--field-manager", "sluice", "-f", "-")
		do("", "-n", "flux-system", "wait", "--for=condition=Ready", "--timeout=3m", "kustomizations.kustomize.toolkit.fluxcd.io", "--all")
		if got := objects(); !slices.Equal(got, before) {
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
		if after := objects(); !slices.Equal(after, before) {
			t.Errorf("the objects are\n%q, before they were\n%q", after, before)
		}
	})
}
