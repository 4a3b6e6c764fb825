package kustomize

import (
	"context"
	"fmt"
	"path"
	"runtime/debug"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/provenance"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// release is the version of `kustomize` that carries this version of the library.
const release = "v5.8.2"

// Builder runs builds. Safe for concurrent use.
type Builder struct {
	budget manifest.Budget
	free   bool
}

// NewBuilder makes a builder that holds every text that is parsed as YAML against the budget.
func NewBuilder(budget manifest.Budget) *Builder { return &Builder{budget: budget} }

// AnyFile returns a builder whose kustomizations may take files from anywhere in their files, like Walker.AnyFile.
func (b *Builder) AnyFile() *Builder { return &Builder{budget: b.budget, free: true} }

// Build gives the objects of `kustomize build root`, in its order. The files are those of Walker.Closure, or more. A
// context that ends stops the build at the next file it reads.
func (b *Builder) Build(ctx context.Context, files []File, root string) ([]manifest.Object, error) {
	tree, err := newMemory(files)
	if err != nil {
		return nil, err
	}
	walker := NewWalker(tree, b.budget)
	walker.free = b.free
	r, err := walker.reach(root)
	if err != nil {
		return nil, err
	}
	objects, err := b.run(ctx, job{tree: tree, root: path.Clean(root), ownDescription: r.openAPI, free: b.free})
	if err != nil {
		return nil, fmt.Errorf("kustomize build %s: %w", root, err)
	}
	if walker.directory(path.Clean(root)).managedBy {
		restamp(objects)
	}
	return objects, nil
}

// job is one run of the library on files that were checked.
type job struct {
	tree           *memory
	root           string
	ownDescription bool
	free           bool // files may be anywhere in the tree
	keepOrder      bool // of the objects as they were listed, instead of by kind
	names          *strings.Replacer
}

func (b *Builder) run(ctx context.Context, j job) (objects []manifest.Object, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	built, err := j.build(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, explain(err, j.names)
	}
	for _, r := range built.Resources() {
		decoded, err := convert(r, b.budget)
		if err != nil {
			return nil, fmt.Errorf("what became of %s %s: %w", r.GetKind(), r.GetName(), err)
		}
		objects = append(objects, decoded...)
	}
	return objects, ctx.Err()
}

func (j job) build(ctx context.Context) (built resmap.ResMap, err error) {
	leave := library.enter(j.ownDescription)
	defer leave()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("kustomize gave up: %v (%s)", r, origin(debug.Stack()))
		}
	}()
	options := krusty.MakeDefaultOptions() // built-in plugins only, files from the root only: as the command line
	if !j.keepOrder {
		options.Reorder = krusty.ReorderOptionUnspecified
	}
	if j.free {
		options.LoadRestrictions = types.LoadRestrictionsNone
	}
	return krusty.MakeKustomizer(options).Run(disk{ctx, j.tree}, path.Join(mount, j.root))
}

// origin is the library's function in which it panicked.
func origin(stack []byte) string {
	for line := range strings.Lines(string(stack)) {
		if name, _, ok := strings.Cut(line, "("); ok && strings.HasPrefix(name, "sigs.k8s.io/kustomize/") {
			return path.Base(name)
		}
	}
	return "unknown place"
}

// restamp replaces the version of this program by that of the command line in the label that `managedByLabel` asks for,
// so that the outcome equals `kustomize build` and a new version of this program changes nothing.
func restamp(objects []manifest.Object) {
	ours := "kustomize-" + provenance.GetProvenance().Semver()
	for _, o := range objects {
		metadata, _ := o["metadata"].(map[string]any)
		labels, _ := metadata["labels"].(map[string]any)
		if labels[konfig.ManagedbyLabelKey] == ours {
			labels[konfig.ManagedbyLabelKey] = "kustomize-" + release
		}
	}
}
