package app_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ofArgoCD are the files of a repository that Argo CD syncs: an Application that creates another one.
var ofArgoCD = map[string]string{
	"argocd/root.yaml": `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: root, namespace: argocd, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec:
  project: default
  source: {repoURL: ADDRESS, targetRevision: main, path: argocd/apps}
  destination: {server: https://kubernetes.default.svc, namespace: argocd}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`,
	"argocd/apps/web.yaml": `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: web, namespace: argocd, finalizers: [resources-finalizer.argocd.argoproj.io]}
spec:
  project: default
  source: {repoURL: ADDRESS, targetRevision: main, path: web}
  destination: {server: https://kubernetes.default.svc, namespace: web}
  syncPolicy: {automated: {prune: true, selfHeal: true}, syncOptions: [CreateNamespace=true]}
`,
	"web/paint.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: paint}\ndata: {color: blue}\n",
	"web/web.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "registry.example.com/web:1"}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
`,
}

// A cluster that Argo CD syncs is moved to rendered branches as docs/from-argocd.md says. Every object that ran before is
// the same object afterwards, and a change then comes through the branch.
func TestFromArgoCD(t *testing.T) {
	needs(t, []string{"argocd"}, func(t *testing.T, s *story) {
		t.Helper()
		files := s.replaced(ofArgoCD)
		c := s.startArgoCD("in-cluster")
		c.do(files["argocd/root.yaml"], "apply", "-f", "-")
		synced := func() bool {
			return c.get("argocd", "application/web", "{.status.sync.status} {.status.health.status}") == "Synced Healthy"
		}
		s.until("Argo CD has applied the repository", synced)
		before := c.objects()

		// 3. Store it, 5. Write rendered branches
		s.render()
		for _, app := range []string{"root", "web"} {
			c.do("", "-n", "argocd", "patch", "application", app, "--type", "merge", "-p", `{"metadata":{"finalizers":null}}`)
			c.do("", "-n", "argocd", "delete", "application", app)
		}
		c.adoptArgoCD(s.statusToken())
		s.until("Argo CD has applied the branch", func() bool {
			return synced() && c.get("argocd", "application/web", "{.spec.source.targetRevision}") == "cluster/in-cluster"
		})
		if after := c.objects(); !slices.Equal(after, before) {
			t.Errorf("the objects are\n%q, before they were\n%q", after, before)
		}

		writeAll(s, filepath.Join(s.dir, "work"), map[string]string{"web/web.yaml": strings.Replace(files["web/web.yaml"], "replicas: 2", "replicas: 3", 1)})
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
