package source

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer"
)

// outageTest is a fleet with an app of its own and one from the repository lib. The store asks another one for objects,
// which can refuse some.
type outageTest struct {
	*testing.T
	w       *gitstore.Writer
	full    *gitstore.Store
	store   *gitstore.Store
	refused map[gitstore.Hash]bool
}

func newOutageTest(t *testing.T) *outageTest {
	t.Helper()
	full := gitstore.OpenMemory()
	w, err := full.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	out := &outageTest{T: t, w: w, full: full, refused: map[gitstore.Hash]bool{}}
	out.store = gitstore.OpenSupplied(func(ctx context.Context, hashes []gitstore.Hash) ([]gitstore.Raw, error) {
		if slices.ContainsFunc(hashes, func(h gitstore.Hash) bool { return out.refused[h] }) {
			return nil, errors.New("connection refused")
		}
		return full.ReadRaw(ctx, hashes, 1<<20)
	})
	return out
}

// lib writes a commit of the repository lib.
func (t *outageTest) lib(size string) (commit, tree gitstore.Hash) {
	t.Helper()
	tree = treeOf(t.T, t.w, map[string]string{
		"base/kustomization.yaml": "resources: [web.yaml]\n",
		"base/web.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {size: " + size +
			"}\n",
	})
	commit, err := t.w.Commit(gitstore.CommitSpec{Tree: tree, Message: size})
	if err != nil {
		t.Fatal(err)
	}
	return commit, tree
}

// fleet writes a fleet that pins a commit of lib.
func (t *outageTest) fleet(commit gitstore.Hash) gitstore.Hash {
	const api, url = "apiVersion: sluice.dev/v1alpha1\n", "https://git.example.com/lib"
	t.Helper()
	return treeOf(t.T, t.w, map[string]string{
		"sluice.yaml": api +
			"kind: Fleet\nmetadata: {name: f}\nspec:\n  trunk: main\n  environments: [{name: dev}]\n",
		"clusters/a.yaml": api + "kind: Cluster\nmetadata: {name: a}\nspec: {environment: dev}\n",
		"repositories/lib.yaml": api + "kind: Repository\nmetadata: {name: lib}\nspec: {url: \"" + url +
			"\", branch: main}\n",
		"apps/own/app.yaml": api +
			"kind: App\nmetadata: {name: own}\nspec: {namespace: own, placement: {}, source: {manifests: {path: m}}}\n",
		"apps/web/app.yaml": api +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {kustomize: {path: base, repository: lib}}}\n",
		"m/own.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own}\n",
		"sluice.lock": api + "kind: Lock\ncharts: []\nrepositories:\n- {name: lib, url: \"" + url +
			"\", wanted: refs/heads/main, resolved: refs/heads/main, commit: " +
			commit.String() + "}\n",
	})
}

// bundle reads what an app is rendered from.
func (t *outageTest) bundle(v *View, app string) error {
	t.Helper()
	a, ok := v.Fleet.App(app)
	if !ok {
		t.Fatalf("there is no app %s", app)
	}
	target, err := v.Target(fleet.Target{App: a, Cluster: v.Fleet.Clusters[0]})
	if err == nil {
		_, err = target.Bundle(t.Context())
	}
	return err
}

// Whatever is missing of another repository, its target alone fails, and is rendered as soon as the repository can be
// reached.
func TestOutageOfAnotherRepository(tt *testing.T) {
	tt.Parallel()
	for _, what := range []string{"the commit", "its tree", "a folder", "a kustomization", "a file"} {
		t := newOutageTest(tt)
		commit, root := t.lib("small")
		entry := func(name string) gitstore.Hash {
			e, err := t.full.Snapshot(t.Context(), root).Entry(name)
			if err != nil {
				t.Fatal(err)
			}
			return e.Hash
		}
		t.refused[map[string]gitstore.Hash{
			"the commit": commit, "its tree": root, "a folder": entry("base"),
			"a kustomization": entry("base/kustomization.yaml"), "a file": entry("base/web.yaml"),
		}[what]] = true
		r := NewReader(t.store, noArchives{}, renderer.NewEngine(renderer.DefaultLimits()))
		tree := t.fleet(commit)
		v, err := r.Open(t.Context(), tree)
		if err != nil {
			t.Errorf("%s is missing: the whole fleet fails: %v", what, err)
			continue
		}
		if err := t.bundle(v, "own"); err != nil {
			t.Errorf("%s is missing: %v", what, err)
		}
		if err := t.bundle(v, "web"); err == nil || !strings.Contains(err.Error(), "repository lib") ||
			!strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s is missing: %v", what, err)
		}
		clear(t.refused)
		if v, err = r.Open(t.Context(), tree); err != nil {
			t.Fatal(err)
		}
		if err := t.bundle(v, "web"); err != nil {
			t.Errorf("%s is there again: %v", what, err)
		}
		if again, err := r.Open(t.Context(), tree); err != nil || again != v {
			t.Errorf("%s is there again, and the view is not kept: %v", what, err)
		}
	}
}

// If the folders of another repository cannot be listed, every target may be affected.
func TestAffectedInAnOutage(tt *testing.T) {
	tt.Parallel()
	t := newOutageTest(tt)
	small, _ := t.lib("small")
	large, lost := t.lib("large")
	r := NewReader(t.store, noArchives{}, renderer.NewEngine(renderer.DefaultLimits()))
	base, head := t.fleet(small), t.fleet(large)
	affected := func() string {
		t.Helper()
		v, err := r.Open(t.Context(), head)
		if err != nil {
			t.Fatal(err)
		}
		list, err := r.Affected(t.Context(), base, v)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, a := range list {
			out = append(out, a.App+" "+string(a.Effect))
		}
		return strings.Join(out, ", ")
	}
	t.refused[lost] = true
	if got := affected(); got != "own changed, web changed" {
		t.Errorf("in the outage: %s", got)
	}
	clear(t.refused)
	if got := affected(); got != "web changed" {
		t.Errorf("afterwards: %s", got)
	}
}
