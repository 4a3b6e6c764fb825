package site_test

import (
	"slices"
	"strings"
	"testing"
)

// The page of versions shows who has which, who is behind and why, and how far an upgrade is. A fleet without versions
// has no such page.
func TestKubernetesPage(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	class := d.repo.Read("clusters/classes.yaml")
	d.repo.Write("clusters/classes.yaml", strings.ReplaceAll(class, "1.33.2", "1.34.1"))
	d.repo.Commit("Kubernetes 1.34")
	d.hydrate("dev")
	f := d.read(t)
	all := pagesOf(t, f)
	got := text(all["kubernetes.html"])
	for _, want := range []string{
		"Kubernetes: 5 clusters behind the trunk", "1.34 2 clusters of dev", "1.33 2 clusters of staging 3 clusters of prod",
		"1.34 by dev 2 of 2 clusters done", "1.34 by prod 0 of 3 clusters 0 %", "Waves prod/canary 0 of 1, prod/rest 0 of 2", "0 commands, 0 approvals",
		"prod-us-1 prod rest 1.33.2 1.34.1", "staging waits for before/dev: it bakes in dev until", "sluice status --versions",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	if !strings.Contains(text(all["index.html"]), "Kubernetes") {
		t.Error("the pages do not lead to it")
	}
	d.repo.Git("branch", "-D", "env/prod")
	got = text(pagesOf(t, d.read(t))["kubernetes.html"])
	if !strings.Contains(got, "Kubernetes: 2 clusters behind the trunk, 3 clusters of unknown version") {
		t.Errorf("clusters of unknown version count as up to date:\n%s", got)
	}
	d.repo.Write("clusters/classes.yaml", strings.ReplaceAll(class, "kubeVersion: 1.33.2", ""))
	d.repo.Commit("no versions")
	f = d.read(t)
	names := pagesOf(t, f)
	if _, ok := names["kubernetes.html"]; ok || slices.Contains(f.Labels, "kubernetes") {
		t.Error("there is a page without versions")
	}
}
