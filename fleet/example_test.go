package fleet_test

import (
	"context"
	"fmt"
	"io/fs"
	"testing/fstest"

	"github.com/sluice-gitops/sluice/fleet"
)

// tree is the fleet of the examples: one app on two clusters, with a value for everybody and one for a region.
func tree() fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: fs.ModePerm} }
	const v = "apiVersion: sluice.dev/v1alpha1\n"
	return fstest.MapFS{
		"sluice.yaml": file(v +
			"kind: Fleet\nmetadata: {name: acme}\nspec: {layers: [region], environments: [{name: prod}]}\n"),
		"clusters/eu.yaml": file(v +
			"kind: Cluster\nmetadata: {name: eu, labels: {region: europe}}\nspec: {environment: prod}\n"),
		"clusters/us.yaml": file(v +
			"kind: Cluster\nmetadata: {name: us, labels: {region: america}}\nspec: {environment: prod}\n"),
		"apps/web/app.yaml": file(v +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: shop, placement: {}, source: {helm: {path: charts/web}}}\n"),
		"apps/web/layers/global/values.yaml":        file("replicas: 2\n"),
		"apps/web/layers/region/europe/values.yaml": file("replicas: 5\n"),
		"charts/web/Chart.yaml":                     file("apiVersion: v2\nname: web\nversion: 1.0.0\n"),
	}
}

func load() *fleet.Fleet {
	f, problems := fleet.Load(context.Background(), tree(), nil)
	if f == nil {
		panic(problems.Error())
	}
	return f
}

func ExampleLoad() {
	f := load()
	fmt.Println(f.Name, len(f.Clusters), "clusters", len(f.Apps), "app")
	// Output: acme 2 clusters 1 app
}

func ExampleFleet_Targets() {
	for _, t := range load().Targets() {
		fmt.Println(t.App.Name, "on", t.Cluster.Name)
	}
	// Output:
	// web on eu
	// web on us
}

// Values merges the layers of a target, lowest precedence first.
func ExampleFleet_Values() {
	f := load()
	for _, t := range f.Targets() {
		values, err := f.Values(t, "")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(t.Cluster.Name, values["replicas"])
	}
	// Output:
	// eu 5
	// us 2
}
