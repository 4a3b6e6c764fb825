package site

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/rollout"
)

func TestMainImage(t *testing.T) {
	t.Parallel()
	workload := func(kind, name string, containers ...string) string {
		out := "apiVersion: apps/v1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec: {template: {spec: {initContainers: [{name: first, image: setup:1}], containers: ["
		for _, c := range containers {
			n, image, _ := strings.Cut(c, "=")
			out += "{name: " + n + ", image: \"" + image + "\"}, "
		}
		return out + "]}}}\n"
	}
	proxied := workload("Deployment", "web", "proxy=envoy:1", "web=web:2")
	for name, c := range map[string]struct {
		objects []string
		app     string
		from    fleet.VersionOf
		want    string
	}{
		"no workload":                 {[]string{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n"}, "web", fleet.VersionOf{}, ""},
		"the only one":                {[]string{workload("DaemonSet", "agent", "agent=agent:3")}, "logs", fleet.VersionOf{}, "agent:3"},
		"the container with the name": {[]string{proxied}, "web", fleet.VersionOf{}, "web:2"},
		"of a workspace":              {[]string{proxied}, "team-a/web", fleet.VersionOf{}, "web:2"},
		"the workload with the name":  {[]string{workload("Deployment", "api", "api=api:1"), workload("StatefulSet", "web", "x=store:4")}, "web", fleet.VersionOf{}, "store:4"},
		"a deployment before a job":   {[]string{workload("Job", "a", "a=job:1"), workload("Deployment", "b", "b=app:1")}, "shop", fleet.VersionOf{}, "app:1"},
		"the first container":         {[]string{workload("Deployment", "b", "x=app:1", "y=side:1")}, "shop", fleet.VersionOf{}, "app:1"},
		"the container that it names": {[]string{proxied}, "web", fleet.VersionOf{Container: "proxy"}, "envoy:1"},
		"the workload that it names":  {[]string{proxied, workload("StatefulSet", "db", "db=pg:16")}, "web", fleet.VersionOf{Kind: "StatefulSet", Name: "db"}, "pg:16"},
		"nothing that it names":       {[]string{proxied}, "web", fleet.VersionOf{Container: "other"}, ""},
	} {
		var objects []manifest.Object
		for _, text := range c.objects {
			list, err := manifest.Decode([]byte(text), manifest.DefaultBudget())
			if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, list...)
		}
		if got := mainImage(objects, c.app, c.from); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestWorkloadFiles(t *testing.T) {
	t.Parallel()
	ids := []manifest.Identity{
		{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"},
		{Group: "apps", Kind: "StatefulSet", Namespace: "other", Name: "db"},
		{Group: "batch", Kind: "CronJob", Namespace: "shop", Name: "nightly"},
		{Group: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "web"},
	}
	for i, name := range manifest.FileNames(ids, "shop") {
		if got, want := workloadFile(name), ids[i].Kind != "ConfigMap"; got != want {
			t.Errorf("%s can hold a workload: got %t, want %t", name, got, want)
		}
	}
}

// A commit that changes another app, or only this app's settings, makes no second version of the app.
func TestCellsNameVersions(t *testing.T) {
	t.Parallel()
	e := &Environment{Name: "prod"}
	a := &App{Name: "web"}
	placed := func(image, chart, commit string, tree, desired byte) *Placed {
		return &Placed{
			App: a, Cluster: &Cluster{Environment: e}, Image: image, Version: chart, Commit: Commit{Hash: commit}, Tree: gitstore.Hash{tree},
			Desired: gitstore.Hash{desired},
		}
	}
	got := newCell(e, a, []*Placed{
		placed("ghcr.io/acme/web:1.4", "web 3.0.0", "c1", 1, 1), placed("ghcr.io/acme/web:1.4", "web 3.0.0", "c2", 2, 2),
		placed("ghcr.io/acme/web:1.4", "web 3.0.0", "c1", 1, 3), placed("ghcr.io/acme/web:1.5", "web 3.0.0", "c2", 4, 4),
	})
	if len(got.Variants) != 2 || got.Variants[0].Tag != "1.4" || got.Variants[0].Clusters != 3 ||
		got.Variants[1].Tag != "1.5" || got.Pending != 1 {
		t.Errorf("a cell of two images: got %+v, want 1.4 on 3 clusters and 1.5 on one, and one cluster to go", got)
	}
}

// A hold of some apps stands at these, and one of the whole environment at none: the environment has it.
func TestCellsNameHolds(t *testing.T) {
	t.Parallel()
	e := &Environment{Name: "prod", Status: &promote.Status{}}
	e.Status.Decision.Record.Holds = []rollout.Hold{{Apps: []string{"shop"}}, {}}
	for app, want := range map[string]bool{"shop": true, "web": false} {
		a := &App{Name: app}
		if got := newCell(e, a, []*Placed{{App: a, Cluster: &Cluster{Environment: e}}}).Held; got != want {
			t.Errorf("%s is held back: got %t, want %t", app, got, want)
		}
	}
}

func TestMergeRequestName(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://github.com/acme/fleet/pull/7":             "#7",
		"https://gitlab.com/acme/fleet/-/merge_requests/7": "!7",
		"https://git.example.com/acme/fleet/pulls/7":       "#7",
		"": "!7",
	} {
		if got := (&MergeRequest{Number: 7, URL: url}).Name(); got != want {
			t.Errorf("the number on %q: got %q, want %q", url, got, want)
		}
	}
}
