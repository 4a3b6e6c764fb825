package upgrade_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/policy/lifecycle"
	"github.com/sluice-gitops/sluice/renderer/helm"
	"github.com/sluice-gitops/sluice/renderer/manifest"
	"github.com/sluice-gitops/sluice/report"
)

// fact is a row of pluto's table.
type fact struct{ deprecated, removed lifecycle.Minor }

// facts reads the rows of pluto's table, by apiVersion and kind. It leaves out what package lifecycle's test says of
// rows that contradict Kubernetes' own types.
func facts(t *testing.T) map[[2]string]fact {
	t.Helper()
	data, err := os.ReadFile("../../policy/lifecycle/testdata/pluto.tsv")
	if err != nil {
		t.Fatal(err)
	}
	out := map[[2]string]fact{}
	for line := range strings.Lines(string(data)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) != 5 || strings.HasSuffix(row[1], "List") || row[1] == "FlowControl" {
			continue // manifests have the items of lists
		}
		var f fact
		f.deprecated, _ = lifecycle.ParseMinor(row[2])
		f.removed, _ = lifecycle.ParseMinor(row[3])
		out[[2]string{row[0], row[1]}] = f
	}
	if len(out) < 60 {
		t.Fatalf("only %d facts", len(out))
	}
	return out
}

// said returns the objects that a plan has api-removed or api-deprecated for, as `rule app Kind/name`.
func said(u *report.Upgrade) map[string]bool {
	out := map[string]bool{}
	for i := range u.Issues {
		one := &u.Issues[i]
		if one.Rule == lifecycle.RuleRemoved || one.Rule == lifecycle.RuleDeprecated {
			out[fmt.Sprintf("%s %s %s/%s", one.Rule, one.App, one.Object.Kind, one.Object.Name)] = true
		}
	}
	return out
}

// A plan lists an object of each kind that pluto's table says is removed at the new version.
func TestListsWhatPlutoLists(t *testing.T) {
	t.Parallel()
	r := newFleet(t)
	all := facts(t)
	names := map[[2]string]string{}
	r.Write("apps/all/app.yaml", app("all", "manifests: {path: apps/all/m}"))
	for key := range all {
		name := strings.NewReplacer("/", "-", ".", "-").Replace(strings.ToLower(key[0]))
		names[key] = name
		spec := ""
		if key[1] == "CustomResourceDefinition" {
			spec = "spec: {group: example.org, scope: Namespaced, names: {kind: Thing, plural: things}, version: v1}\n"
		}
		r.Write("apps/all/m/"+name+"-"+strings.ToLower(key[1])+".yaml", fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s}\n%s", key[0], key[1], name, spec))
	}
	for _, c := range [][2]string{{"1.15.0", "1.22"}, {"1.21.0", "1.25"}, {"1.25.0", "1.37"}} {
		r.Write("clusters/dev-1.yaml", header+"kind: Cluster\nmetadata: {name: dev-1}\nspec: {environment: dev, kubeVersion: "+c[0]+"}\n")
		r.Commit(c[1])
		to, _ := lifecycle.ParseMinor(c[1])
		got := said(plan(t, r, c[1], func(c *fleet.Cluster) bool { return c.Name == "dev-1" }))
		listed := 0
		for key, f := range all {
			ours, _ := lifecycle.Of(key[0], key[1])
			if f.removed.IsZero() || to.Before(f.removed) || to.Before(ours.Removed) {
				continue
			}
			listed++
			if one := "api-removed all " + key[1] + "/" + names[key]; !got[one] {
				t.Errorf("%s → %s: %s is missing", c[0], c[1], one)
			}
		}
		if listed < 10 {
			t.Errorf("%s: only %d objects", c[1], listed)
		}
	}
}

const corpus = "../../../shared/corpus"

// The real charts and manifests: a plan over four versions lists every object that pluto's table lists in what Helm
// renders at the new version, and names the charts that refuse a version.
func TestPlansOfRealCharts(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	root := corpus
	if other := os.Getenv("CORPUS"); other != "" {
		root = other
	}
	archives, err := filepath.Glob(root + "/charts/*.tgz")
	if err != nil || len(archives) == 0 {
		t.Skip("the real charts of ../shared/corpus are not here")
	}
	r := hydratetest.New(t)
	r.Write("sluice.yaml", header+"kind: Fleet\nmetadata: {name: f}\nspec: {environments: [{name: prod}]}\n")
	r.Write("clusters/a.yaml", header+"kind: Cluster\nmetadata: {name: old}\nspec: {environment: prod, kubeVersion: 1.21.0}\n---\n"+header+"kind: Cluster\nmetadata: {name: young}\nspec: {environment: prod, kubeVersion: 1.33.0}\n")
	apps := map[string]string{} // archives, by app
	for _, a := range archives {
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(a), ".tgz"), ".", "-")
		if strings.HasPrefix(name, "app-template") { // a library that refuses its default values
			continue
		}
		apps[name] = a
		chart := unpack(r, name, a)
		r.Write("apps/"+name+"/app.yaml", app(name, "helm: {path: charts/"+name+"/"+chart+", includeCRDs: true}"))
	}
	for name := range apps {
		if strings.HasPrefix(name, "grafana") { // otherwise its password changes by itself
			r.Write("apps/"+name+"/layers/global/values.yaml", "adminPassword: fixed\n")
		}
	}
	examples := map[string]string{
		"argo-workflows": "applicationset/examples/matrix/cluster-addons/argo-workflows/namespace-install.yaml",
		"psp":            "test/e2e/testdata/deprecated-extensions/pod-security-policy.yaml",
		"netpol":         "test/e2e/testdata/deprecated-extensions/network-policy.yaml",
	}
	texts := map[string][]byte{}
	for name, file := range examples {
		data, err := os.ReadFile(filepath.Join(root, "argocd/argoproj--argo-cd", file))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = data
		r.Write("apps/"+name+"/app.yaml", app(name, "manifests: {path: apps/"+name+"/m}"))
		r.Write("apps/"+name+"/m/a.yaml", string(data))
	}
	r.Commit("apps")
	for _, c := range []struct {
		cluster, to string
		from, last  int
	}{{"old", "1.25", 21, 25}, {"young", "1.35", 33, 35}} {
		u := plan(t, r, c.to, func(one *fleet.Cluster) bool { return one.Name == c.cluster })
		got, listed := said(u), 0
		check := func(app string, o manifest.Object) {
			f, ok := facts(t)[[2]string{o.APIVersion(), o.Kind()}]
			to, _ := lifecycle.ParseMinor(c.to)
			if !ok || to.Before(f.deprecated) {
				return
			}
			listed++
			rule := "api-deprecated"
			if !f.removed.IsZero() && !to.Before(f.removed) {
				rule = "api-removed"
			}
			if one := fmt.Sprintf("%s %s %s/%s", rule, app, o.Kind(), o.Name()); !got[one] {
				t.Errorf("%s: %s is missing", c.to, one)
			}
		}
		refused := map[string]bool{}
		for i := range u.Issues {
			if u.Issues[i].Rule == "chart-refuses" {
				refused[u.Issues[i].App] = true
			}
		}
		for name, archive := range apps {
			wanted := kubeVersion(t, archive)
			refuses := false
			for n := c.from; n <= c.last; n++ {
				refuses = refuses || wanted != nil && !wanted.Check(semver.New(1, uint64(n), 0, "", ""))
			}
			if refuses != refused[name] {
				t.Errorf("%s: %s refuses a version: %v, but the plan says %v", c.to, name, refuses, refused[name])
			}
			for _, o := range rendered(t, archive, c.to+".0") {
				check(name, o)
			}
		}
		for name, data := range texts {
			list, err := manifest.Decode(data, manifest.DefaultBudget())
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range list {
				check(name, o)
			}
		}
		t.Logf("%s: %d objects of pluto's table, %d charts refuse, %d issues", c.to, listed, len(refused), len(u.Issues))
		if listed < 6 || c.cluster == "old" && len(refused) < 5 {
			t.Errorf("%s: only %d objects and %d charts", c.to, listed, len(refused))
		}
		for i := range u.Issues {
			if u.Issues[i].Rule == "not-rendered" {
				t.Errorf("%s: %s cannot be rendered: %s", c.to, u.Issues[i].App, u.Issues[i].Message)
			}
		}
	}
}

// rendered returns the objects that Helm renders of a chart; none if the chart refuses the version.
func rendered(t *testing.T, archive, version string) []manifest.Object {
	t.Helper()
	chart, err := helm.LoadArchive(helm.Helm3, read(t, archive), helm.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	result, err := chart.Render(t.Context(), helm.Options{ReleaseName: "x", Namespace: "x", KubeVersion: version, IncludeCRDs: true})
	if err != nil {
		if strings.Contains(err.Error(), "needs Kubernetes") {
			return nil
		}
		t.Fatal(err)
	}
	var out []manifest.Object
	for _, d := range result.Documents {
		list, err := manifest.Decode(d.Text, manifest.DefaultBudget())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, list...)
	}
	return out
}

// kubeVersion returns what the Chart.yaml of an archive demands; nil if nothing.
func kubeVersion(t *testing.T, archive string) *semver.Constraints {
	t.Helper()
	for name, text := range files(t, archive) {
		if strings.Count(name, "/") != 1 || filepath.Base(name) != "Chart.yaml" {
			continue
		}
		for line := range strings.Lines(text) {
			if demand, ok := strings.CutPrefix(line, "kubeVersion:"); ok {
				c, err := semver.NewConstraint(strings.Trim(strings.TrimSpace(demand), `"'`))
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
		}
	}
	return nil
}

// unpack writes a chart into the repository and returns the name of its folder.
func unpack(r *hydratetest.Repo, name, archive string) (folder string) {
	r.T.Helper()
	for file, text := range files(r.T, archive) {
		r.Write("charts/"+name+"/"+file, text)
		folder, _, _ = strings.Cut(file, "/")
	}
	return folder
}

func files(tb testing.TB, archive string) map[string]string {
	tb.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(read(tb, archive)))
	if err != nil {
		tb.Fatal(err)
	}
	out := map[string]string{}
	for list := tar.NewReader(zip); ; {
		h, err := list.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			tb.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg || slices.Contains(strings.Split(h.Name, "/"), "..") {
			continue
		}
		text, err := io.ReadAll(list)
		if err != nil {
			tb.Fatal(err)
		}
		out[h.Name] = string(text)
	}
}

func read(tb testing.TB, file string) []byte {
	tb.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}
