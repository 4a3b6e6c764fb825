package render_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// Hook Jobs, and only they, get Flux's force annotation if the environment syncs with Flux and the fleet asks for it.
func TestHookJobsGetForceAnnotationForFlux(t *testing.T) {
	job := func(name, annotations string) string {
		return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: " + name + ", annotations: {" + annotations +
			"}}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n---\n"
	}
	for _, c := range []struct {
		sync string
		want bool
	}{
		{"  sync: flux\n  flux: {forceHookJobs: true}\n", true},
		{"  sync: flux\n", false},
		{"  sync: argocd\n  flux: {forceHookJobs: true}\n", false},
	} {
		r := hydratetest.New(t)
		const base = "apiVersion: sluice.dev/v1alpha1\n"
		r.Write("sluice.yaml", base+"kind: Fleet\nmetadata: {name: f}\nspec:\n  environments: [{name: dev}]\n"+c.sync)
		r.Write("clusters/a.yaml", base+"kind: Cluster\nmetadata: {name: a}\nspec: {environment: dev}\n")
		r.Write("apps/web/app.yaml", base+
			"kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {manifests: {path: m}}}\n")
		r.Write("m/jobs.yaml", job("helm", "helm.sh/hook: pre-upgrade")+job("argo", "argocd.argoproj.io/hook: Sync")+
			job("plain", "a: b")+job("own", "helm.sh/hook: pre-upgrade, kustomize.toolkit.fluxcd.io/force: disabled"))
		r.Commit("jobs")
		r.Hydrate(func(q *hydrate.Request) { q.Environments = nil })
		for name, want := range map[string]bool{"helm": c.want, "argo": c.want, "plain": false, "own": false} {
			text := r.Git("show", "env/dev:a/web/job-"+name+".yaml")
			if got := strings.Contains(text, "kustomize.toolkit.fluxcd.io/force: enabled"); got != want {
				t.Errorf("%q: Job %s is forced: %t\n%s", c.sync, name, got, text)
			}
		}
	}
}

// Environments share renderings, but each gets the annotations of its own sync tool.
func TestForceAnnotationDiffersBetweenEnvironments(t *testing.T) {
	t.Parallel()
	const base = "apiVersion: sluice.dev/v1alpha1\n"
	for _, order := range [][2]string{{"flux", "argocd"}, {"argocd", "flux"}} {
		r := hydratetest.New(t)
		r.Write("sluice.yaml", base+
			"kind: Fleet\nmetadata: {name: f}\nspec:\n  flux: {forceHookJobs: true}\n  environments: [{name: dev, sync: "+order[0]+"}, {name: prod, sync: "+order[1]+"}]\n")
		r.Write("clusters/a.yaml", base+"kind: Cluster\nmetadata: {name: a}\nspec: {environment: dev}\n")
		r.Write("clusters/b.yaml", base+"kind: Cluster\nmetadata: {name: b}\nspec: {environment: prod}\n")
		r.Write("apps/web/app.yaml", base+
			"kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {manifests: {path: m}}}\n")
		r.Write("m/job.yaml", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {helm.sh/hook: pre-upgrade}}\n"+
			"spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n")
		r.Commit("jobs")
		r.Hydrate(func(q *hydrate.Request) { q.Environments = nil })
		for i, file := range []string{"env/dev:a/web/job-j.yaml", "env/prod:b/web/job-j.yaml"} {
			if got, want := strings.Contains(r.Git("show", file), "force: enabled"), order[i] == "flux"; got != want {
				t.Errorf("%q: %s is forced: %t", order, file, got)
			}
		}
	}
}
