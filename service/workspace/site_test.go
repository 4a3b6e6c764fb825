package workspace

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// TestTipsAskForNamesOnly: while no branch moves, a look at the branches is one request for their names; a branch that moves changes the
// text.
func TestTipsAskForNamesOnly(t *testing.T) {
	t.Parallel()
	h := newGitHost(t)
	h.commit("fleet", map[string]string{"sluice.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec: {environments: [{name: prod}]}\n"})
	c := Config{
		Runtime: Runtime{Cache: t.TempDir(), Version: "test", Clock: time.Now}, Jobs: 1, Mirrors: NewMirrors(filepath.Join(t.TempDir(), "mirrors"), 1<<30), Outputs: new(Outputs),
		Renderers: func(hint.Place, worker.Trust) renderer.Renderer { return renderer.NewEngine(renderer.DefaultLimits()) },
	}
	repo := Repository{
		Place: hint.NewPlace("f", "fleet"), URL: h.URL + "/fleet/.git",
		Credential: func(context.Context, forge.Repository, bool) (gitstore.Auth, error) { return gitstore.Auth{}, nil },
		Output:     func(string) (forge.Repository, bool, error) { return forge.Repository{}, false, nil },
	}
	tips := func() (string, int) {
		w, err := c.Open(t.Context(), repo)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		h.mu.Lock()
		before := len(h.asked)
		h.mu.Unlock()
		got, err := w.Tips(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		return got, len(h.asked) - before
	}
	first, _ := tips()
	again, requests := tips()
	if again != first || requests != 1 {
		t.Errorf("without a move: equal %v, %d requests", again == first, requests)
	}
	h.git("fleet", "branch", "cluster/a")
	if moved, _ := tips(); moved == first {
		t.Error("a new branch does not change the text")
	}
}
