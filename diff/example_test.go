package diff_test

import (
	"fmt"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// everywhere is a fleet in which each app runs on two clusters.
type everywhere struct{}

func (everywhere) Placed(string) []diff.Cluster {
	return []diff.Cluster{{Name: "eu", Environment: "prod"}, {Name: "us", Environment: "prod"}}
}

// deployed returns a target whose Deployment goes from one image to another.
func deployed(cluster, before, after string) diff.Target {
	object := func(image string) []diff.Object {
		text := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n" +
			"spec: {template: {spec: {containers: [{name: web, image: \"" + image + "\"}]}}}\n"
		objects, err := manifest.Decode([]byte(text), manifest.DefaultBudget())
		if err != nil {
			panic(err) // the text is above
		}
		return []diff.Object{{Key: image, Object: objects[0]}}
	}
	return diff.Target{App: "shop", Cluster: cluster, Environment: "prod", Before: object(before), After: object(after)}
}

// Equal changes on several clusters are one group.
func ExampleCompare() {
	changes := diff.Compare([]diff.Target{
		deployed("eu", "registry.example.com/web:1", "registry.example.com/web:2"),
		deployed("us", "registry.example.com/web:1", "registry.example.com/web:2"),
	}, nil, []string{"prod"}, everywhere{})
	for _, g := range changes.Groups {
		fmt.Println(g.App, diff.Patterns(g.Where), g.Objects[0].Title())
		for _, f := range g.Objects[0].Fields {
			fmt.Printf("%s: %v → %v\n", f.Path, f.Old, f.New)
		}
	}
	// Output:
	// shop prod/* (2) Deployment shop/web
	// spec.template.spec.containers[name=web].image: registry.example.com/web:1 → registry.example.com/web:2
}

// A target that could not be read is withheld: the change set is not empty, although no object changes.
func ExampleCompare_withheld() {
	changes := diff.Compare(nil, []diff.Withheld{{App: "shop", Cluster: "eu", Environment: "prod"}}, []string{"prod"},
		everywhere{})
	fmt.Println("empty:", changes.Empty())
	for _, w := range changes.Withheld {
		fmt.Println(w.App, w.Cluster)
	}
	// Output:
	// empty: false
	// shop eu
}

func ExampleSplitImage() {
	image := diff.SplitImage("registry.example.com/shop/web:1.2.3")
	fmt.Println(image.Tag, image.Version())
	// Output:
	// 1.2.3 1.2.3
}
