package compare_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// importer imports one app on clusters of prod.
type importer struct{ clusters []string }

func (i importer) Detect(context.Context, fleet.Tree) ([]byte, error) { return nil, nil }

func (i importer) Import(context.Context, fleet.Tree, fleet.ImportRequest) ([]fleet.Imported, fleet.Problems, error) {
	var out []fleet.Imported
	for _, c := range i.clusters {
		out = append(out, fleet.Imported{
			Cluster: c, App: "extra", File: "sluice.yaml", Line: 1, Kind: "Kustomization",
			Namespace: "extra",
		})
	}
	return out, nil, nil
}

// TestReads: the digest of what a comparison reads of the fleet changes with each of these things, and with nothing
// else of the fleet. A comparison whose report changes always has another digest.
func TestReads(t *testing.T) {
	t.Parallel()
	r := hydratetest.Demo(t)
	extra := func(color string) {
		r.Write("apps/extra/app.yaml",
			"apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: extra}\nspec: {namespace: extra, placement: {}, source: {manifests: {path: extra}}}\n")
		r.Write("extra/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\ndata: {color: "+color+
			"}\n")
	}
	const global, cluster, class = "apps/gateway/layers/global/values.yaml", "clusters/prod-eu-1.yaml", "class: core"
	extra("red")
	r.Commit("An app that an import replaces")
	r.Hydrate(nil)
	before := r.Resolve("env/prod")
	r.Write(global, strings.Replace(r.Read(global), "${cluster.vars.lbRange}", "net ${cluster.vars.lbRange}", 1))
	extra("blue")
	r.Commit("Two apps change")
	r.Hydrate(nil)
	after := r.Resolve("env/prod")
	r.Git("rm", "-rq", "apps/extra", "extra")
	sluiceYAML := r.Read("sluice.yaml") +
		"  files: {clusters: [\"clusters/*.yaml\"], apps: [\"apps/*/app.yaml\"]}\n  import:\n    - flux: {clusters: {prod-us-1: {path: flux}}}\n"
	r.Write("sluice.yaml", sluiceYAML)
	all := []string{"prod-edge-1", "prod-eu-1", "prod-us-1"}
	h := r.Hydrator(2)
	look := func(clusters []string) (digest, report []byte) {
		t.Helper()
		f, problems := fleet.Loader{Importer: importer{clusters}}.Load(t.Context(), os.DirFS(r.Dir).(fleet.Tree))
		if problems.Err() != nil {
			t.Fatal(problems.Err())
		}
		digest, err := compare.NewReads(f).Digest(t.Context(), h.Store, "prod", before.Tree, after.Tree)
		if err != nil {
			t.Fatal(err)
		}
		set, _, err := compare.States(t.Context(), h, compare.StatesRequest{
			Fleet: f, Environment: "prod",
			Before: before.Tree, After: after.Tree, Key: []byte("k"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if report, err = json.Marshal(set); err != nil {
			t.Fatal(err)
		}
		return digest, report
	}
	first, was := look(all)
	replace := func(file, old, by string) func() {
		return func() {
			text := r.Read(file)
			if !strings.Contains(text, old) {
				t.Fatalf("%s lacks %s", file, old)
			}
			r.Write(file, strings.Replace(text, old, by, 1))
		}
	}
	for name, c := range map[string]struct {
		edit     func()
		clusters []string
		counts   bool // it has another digest
		shows    bool // the report changes
	}{
		"a variable that no app uses":     {edit: replace(cluster, "vars:\n", "vars:\n    unused: x\n")},
		"a variable of another cluster":   {edit: replace("clusters/dev-1.yaml", "10.10.0.0/24", "10.99.0.0/24")},
		"a label, which can name a group": {edit: replace(cluster, "labels: {", "labels: {team: red, "), counts: true},
		"another environment": {edit: replace("sluice.yaml", "    - name: dev\n",
			"    - name: dev\n    - name: lab\n")},
		"the sync tool of another environment": {edit: replace("sluice.yaml", "    - name: dev\n",
			"    - {name: dev, sync: flux}\n")},
		"another app": {edit: func() {
			r.Write("apps/more/app.yaml", strings.Replace(r.Read("apps/shop/app.yaml"), "name: shop}", "name: more}",
				1))
		}},
		"the placement of an app without a change": {edit: replace("apps/shop/app.yaml",
			"placement: {matchLabels: {tier: core}}", "placement: {}")},
		"a value without a reference": {edit: replace(global, "config:", "replicas: 4\nconfig:")},
		"a value of an app without a change": {edit: replace("apps/shop/layers/global/values.yaml",
			"${cluster.vars.domain}", "${cluster.vars.shortName}")},
		"a variable that a changed app uses": {
			edit:   replace(cluster, "lbRange: ", "lbRange: 192.0.2.0/24 #"),
			counts: true, shows: true,
		},
		"a layer that no longer refers to it": {
			edit:   replace(global, "${cluster.vars.lbRange}", "one"),
			counts: true, shows: true,
		},
		"the sync tool": {edit: replace("sluice.yaml", "    - name: prod\n",
			"    - name: prod\n      sync: flux\n"), counts: true},
		"the placement of a changed app": {
			edit:   replace("apps/gateway/app.yaml", "[core, edge]", "[core]"),
			counts: true, shows: true,
		},
		"a cluster": {
			edit:   replace(cluster, class, class+"\n  state: retired"),
			counts: true, shows: true,
		},
		"the placement of an import": {edit: func() {}, clusters: all[:2], counts: true, shows: true},
	} {
		c.edit()
		if c.clusters == nil {
			c.clusters = all
		}
		digest, report := look(c.clusters)
		if counts := !bytes.Equal(digest, first); counts != c.counts {
			t.Errorf("%s: another digest: %v", name, counts)
		}
		if shows := !bytes.Equal(report, was); shows != c.shows {
			t.Errorf("%s: another report: %v", name, shows)
		}
		r.Git("checkout", "-q", ".")
		r.Git("clean", "-dfq")
		r.Write("sluice.yaml", sluiceYAML)
	}
}
