package repository

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/review"
	"github.com/sluice-gitops/sluice/service/mirrors"
	"github.com/sluice-gitops/sluice/service/promotions"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/worker"
)

// TestTipsAskForNamesOnly: while no branch moves, a look at the branches is one request for their names; a branch that
// moves changes the text.
func TestTipsAskForNamesOnly(t *testing.T) {
	t.Parallel()
	h := hydratetest.NewHost(t)
	h.Commit("fleet", map[string]string{"sluice.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec: {environments: [{name: prod}]}\n"})
	c := Config{
		Runtime: session.Runtime{Cache: t.TempDir(), Version: "test", Clock: time.Now}, Jobs: 1,
		Mirrors: mirrors.New(filepath.Join(t.TempDir(), "mirrors"), 1<<30), Outputs: new(Outputs),
		Renderers: func(hint.Place, worker.Trust) renderer.Renderer {
			return renderer.NewEngine(renderer.DefaultLimits())
		},
	}
	repo := Repository{
		Place: hint.NewPlace("f", "fleet"), URL: h.URL + "/fleet/.git",
		Credential: func(context.Context, forge.Repository, bool) (gitstore.Auth, error) {
			return gitstore.Auth{},
				nil
		},
		Output: func(string) (forge.Repository, bool, error) { return forge.Repository{}, false, nil },
	}
	tips := func() (string, int) {
		w, err := c.Open(t.Context(), repo)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		before := len(h.Requests())
		got, err := w.Tips(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got, len(h.Requests()) - before
	}
	first, _ := tips()
	again, requests := tips()
	if again != first || requests != 1 {
		t.Errorf("without a move: equal %v, %d requests", again == first, requests)
	}
	h.Git("fleet", "branch", "cluster/a")
	if moved, _ := tips(); moved == first {
		t.Error("a new branch does not change the text")
	}
}

// statusForge counts the requests for statuses.
type statusForge struct {
	forge.Forge

	mu    sync.Mutex
	asked int
}

func (f *statusForge) Statuses(context.Context, forge.Repository, string) ([]forge.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return nil, nil
}

// TestSiteAsksForFewStatuses: a look at a fleet asks the forge for a limited number of commits in a minute, also for
// the gates of promotions, which the look evaluates, and also after looks that fail.
func TestSiteAsksForFewStatuses(t *testing.T) {
	t.Parallel()
	h := hydratetest.NewHost(t)
	files := map[string]string{"sluice.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec: {environments: [{name: dev}, {name: prod, after: [dev], promotion: {health: {commitStatuses: [sync]}}}]}\n"}
	const clusters = 50
	for i := range clusters {
		files[fmt.Sprintf("clusters/c%d.yaml",
			i)] = fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c%d}\nspec: {environment: %s, kubeVersion: 1.33.2}\n", i, []string{"dev", "prod"}[i%2])
	}
	source := h.Commit("fleet", files)
	environment := func(name string) { // makes the branch as Sluice does
		h.Git("fleet", "checkout", "-q", "--orphan", "env/"+name)
		h.Git("fleet", "rm", "-rqf", ".")
		files := map[string]string{".sluice/environment.yaml": "source: " + source + "\nenvironment: " + name + "\n"}
		for i := range clusters {
			files[fmt.Sprintf("c%d/web/web.yaml", i)] = "kind: ConfigMap\n"
		}
		h.Commit("fleet", files)
		h.Git("fleet", "commit", "-q", "--amend", "-m", name+"\n\nSluice-Source: "+source+"\nSluice-Environment: "+name+
			"\nSluice-Version: test")
		h.Git("fleet", "checkout", "-q", "main")
	}
	environment("prod")
	source = h.Commit("fleet", map[string]string{"README.md": "A change.\n"})
	environment("dev")
	for i := range clusters {
		commit := h.Git("fleet", "commit-tree", "-m",
			fmt.Sprintf("c%d\n\nSluice-Source: %s\nSluice-Environment: dev\nSluice-Version: test", i, source),
			fmt.Sprintf("env/dev:c%d", i))
		h.Git("fleet", "branch", fmt.Sprintf("cluster/c%d", i), commit)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := Config{
		Runtime: session.Runtime{Cache: t.TempDir(), Version: "test", Clock: func() time.Time { return now }}, Jobs: 1,
		Mirrors: mirrors.New(filepath.Join(t.TempDir(), "mirrors"), 1<<30),
		Outputs: new(Outputs), Statuses: new(Statuses), Verdicts: review.NewCache(), Authors: promotions.NewAuthors(),
		Protections: NewProtections(),
		Renderers: func(hint.Place, worker.Trust) renderer.Renderer {
			return renderer.NewEngine(renderer.DefaultLimits())
		},
	}
	f := &statusForge{}
	place := hint.NewPlace("f", "fleet")
	repo := Repository{
		Place: place, URL: h.URL + "/fleet/.git", Forge: f,
		Credential: func(context.Context, forge.Repository, bool) (gitstore.Auth, error) {
			return gitstore.Auth{},
				nil
		},
		Output: func(string) (forge.Repository, bool, error) { return place.Repo(), true, nil },
	}
	for i, want := range []int{30, 30, 60} {
		if i == 2 {
			now = now.Add(time.Minute)
		}
		w, err := c.Open(t.Context(), repo)
		if err != nil {
			t.Fatal(err)
		}
		fleet, err := w.Site(t.Context(), nil)
		w.Close()
		// a warning about no app, and records are not signed
		if err != nil || len(fleet.Clusters) != clusters || len(fleet.Problems) > 2 {
			t.Fatalf("the error is %v, the problems are %q", err, fleet.Problems)
		}
		if f.asked != want {
			t.Errorf("look %d: %d requests, expected %d", i, f.asked, want)
		}
	}
}
