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

// recordedCommits notes what is fetched.
type recordedCommits struct {
	asked []fleet.GitCommit
	err   error
}

func (r *recordedCommits) FetchCommit(_ context.Context, c fleet.GitCommit) error {
	r.asked = append(r.asked, c)
	return r.err
}

// A kustomization names a commit by its whole id, and the one there names another: both are fetched, once, and only the
// first may be read with credentials. A failure stays in the target, and other fleets fetch nothing.
func TestCommitsThatKustomizationsName(tt *testing.T) {
	tt.Parallel()
	t := newOutageTest(tt)
	lib, _ := t.lib("small")
	commit := func(files map[string]string) gitstore.Hash {
		h, err := t.w.Commit(gitstore.CommitSpec{Tree: treeOf(t.T, t.w, files), Message: "outer"})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	outer := commit(map[string]string{
		"web/kustomization.yaml": "resources: [\"https://git.example.com/acme/lib//base?ref=" + lib.String() + "\"]\n",
	})
	const api = "apiVersion: sluice.dev/v1alpha1\n"
	app := func(name string) string {
		return api + "kind: App\nmetadata: {name: " + name + "}\nspec: {namespace: n, placement: {}, source: {kustomize: {}}}\n"
	}
	tree := treeOf(t.T, t.w, map[string]string{
		"sluice.yaml": api +
			"kind: Fleet\nmetadata: {name: f}\nspec:\n  trunk: main\n  environments: [{name: dev}]\n",
		"clusters/a.yaml":             api + "kind: Cluster\nmetadata: {name: a}\nspec: {environment: dev}\n",
		"apps/own/app.yaml":           app("own"),
		"apps/own/kustomization.yaml": "resources: [own.yaml]\n",
		"apps/own/own.yaml":           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: own}\n",
		"apps/web/app.yaml":           app("web"),
		"apps/web/kustomization.yaml": "resources: [\"git::https://git.example.com/acme/outer//web?ref=" + outer.String() + "&timeout=9s\"]\n",
	})
	first := fleet.GitCommit{URL: "https://git.example.com/acme/outer", Commit: outer.String()}
	nested := fleet.GitCommit{URL: "https://git.example.com/acme/lib", Commit: lib.String(), Nested: true}
	refused := &recordedCommits{err: ErrUnasked}
	for name, c := range map[string]struct {
		commits *recordedCommits
		want    string // error of web
		asked   []fleet.GitCommit
	}{
		"fetched":       {&recordedCommits{}, "", []fleet.GitCommit{first, nested}},
		"unreachable":   {&recordedCommits{err: &AgainError{errors.New("refused")}}, "cannot be fetched: refused", []fleet.GitCommit{first}},
		"a host":        {refused, ErrUnasked.Error(), []fleet.GitCommit{first}},
		"declared only": {nil, "is remote: only paths inside the repository are allowed", nil},
	} {
		r := NewReader(t.store, noArchives{}, renderer.NewEngine(renderer.DefaultLimits()))
		if c.commits != nil {
			r.Fetching(c.commits)
		}
		v, err := r.Open(t.Context(), tree)
		if err != nil {
			t.Errorf("%s: the whole fleet fails: %v", name, err)
			continue
		}
		if err := t.bundle(v, "own"); err != nil {
			t.Errorf("%s: the error of another app is %v", name, err)
		}
		for range 2 {
			err := t.bundle(v, "web")
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: the error is %v, want %q", name, err, c.want)
			}
		}
		if c.commits != nil && !slices.Equal(c.commits.asked, c.asked) {
			t.Errorf("%s: fetched %v, want %v", name, c.commits.asked, c.asked)
		}
	}
}

// A host is known if a kustomization of the trusted commit names it, whatever the ref.
func TestHostsOfKustomizationsAreKnown(tt *testing.T) {
	tt.Parallel()
	t := newOutageTest(tt)
	commit, _ := t.lib("small")
	tree := treeOf(t.T, t.w, map[string]string{
		"sluice.yaml":          "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: f}\nspec:\n  trunk: main\n  environments: [{name: dev}]\n",
		"clusters/a.yaml":      "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec: {environment: dev}\n",
		"x/kustomization.yaml": "resources: [\"https://git.example.com/acme/lib//base?ref=main\"]\n",
	})
	v, err := NewReader(t.store, noArchives{}, renderer.NewEngine(renderer.DefaultLimits())).Open(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	k := NewKnownHosts(t.store, nil, nil)
	k.Trust(v)
	for url, known := range map[string]bool{"https://git.example.com/other/lib": true, "https://example.org/acme/lib": false} {
		err := k.FetchCommit(t.Context(), fleet.GitCommit{URL: url, Commit: commit.String()})
		if errors.Is(err, ErrUnasked) == known {
			t.Errorf("%s: the error is %v, want that the host counts as known: %t", url, err, known)
		}
	}
}

// Credentials may read a repository that a kustomization of the trusted commit names, also on a host that something
// else makes known.
func TestCredentialsOfKustomizations(tt *testing.T) {
	tt.Parallel()
	t := newOutageTest(tt)
	commit, _ := t.lib("small")
	const api = "apiVersion: sluice.dev/v1alpha1\n"
	tree := treeOf(t.T, t.w, map[string]string{
		"sluice.yaml":          api + "kind: Fleet\nmetadata: {name: f}\nspec:\n  trunk: main\n  environments: [{name: dev}]\n",
		"clusters/a.yaml":      api + "kind: Cluster\nmetadata: {name: a}\nspec: {environment: dev}\n",
		"repositories/o.yaml":  api + "kind: Repository\nmetadata: {name: o}\nspec: {url: \"https://127.0.0.1:1/acme/other\", branch: main}\n",
		"x/kustomization.yaml": "resources: [\"https://127.0.0.1:1/acme/lib//base?ref=main\"]\n",
	})
	v, err := NewReader(t.store, noArchives{}, renderer.NewEngine(renderer.DefaultLimits())).Open(t.Context(), tree)
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]bool{"https://127.0.0.1:1/acme/lib": true, "https://127.0.0.1:1/acme/secret": false} {
		used := false
		k := NewKnownHosts(t.store, func(string) gitstore.Auth { used = true; return gitstore.Auth{} }, nil)
		k.Trust(v)
		if err := k.FetchCommit(t.Context(), fleet.GitCommit{URL: url, Commit: commit.String()}); errors.Is(err, ErrUnasked) {
			t.Errorf("%s: the host counts as unknown: %v", url, err)
		}
		if used != want {
			t.Errorf("%s: credentials are used: got %t, want %t", url, used, want)
		}
	}
}
