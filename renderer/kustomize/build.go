package kustomize

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/openapi"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Component is a directory with a kustomization of kind Component.
type Component struct {
	Name  string // for messages: where the directory stands
	Files []File // paths from the directory on
}

// Builder runs builds, one at a time: the library keeps state for the whole process.
type Builder struct {
	mu     sync.Mutex
	budget manifest.Budget
}

// NewBuilder makes a builder; one per process is right.
func NewBuilder(budget manifest.Budget) *Builder { return &Builder{budget: budget} }

// Build gives the objects of `kustomize build root`.
func (b *Builder) Build(ctx context.Context, files []File, root string) ([]manifest.Object, error) {
	_, openAPI, err := NewWalker(newMemory(files), b.budget).closure(root)
	if err != nil {
		return nil, err
	}
	objects, err := b.run(ctx, files, root, openAPI)
	if err != nil {
		return nil, fmt.Errorf("kustomize build %s: %w", root, err)
	}
	return objects, nil
}

// ApplyComponents puts components on top of objects, in their order. Without components the objects come back as they
// are.
func (b *Builder) ApplyComponents(ctx context.Context, objects []manifest.Object, components []Component) ([]manifest.Object, error) {
	if len(components) == 0 {
		return objects, nil
	}
	var files []File
	var kustomization bytes.Buffer
	kustomization.WriteString("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n")
	if len(objects) > 0 {
		resources, err := stream(objects)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Path: "objects.yaml", Data: resources})
		kustomization.WriteString("resources: [objects.yaml]\n")
	}
	kustomization.WriteString("components:\n")
	for i, c := range components {
		fmt.Fprintf(&kustomization, "- %s\n", slot(i))
		for _, f := range c.Files {
			files = append(files, File{Path: path.Join(slot(i), f.Path), Data: f.Data})
		}
	}
	files = append(files, File{Path: "kustomization.yaml", Data: kustomization.Bytes()})
	_, openAPI, err := NewWalker(newMemory(files), b.budget).closure(".")
	if err == nil {
		objects, err = b.run(ctx, files, ".", openAPI)
	}
	if err != nil {
		return nil, fmt.Errorf("components: %w", named(err, components))
	}
	return objects, nil
}

func slot(i int) string { return fmt.Sprintf("component-%d", i) }

// named puts the components' own names into an error about their slots, last first: component-1 is part of component-11.
func named(err error, components []Component) error {
	text := err.Error()
	for i := len(components) - 1; i >= 0; i-- {
		text = strings.ReplaceAll(text, slot(i), components[i].Name)
	}
	return fmt.Errorf("%s", text) //nolint:err113 // the paths inside the error mean nothing to its reader
}

func stream(objects []manifest.Object) ([]byte, error) {
	var out []byte
	for _, o := range objects {
		text, err := manifest.Encode(o)
		if err != nil {
			return nil, err
		}
		out = append(out, "---\n"...)
		out = append(out, text...)
	}
	return out, nil
}

func (b *Builder) run(ctx context.Context, files []File, root string, openAPI bool) (objects []manifest.Object, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("kustomize gave up: %v", r)
		}
	}()
	memory := filesys.MakeFsInMemory()
	for _, f := range files {
		if err := memory.WriteFile("/"+f.Path, f.Data); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if openAPI { // a schema of a root's own must not reach the next build
		defer openapi.ResetOpenAPI()
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(memory, path.Join("/", root))
	if err != nil {
		return nil, err
	}
	text, err := built.AsYaml()
	if err != nil {
		return nil, err
	}
	return manifest.Decode(text, b.budget)
}
