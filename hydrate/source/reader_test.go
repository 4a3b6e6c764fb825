package source

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/renderer/signature"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

type noArchives struct{}

func (noArchives) Archive(context.Context, fetch.Ref, fetch.Locked) ([]byte, error) {
	return nil, fetch.ErrNotFound
}

func (noArchives) Verify(context.Context, fetch.Ref, fetch.Locked, []signature.Signer) error {
	return fetch.ErrNotFound
}

// A service opens commits for months, so the number of cached views must stay bounded. A view that was evicted is
// read again.
func TestViewsAreBounded(t *testing.T) {
	t.Parallel()
	store := gitstore.OpenMemory()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(store, noArchives{}, renderer.NewEngine(renderer.DefaultLimits()))
	open := func(i int) *View {
		blob, err := w.Blob([]byte(fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f%d}\nspec:\n  trunk: main\n  environments: [{name: dev}]\n", i)))
		if err != nil {
			t.Fatal(err)
		}
		class, err := w.Blob([]byte("apiVersion: sluice.dev/v1alpha1\nkind: ClusterClass\nmetadata: {name: a}\nspec: {}\n"))
		if err != nil {
			t.Fatal(err)
		}
		clusters, err := w.Tree([]gitstore.Entry{{Name: "a.yaml", Mode: gitstore.ModeFile, Hash: class}})
		if err != nil {
			t.Fatal(err)
		}
		tree, err := w.Tree([]gitstore.Entry{
			{Name: "clusters", Mode: gitstore.ModeTree, Hash: clusters},
			{Name: "sluice.yaml", Mode: gitstore.ModeFile, Hash: blob},
		})
		if err != nil {
			t.Fatal(err)
		}
		v, err := r.Open(t.Context(), tree)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := open(0)
	if open(0) != first {
		t.Error("a view was read twice")
	}
	for i := range maxLoads + maxViews {
		open(i)
	}
	if n := r.views.Len(); n != maxViews || r.loads > maxLoads {
		t.Errorf("%d views, %d loads since the cache was emptied", n, r.loads)
	}
	if again := open(0); again == first || again.Fleet.Name != "f0" {
		t.Errorf("the fleet is %+v", again.Fleet)
	}
}

// refusing has worker processes that do not start, behind a wrapper, as the service measures its renderers.
type refusing struct{ renderer.Renderer }

func (r refusing) Unwrap() renderer.Renderer { return workers(r) }

type workers struct{ renderer.Renderer }

var errNoProcess = errors.New("no process starts")

func (workers) Call(context.Context, worker.Call) ([]byte, error) { return nil, errNoProcess }

// Imports run in the worker processes of a renderer, whatever wraps it, and never in the process of a service.
func TestImportsRunInTheWorkersBehindWrappers(t *testing.T) {
	t.Parallel()
	store := gitstore.OpenMemory()
	w, err := store.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	blob, err := w.Blob([]byte("apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec:\n  environments: [{name: dev}]\n  import: [{flux: {clusters: {c: {path: c, environment: dev}}}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := w.Tree([]gitstore.Entry{{Name: "sluice.yaml", Mode: gitstore.ModeFile, Hash: blob}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewReader(store, noArchives{},
		refusing{renderer.NewEngine(renderer.DefaultLimits())}).Open(t.Context(), tree); !errors.Is(err, errNoProcess) {
		t.Errorf("the error is %v", err)
	}
}
