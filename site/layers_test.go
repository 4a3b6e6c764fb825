package site

import (
	"context"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/explain"
)

// releases imports the same app on several clusters.
type releases []fleet.Imported

func (r releases) Import(context.Context, fleet.Tree, fleet.ImportRequest) ([]fleet.Imported, fleet.Problems, error) {
	return r, nil, nil
}

func (r releases) Detect(context.Context, fleet.Tree) ([]byte, error) { return nil, nil }

// commitTree is a commit in memory.
type commitTree struct{ fstest.MapFS }

func (c commitTree) Stat(name string) (fs.FileInfo, error) { return fs.Stat(c.MapFS, name) }

// Clusters whose imported objects give a chart other values are other rows, and a value that an object takes from
// elsewhere, such as a Secret, is not shown.
func TestLayersOfImports(t *testing.T) {
	t.Parallel()
	const text = "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: x}\nspec:\n  environments: [{name: prod}]\n" +
		"  import: [{flux: {clusters: {a: {path: a, environment: prod}, b: {path: b, environment: prod}}}}]\n"
	files := commitTree{fstest.MapFS{"sluice.yaml": {Data: []byte(text)}}}
	var all releases
	for cluster, replicas := range map[string]string{"a": "3", "b": "5"} {
		files.MapFS[cluster+".yaml"] = &fstest.MapFile{Data: []byte("kind: HelmRelease\nspec: {values: {replicas: " +
			replicas + "}}\n")}
		all = append(all, fleet.Imported{
			Cluster: cluster, App: "web", Kind: "HelmRelease", File: cluster + ".yaml", Line: 1,
			Sources: []fleet.ImportedSource{{
				Helm:   &fleet.HelmSource{Path: "chart"},
				Values: map[string]any{"replicas": float64(replicas[0] - '0'), "license": "hunter2"},
			}},
		})
	}
	f, problems := fleet.Loader{Importer: all}.Load(t.Context(), files)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	x := &layerReader{
		reader: &reader{
			ctx: t.Context(), fleet: f, mask: diff.NewMasker([]byte("k")),
			apps: map[string]*App{"web": {}},
		},
		out: &Layers{}, values: map[string]*LayerValue{},
		defaults: func(fleet.Target, string) explain.Defaults {
			return explain.Defaults{File: "chart/values.yaml", Data: []byte("replicas: 1\nlicense: none\n")}
		},
	}
	x.app(f.Targets())
	if len(x.out.Rows) != 2 || len(x.out.Values) != 2 {
		t.Fatalf("the out is %+v", x.out)
	}
	for _, v := range x.out.Values {
		for _, o := range v.Outcomes {
			if strings.Contains(o.Value, "hunter2") {
				t.Errorf("a value from elsewhere is shown: %+v", o)
			}
			if v.Path == "replicas" && !slices.Equal(o.Clusters, map[string][]string{"3": {"a"}, "5": {"b"}}[o.Value]) {
				t.Errorf("the object is %+v", o)
			}
		}
	}
}
