package renderer_test

import (
	"context"
	"fmt"

	"github.com/sluice-gitops/sluice/renderer"
)

// content returns files with a digest. The name stands for it here; callers use a hash of the bytes.
func content(name string, files ...renderer.File) renderer.Content {
	return renderer.Content{Name: name, Digest: name, Files: files}
}

func render(b *renderer.Bundle) {
	out, err := renderer.NewEngine(renderer.DefaultLimits()).Render(context.Background(), b)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range out.Objects {
		fmt.Print(string(o.YAML))
	}
}

func ExampleEngine_Render_helm() {
	chart := content("charts/hello",
		renderer.File{Path: "Chart.yaml", Data: []byte("apiVersion: v2\nname: hello\nversion: 1.0.0\n")},
		renderer.File{Path: "values.yaml", Data: []byte("greeting: hello\n")},
		renderer.File{Path: "templates/cm.yaml", Data: []byte("apiVersion: v1\nkind: ConfigMap\n" +
			"metadata: {name: {{ .Release.Name }}}\ndata: {greeting: {{ .Values.greeting | quote }}}\n")},
	)
	render(&renderer.Bundle{
		Namespace: "shop", KubeVersion: "1.33.2",
		Sources: []renderer.Source{{Helm: &renderer.HelmSource{Release: "hello", Chart: chart, Values: []byte(`{"greeting": "hi"}`)}}},
	})
	// Output:
	// apiVersion: v1
	// kind: ConfigMap
	// metadata:
	//   name: hello
	// data:
	//   greeting: hi
}

func ExampleEngine_Render_kustomize() {
	files := content("apps/hello",
		renderer.File{Path: "kustomization.yaml", Data: []byte("resources: [cm.yaml]\nnamePrefix: dev-\n")},
		renderer.File{Path: "cm.yaml", Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hello}\n")},
	)
	render(&renderer.Bundle{
		Namespace: "shop", KubeVersion: "1.33.2",
		Sources: []renderer.Source{{Kustomize: &renderer.KustomizeSource{Files: files, Root: "."}}},
	})
	// Output:
	// apiVersion: v1
	// kind: ConfigMap
	// metadata:
	//   name: dev-hello
}

// Equal bundles have equal digests, and are rendered once.
func ExampleBundle_Digest() {
	bundle := func(version string) *renderer.Bundle {
		return &renderer.Bundle{Namespace: "shop", KubeVersion: version}
	}
	first, again, other := bundle("1.33.2").Digest(), bundle("1.33.2").Digest(), bundle("1.34.0").Digest()
	fmt.Println(first == again, first == other)
	// Output: true false
}
