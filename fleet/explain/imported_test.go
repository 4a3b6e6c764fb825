package explain_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/explain"
	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// oneRelease imports one chart with values.
type oneRelease struct{ target fleet.Imported }

func (o oneRelease) Import(context.Context, fleet.Tree, fleet.ImportRequest) ([]fleet.Imported, fleet.Problems, error) {
	return []fleet.Imported{o.target}, nil, nil
}

func (o oneRelease) Detect(context.Context, fleet.Tree) ([]byte, error) { return nil, nil }

// A value of an imported chart overrides the chart's default. Its line is its own if the object contains it as it is,
// otherwise the object's.
func TestExplainImported(t *testing.T) {
	t.Parallel()
	const fleetText = fleettest.Base +
		"kind: Fleet\nmetadata: {name: x}\nspec:\n  environments: [{name: prod}]\n  import: [{flux: {clusters: {prod: {path: clusters/prod, environment: prod}}}}]\n"
	values := map[string]any{
		"replicas": 3.0, "image": map[string]any{"tag": "2", "name": "${cluster.name}"}, "host": "prod.example.com",
		"args": []any{"-a"}, "other": true, "none": nil,
	}
	release := "kind: ConfigMap\n---\n# the app\nkind: HelmRelease\nspec:\n  values:\n    replicas: 3\n    image: {tag: \"2\",\n      name: \"${cluster.name}\"}\n    host: ${ENV}.example.com\n    args: [-a]\n    none: null\n"
	application := "kind: Application\nspec:\n  sources:\n  - ref: values\n  - path: objects\n  - helm:\n      valuesObject:\n        replicas: 3\n"
	for _, c := range []struct {
		target fleet.Imported
		source string
		want   []string // the last origin of each value
	}{
		{
			fleet.Imported{
				Kind: "HelmRelease", File: "release.yaml", Line: 4,
				Sources: []fleet.ImportedSource{{Helm: &fleet.HelmSource{Path: "chart"}, Values: values}},
			},
			"",
			[]string{
				"args release.yaml:11 [-a] 1", "extra chart/values.yaml:3 1 1",
				"host release.yaml:10 prod.example.com 1 elsewhere", "image.name release.yaml:9 ${cluster.name} 1",
				"image.tag release.yaml:8 2 1", "none release.yaml:12 <nil> 1", "other release.yaml:4 true 1 elsewhere",
				"replicas release.yaml:7 3 2",
			},
		},
		{
			fleet.Imported{
				Kind: "Application", File: "application.yaml", Line: 1,
				Sources: []fleet.ImportedSource{{Objects: "{}"}, {
					Helm:   &fleet.HelmSource{Path: "chart"},
					Values: map[string]any{"replicas": 3.0},
				}},
			},
			"1",
			[]string{"extra chart/values.yaml:3 1 1", "replicas application.yaml:8 3 2"},
		},
		{
			fleet.Imported{
				Kind: "ResourceSet", File: "gone.yaml", Line: 5,
				Sources: []fleet.ImportedSource{{Helm: &fleet.HelmSource{Path: "chart"}, Values: map[string]any{"replicas": 3.0}}},
			},
			"",
			[]string{"extra chart/values.yaml:3 1 1", "replicas gone.yaml:5 3 2 elsewhere"},
		},
	} {
		c.target.Cluster, c.target.App = "prod", "web"
		f, problems := fleet.Loader{Importer: oneRelease{c.target}}.Load(t.Context(),
			fleettest.NewTree(map[string]string{
				"sluice.yaml": fleetText, "release.yaml": release,
				"application.yaml": application,
			}))
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		chains, err := explain.Values(f, target(t, f, "prod"), c.source, "",
			explain.Defaults{File: "chart/values.yaml", Data: []byte("# defaults\nreplicas: 1\nextra: 1\n")})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, chain := range chains {
			last := chain.Origins[len(chain.Origins)-1]
			line := fmt.Sprintf("%s %s:%d %v %d", chain.Path, last.File, last.Line, last.Set, len(chain.Origins))
			if last.Elsewhere {
				line += " elsewhere"
			}
			got = append(got, line)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\nthe result is\n%q\nwant\n%q", c.target.File, got, c.want)
		}
	}
}
