package renderer_test

import (
	"context"
	"fmt"
	"testing"

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
		Sources: []renderer.Source{{Helm: &renderer.HelmSource{
			Release: "hello", Chart: chart,
			Values: []byte(`{"greeting": "hi"}`),
		}}},
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
		chart := &renderer.HelmSource{Release: "web", Chart: renderer.Content{Name: "web", Digest: "a"}}
		return &renderer.Bundle{Namespace: "shop", KubeVersion: version, Sources: []renderer.Source{{Helm: chart}}}
	}
	first, again, other := bundle("1.33.2").Digest(), bundle("1.33.2").Digest(), bundle("1.34.0").Digest()
	fmt.Println(first == again, first == other)
	// Output: true false
}

// What charts see of the cluster is part of the digest of a bundle with charts. Other bundles render the same on each.
func TestDigestOfCapabilities(t *testing.T) {
	chart := renderer.Content{Name: "web", Digest: "a"}
	root := renderer.Content{Name: "root", Digest: "b"}
	for name, c := range map[string]struct {
		bundle renderer.Bundle
		differ bool
	}{
		"manifests":        {renderer.Bundle{Sources: []renderer.Source{{Manifests: &renderer.ManifestsSource{Files: root}}}}, false},
		"a Kustomize root": {renderer.Bundle{Sources: []renderer.Source{{Kustomize: &renderer.KustomizeSource{Files: root}}}}, false},
		"a chart":          {renderer.Bundle{Sources: []renderer.Source{{Helm: &renderer.HelmSource{Chart: chart}}}}, true},
		"a Kustomize root with a chart": {renderer.Bundle{Sources: []renderer.Source{{Kustomize: &renderer.KustomizeSource{
			Files: root, Charts: []renderer.KustomizeChart{{Chart: chart}},
		}}}}, true},
		"a component with a chart": {renderer.Bundle{
			Sources:    []renderer.Source{{Manifests: &renderer.ManifestsSource{Files: root}}},
			Components: []renderer.Component{{Files: root, Charts: []renderer.KustomizeChart{{Chart: chart}}}},
		}, true},
	} {
		first, version, apis := c.bundle, c.bundle, c.bundle
		first.KubeVersion, version.KubeVersion, apis.KubeVersion = "1.33.0", "1.34.0", "1.33.0"
		apis.APIVersions = []string{"example.com/v1"}
		for _, other := range []renderer.Bundle{version, apis} {
			if differ := first.Digest() != other.Digest(); differ != c.differ {
				t.Errorf("%s: the digests differ: %v, want %v", name, differ, c.differ)
			}
		}
	}
}

// The version of Helm is part of the digest of a bundle with charts. Other bundles render the same with each.
func TestDigestOfHelmVersions(t *testing.T) {
	chart := renderer.Source{Helm: &renderer.HelmSource{
		Release: "web",
		Chart:   renderer.Content{Name: "web", Digest: "a"},
	}}
	root := renderer.Source{Kustomize: &renderer.KustomizeSource{Files: renderer.Content{Name: "web", Digest: "a"}}}
	inflated := renderer.Source{Kustomize: &renderer.KustomizeSource{
		Files:  root.Kustomize.Files,
		Charts: []renderer.KustomizeChart{{Chart: chart.Helm.Chart}},
	}}
	for name, c := range map[string]struct {
		source renderer.Source
		differ bool
	}{"a chart": {chart, true}, "a Kustomize root": {root, false}, "a Kustomize root with a chart": {inflated, true}} {
		digest := func(version int) string {
			return (&renderer.Bundle{Helm: version, Sources: []renderer.Source{c.source}}).Digest()
		}
		if digest(0) != digest(3) {
			t.Errorf("%s: Helm 3 has another digest than no version", name)
		}
		if (digest(3) != digest(4)) != c.differ {
			t.Errorf("%s: Helm 3 and Helm 4 have different digests: %t, want %t", name, !c.differ, c.differ)
		}
	}
}
