package render_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/render"
	"github.com/sluice-gitops/sluice/hydrate/source"
	"github.com/sluice-gitops/sluice/renderer"
)

const kind = "apiVersion: sluice.dev/v1alpha1\nkind: "

// jobs returns the targets of a fleet whose clusters alternate between two regions. Every seventh has values of its own
// for the app web, and every ninth lacks a variable of the app broken.
func jobs(t *testing.T, clusters int) (*gitstore.Store, []render.Job) {
	t.Helper()
	r := hydratetest.New(t)
	r.Write("sluice.yaml", kind+
		"Fleet\nmetadata: {name: f}\nspec: {layers: [region, cluster], environments: [{name: dev}]}\n")
	app := func(name, more, values string) {
		r.Write("apps/"+name+"/app.yaml", kind+"App\nmetadata: {name: "+name+
			"}\nspec: {namespace: shared, placement: {}, "+more+"source: {helm: {path: charts/web}}}\n")
		r.Write("apps/"+name+"/layers/global/values.yaml", values)
	}
	app("web", "", "a: b\n")
	app("again", "", "a: b\n")
	app("broken", "", "a: ${cluster.vars.zone}\n")
	app("kept", "unstable: keep, ", "a: b\nrandom: true\n")
	r.Write("charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
	r.Write("charts/web/values.yaml", "a: \"\"\nrandom: false\nglobal: {}\n")
	r.Write("charts/web/templates/a.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}"}
data: {a: {{ .Values.a | quote }}, region: {{ .Values.global.region | quote }}, random: "{{ if .Values.random }}{{ randAlphaNum 20 }}{{ end }}"}
---
apiVersion: example.com/v1
kind: Unknown
metadata: {name: custom}
spec: {a: {{ .Values.a | quote }}}
`)
	for i := range clusters {
		name, vars := fmt.Sprintf("c-%03d", i), "{zone: a}"
		if i%9 == 8 {
			vars = "{}"
		}
		r.Write("clusters/"+name+".yaml",
			fmt.Sprintf("%sCluster\nmetadata: {name: %s, labels: {region: r%d}}\nspec: {environment: dev, vars: %s}\n",
				kind, name, i%2, vars))
		if i%7 == 6 {
			r.Write("apps/web/layers/cluster/"+name+"/values.yaml", "a: "+name+"\n")
		}
	}
	for _, region := range []string{"r0", "r1"} {
		r.Write("layers/region/"+region+"/values.yaml", "region: "+region+"\n")
	}
	r.Commit("fleet")
	store, err := gitstore.Open(t.Context(), gitstore.Options{Dir: r.Dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	view, err := source.NewReader(store, hydratetest.Offline{}, newEngine()).Open(t.Context(), r.Resolve("HEAD").Tree)
	if err != nil {
		t.Fatal(err)
	}
	var out []render.Job
	for _, one := range view.Fleet.Targets() {
		target, err := view.Target(one)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, render.Job{Target: target})
	}
	return store, out
}

func newEngine() renderer.Renderer { return renderer.NewEngine(renderer.DefaultLimits()) }

// outcomes renders jobs without a cache of earlier ones.
func outcomes(t *testing.T, store *gitstore.Store, jobs []render.Job) []*render.Outcome {
	t.Helper()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	var mu sync.Mutex
	last := 0
	// several goroutines call it
	out, err := render.New(store, newEngine(), 1).Render(t.Context(), jobs, w, func(done int) {
		mu.Lock()
		defer mu.Unlock()
		last = max(last, done)
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != len(jobs) {
		t.Errorf("the progress ends with %d of %d targets", last, len(jobs))
	}
	render.Complete(w, out, branch.Kinds{})
	return out
}

// describe has all that others read of an outcome.
func describe(o *render.Outcome) string {
	return fmt.Sprint(o.Target.Target, " ", o.Tree(), o.Assumes(), o.Notes(), o.Defines(), o.Err)
}

// Targets that are rendered together have the outcomes, and the errors, that each has alone.
func TestTargetsRenderTogetherAsAlone(t *testing.T) {
	t.Parallel()
	store, list := jobs(t, 20)
	failed, trees := 0, map[gitstore.Hash]bool{}
	for i, o := range outcomes(t, store, list) {
		if o.Err != nil && o.Target.App.Name == "kept" { // its random value differs between any two renderings
			t.Fatal(o.Err)
		}
		if o.Target != list[i].Target {
			t.Fatalf("the outcome of %s is at the place of %s", o.Target.Target, list[i].Target.Target)
		}
		if trees[o.Tree()] = true; o.Err != nil {
			failed++
			if !strings.Contains(o.Err.Error(), o.Target.Cluster.Name) {
				t.Errorf("%s: the error is of another cluster: %v", o.Target.Target, o.Err)
			}
		}
		if o.Target.App.Name == "kept" {
			continue
		}
		if alone := outcomes(t, store, list[i:i+1])[0]; describe(o) != describe(alone) {
			t.Errorf("together %s\nalone    %s", describe(o), describe(alone))
		}
	}
	// each of kept; two regions of each other app, and two clusters with values of their own
	if failed != 2 || len(trees) < 20+2+2+2+2 {
		t.Errorf("%d failed, and there are %d different trees", failed, len(trees))
	}
}

// A target with the same rendering as another one costs no bundle, no values and no digest of them.
func TestEqualTargetsCostLittle(t *testing.T) { //nolint:paralleltest // it counts allocations
	store, list := jobs(t, 80)
	var web []render.Job
	for _, j := range list {
		if j.Target.App.Name == "again" {
			web = append(web, j)
		}
	}
	few := testing.AllocsPerRun(2, func() { outcomes(t, store, web[:2]) })
	many := testing.AllocsPerRun(2, func() { outcomes(t, store, web) })
	if each := (many - few) / float64(len(web)-2); each > 8 {
		t.Errorf("an equal target costs %.0f allocations; two different ones cost %.0f", each, few)
	}
}
