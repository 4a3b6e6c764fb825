package fleet

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

func TestCheckFindsWhatLoadDoesNotRead(t *testing.T) {
	f := mustLoad(t, tiny(map[string]string{
		"apps/web/layers/global/values.yaml":           "ok: 1\nbad: x-${cluster.vars.gone}\n",
		"apps/web/layers/cluster/a/values.yaml":        "a: [\n",
		"apps/web/layers/cluster/b/kustomization.yaml": "kind: Component\npatches:\n- path: p.yaml\n- patch: |-\n    - op: add\n      path: /x\n      value: ${cluster.vars.absent}\n",
		"apps/web/layers/cluster/b/p.yaml":             "kind: Deployment\n",
		"charts/web/Chart.yaml":                        "name: web\n", "k/text/kustomization.yaml": "resources: []\n",
		"apps/other/app.yaml": base +
			"kind: App\nmetadata: {name: other}\nspec:\n  namespace: other\n  placement: {}\n  source:\n    kustomize: {path: \"k/${cluster.vars.s}\"}\n",
	}), NewCache())
	got := f.Check(t.Context())
	text := got.Error()
	for _, want := range []string{
		"apps/web/layers/global/values.yaml:2:6: error: ${cluster.vars.gone} is not set for cluster a",
		"; the same for cluster b",
		"apps/web/layers/cluster/a/values.yaml:",
		"apps/web/layers/cluster/b/kustomization.yaml:7:1: error: ${cluster.vars.absent} is not set for cluster b",
		"apps/other/app.yaml:8:23: error: ${cluster.vars.s} is not set for cluster b",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d problems:\n%s", len(got), text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if f.Check(ctx).Err() == nil {
		t.Error("a check that was stopped must not pass")
	}
}

func TestCheckOfAGoodFleet(t *testing.T) {
	files := bigFleet()
	files["charts/web/Chart.yaml"] = "name: web\n"
	f := mustLoad(t, files, NewCache())
	if p := f.Check(t.Context()); len(p) != 0 {
		t.Error(p)
	}
}

func TestDemonstrationFleet(t *testing.T) {
	tree, ok := os.DirFS("../testdata/fleet").(Tree)
	if !ok {
		t.Fatal("a directory is no tree")
	}
	f, problems := Load(t.Context(), tree, NewCache())
	if len(problems) > 0 || len(f.Targets()) == 0 {
		t.Fatalf("result is %+v", []Problem(problems))
	}
	if problems := f.Check(t.Context()); len(problems) > 0 {
		t.Error(problems)
	}
}

func TestAppsInOneFolder(t *testing.T) {
	app := base + "kind: App\nmetadata: {name: %}\nspec: {namespace: n, placement: {}, source: {manifests: {path: m}}}\n"
	f, problems := Load(t.Context(), fleettest.NewTree(tiny(map[string]string{
		"apps/web/app.yaml": strings.ReplaceAll(app, "%", "web") + "---\n" +
			strings.ReplaceAll(app, "%", "api"),
		"apps/web/layers/region/r1/kustomization.yaml": "kind: Component\n",
	})), NewCache())
	if f == nil || !strings.Contains(problems[0].Message, "api and web are in one folder") {
		t.Error(problems)
	}
}

// Foreign bytes never panic, and a file without references does not change.
func FuzzComponent(f *testing.F) {
	for _, s := range []string{
		"a: ${cluster.name}\n", "patches:\n- patch: |-\n    - value: ${cluster.vars.uid}\n", "a: &x ${app}\nb: *x\n",
		"- '${cluster.vars.m}'\n",
		"a: |\n  ${app}\n  b\n", "[1, \"${cluster.vars.no:=1}\"]", "? ${app}\n: 1\n",
		"a: $${app}\n---\nb: ${environment}\n", "${$$$$${00000000",
	} {
		f.Add([]byte(s))
	}
	fleet := mustLoad(f, tiny(nil), NewCache())
	target := Target{App: fleet.Apps[0], Cluster: fleet.Clusters[0]}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range []string{"kustomization.yaml", "p.json"} {
			out, err := target.ComponentFile(name, data)
			if err != nil {
				continue
			}
			if !bytes.Contains(data, []byte("${")) && !bytes.Equal(out, data) {
				t.Fatalf("%q became %q", data, out)
			}
			if !bytes.Contains(data, []byte("${")) {
				continue
			}
			if _, err := (&replacer{target: Target{
				App:     &App{Name: "x"},
				Cluster: target.Cluster,
			}}).stream(bytes.ReplaceAll(out, []byte("${"), []byte("$${"))); err != nil {
				t.Fatalf("%q became %q, which cannot be read: %v", data, out, err)
			}
		}
	})
}
