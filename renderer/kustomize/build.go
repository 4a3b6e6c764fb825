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

// kustomizeVersion is the version of the `kustomize` command that contains this version of the library.
const kustomizeVersion = "v5.8.2"

// Builder runs builds. It is safe for concurrent use.
type Builder struct {
	budget  manifest.Budget
	anyFile bool
}

// NewBuilder returns a builder. Every text that it parses as YAML must stay within the budget.
func NewBuilder(budget manifest.Budget) *Builder { return &Builder{budget: budget} }

// AnyFile returns a builder whose kustomizations may read any file of the bundle, like Walker.AnyFile.
func (b *Builder) AnyFile() *Builder { return &Builder{budget: b.budget, anyFile: true} }

// Build returns the objects of `kustomize build root`, in its order. The files must include those of Walker.Closure.
// When the context ends, the build stops before it reads the next file. It refuses helmCharts.
func (b *Builder) Build(ctx context.Context, files []File, root string) ([]manifest.Object, error) {
	return b.BuildCharts(ctx, files, root, nil)
}

// BuildCharts is Build for a root with helmCharts, like `kustomize build --enable-helm root`. The order of objects
// differs. It refuses helmCharts if inflate is nil.
func (b *Builder) BuildCharts(ctx context.Context, files []File, root string, inflate Inflate) ([]manifest.Object,
	error,
) {
	tree, err := newMemory(files)
	if err != nil {
		return nil, err
	}
	walker := NewWalker(tree, b.budget)
	walker.anyFile, walker.charts = b.anyFile, inflate != nil
	r, err := walker.reach(root)
	if err != nil {
		return nil, err
	}
	if tree, err = walker.inflateCharts(ctx, tree, r, path.Clean(root), inflate); err != nil {
		return nil, err
	}
	objects, err := b.run(ctx, job{tree: tree, root: path.Clean(root), ownDescription: r.openAPI, anyFile: b.anyFile})
	if err != nil {
		return nil, fmt.Errorf("kustomize build %s: %w", root, err)
	}
	if walker.directory(path.Clean(root)).managedBy {
		setManagedBy(objects)
	}
	return objects, nil
}

// job is one run of the library on checked files.
type job struct {
	tree           *memory
	root           string
	ownDescription bool
	anyFile        bool // files may be anywhere in the tree
	keepOrder      bool // keeps the objects in the order of the list instead of sorting them by kind
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
		return nil, rewrite(err, j.names)
	}
	for _, r := range built.Resources() {
		decoded, err := convert(r, b.budget)
		if err != nil {
			return nil, fmt.Errorf("result for %s %s: %w", r.GetKind(), r.GetName(), err)
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
			err = fmt.Errorf("kustomize panicked: %v (%s)", r, panickedIn(debug.Stack()))
		}
	}()
	options := krusty.MakeDefaultOptions() // the same as the command: built-in plugins and files below the root only
	if !j.keepOrder {
		options.Reorder = krusty.ReorderOptionUnspecified
	}
	if j.anyFile {
		options.LoadRestrictions = types.LoadRestrictionsNone
	}
	return krusty.MakeKustomizer(options).Run(disk{ctx, j.tree}, path.Join(mount, j.root))
}

// panickedIn returns the function of the library that panicked.
func panickedIn(stack []byte) string {
	for line := range strings.Lines(string(stack)) {
		if name, _, ok := strings.Cut(line, "("); ok && strings.HasPrefix(name, "sigs.k8s.io/kustomize/") {
			return path.Base(name)
		}
	}
	return "unknown place"
}

// setManagedBy sets the label of `managedByLabel` to the version of the kustomize command. The result then equals
// `kustomize build` and does not depend on the version of this program.
func setManagedBy(objects []manifest.Object) {
	ours := "kustomize-" + provenance.GetProvenance().Semver()
	for _, o := range objects {
		metadata, _ := o["metadata"].(map[string]any)
		labels, _ := metadata["labels"].(map[string]any)
		if labels[konfig.ManagedbyLabelKey] == ours {
			labels[konfig.ManagedbyLabelKey] = "kustomize-" + kustomizeVersion
		}
	}
}
