package kustomize_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// Runs all fixtures in parallel, repeatedly, from a process that has parsed nothing. Some builds have their own API
// description.
func TestParallelBuilds(t *testing.T) {
	all := fixtures(t)
	base := objects(t, configMap)
	shared := []kustomize.Component{{Name: "c", Files: tree(labels)}}
	b := kustomize.NewBuilder(manifest.DefaultBudget())
	own := all[slices.IndexFunc(all, func(f fixture) bool { return f.name == "openapi" })]
	for round := range 4 {
		equal(t, build(t, own.files, own.root), own.want) // leaves nothing parsed
		var group sync.WaitGroup
		for i := range 4 {
			for j := range all {
				f := all[(i+j+round)%len(all)]
				if f.name == own.name && round%2 == 0 {
					continue // in even rounds all builds run in parallel
				}
				group.Go(func() {
					got, err := b.Build(t.Context(), f.files, f.root)
					if err != nil || text(t, got) != f.want {
						t.Errorf("%s: the error is %v\ntext is\n%s", f.name, err, text(t, got))
					}
					labelled, err := b.ApplyComponents(t.Context(), base, shared, false)
					if err != nil || len(labelled) != 1 {
						t.Errorf("%d objects: %v", len(labelled), err)
					}
				})
			}
		}
		group.Wait()
	}
}

// A thousand overlays of one large base read its files once.
func TestSharedBaseIsReadOnce(t *testing.T) {
	const overlays, shared = 1000, 200
	files := []kustomize.File{{Path: "base/kustomization.yaml", Data: []byte("resources:\n")}}
	for i := range shared {
		name := fmt.Sprintf("r%d.yaml", i)
		files[0].Data = fmt.Appendf(files[0].Data, "- %s\n", name)
		files = append(files, kustomize.File{Path: "base/" + name, Data: []byte(configMap)})
	}
	for i := range overlays {
		files = append(files, kustomize.File{
			Path: fmt.Sprintf("o%d/kustomization.yaml", i),
			Data: []byte("resources: [../base]\n"),
		})
	}
	counted := &countingTree{Tree: mapFS(files)}
	w := kustomize.NewWalker(counted, manifest.DefaultBudget())
	var group sync.WaitGroup
	for i := range overlays {
		group.Go(func() {
			names, err := w.Closure(fmt.Sprintf("o%d", i))
			if err != nil || len(names) != shared+2 {
				t.Errorf("%d files: %v", len(names), err)
			}
			dirs, err := w.Directories(fmt.Sprintf("o%d", i))
			if err != nil || len(dirs) != 2 || dirs[0] != "base" {
				t.Errorf("%v: the error is %v", dirs, err)
			}
		})
	}
	group.Wait()
	if want := overlays + shared + 1; counted.reads != want {
		t.Errorf("%d reads, not %d", counted.reads, want)
	}
}

type countingTree struct {
	kustomize.Tree
	mu    sync.Mutex
	reads int
}

func (c *countingTree) ReadFile(name string) ([]byte, error) {
	c.mu.Lock()
	c.reads++
	c.mu.Unlock()
	return c.Tree.ReadFile(name)
}
