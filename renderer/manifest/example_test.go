package manifest_test

import (
	"fmt"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

func ExampleDecode() {
	stream := []byte(`
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
`)
	objects, err := manifest.Decode(stream, manifest.DefaultBudget())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range objects {
		fmt.Println(o.APIVersion(), o.Identity())
	}
	// Output:
	// v1 ConfigMap shop/settings
	// apps/v1 Deployment.apps shop/web
}

// Equal objects are equal bytes, whatever the order and the style of their keys.
func ExampleEncode() {
	for _, text := range []string{
		`{"kind": "ConfigMap", "data": {"port": "8080"}, "apiVersion": "v1", "metadata": {"name": "settings"}}`,
		"metadata: {name: settings}\napiVersion: v1\ndata:\n  port: \"8080\"\nkind: ConfigMap\n",
	} {
		objects, err := manifest.Decode([]byte(text), manifest.DefaultBudget())
		if err != nil {
			fmt.Println(err)
			return
		}
		canonical, err := manifest.Encode(objects[0])
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(string(canonical))
	}
	// Output:
	// apiVersion: v1
	// kind: ConfigMap
	// metadata:
	//   name: settings
	// data:
	//   port: "8080"
	// apiVersion: v1
	// kind: ConfigMap
	// metadata:
	//   name: settings
	// data:
	//   port: "8080"
}

// Each object has a file of its own. One outside the app's namespace has its namespace in the name.
func ExampleFileNames() {
	ids := []manifest.Identity{
		{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"},
		{Kind: "ConfigMap", Namespace: "monitoring", Name: "dashboards"},
	}
	for _, name := range manifest.FileNames(ids, "shop") {
		fmt.Println(name)
	}
	// Output:
	// deployment-web.yaml
	// monitoring-configmap-dashboards.yaml
}
