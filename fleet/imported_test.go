package fleet

import (
	"context"
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// targets imports a fixed list of targets.
type targets []Imported

func (t targets) Import(context.Context, Tree, ImportRequest) ([]Imported, Problems, error) {
	return slices.Clone(t), nil, nil
}

func (t targets) Detect(context.Context, Tree) ([]byte, error) { return nil, nil }

// A chart of an imported target is used at the target's object.
func TestChartsOfImports(t *testing.T) {
	t.Parallel()
	const fleetText = base +
		"kind: Fleet\nmetadata: {name: x}\nspec:\n  environments: [{name: prod}]\n  import: [{flux: {clusters: {prod: {path: clusters/prod, environment: prod}}}}]\n"
	chart := HelmSource{Chart: "podinfo", Repo: "https://charts.example.com", Version: "1.0.0"}
	target := Imported{
		Cluster: "prod", App: "web", Kind: "HelmRelease", File: "release.yaml", Line: 4,
		Sources: []ImportedSource{{Objects: "{}"}, {Helm: &chart}},
	}
	f, problems := Loader{Importer: targets{target}}.Load(t.Context(),
		fleettest.NewTree(map[string]string{"sluice.yaml": fleetText}))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	uses := f.Charts()
	if len(uses) != 1 || uses[0].Chart != "podinfo" || uses[0].File != "release.yaml" || uses[0].Line != 4 ||
		len(uses[0].Targets) != 1 {
		t.Errorf("the uses are %+v", uses)
	}
}
