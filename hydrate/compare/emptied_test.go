package compare_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

const (
	emptyFleet    = "apiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: acme}\nspec: {environments: [{name: dev}, {name: prod, after: [dev]}]}\n"
	emptyClusters = "apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: one}\nspec: {environment: dev}\n---\napiVersion: sluice.dev/v1alpha1\nkind: Cluster\nmetadata: {name: two}\nspec: {environment: prod}\n"
)

// app is an app with a ConfigMap of the name, on the clusters of an environment.
func app(r *hydratetest.Repo, name, environment, object string) {
	r.T.Helper()
	r.Write("apps/"+name+"/app.yaml", "apiVersion: sluice.dev/v1alpha1\nkind: App\nmetadata: {name: "+name+
		"}\nspec: {namespace: default, placement: {matchLabels: {environment: "+environment+
		"}}, source: {manifests: {path: apps/"+name+"/m}}}\n")
	r.Write("apps/"+name+"/m/x.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+object+"}\n")
}

// TestEmptied: a cluster that loses all its objects is found, unless its registry entry goes too, something is left, or
// nobody knows.
func TestEmptied(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*hydratetest.Repo)
		alter  func(*compare.Request)
		want   []string // cluster, and its file if that is not read any more
	}{
		"all apps go": {
			change: func(r *hydratetest.Repo) { r.Git("rm", "-rq", "apps") },
			want:   []string{"one ", "two "},
		},
		"those of one cluster": {
			change: func(r *hydratetest.Repo) { r.Git("rm", "-rq", "apps/web", "apps/db") },
			want:   []string{"one "},
		},
		"one of two": {change: func(r *hydratetest.Repo) { r.Git("rm", "-rq", "apps/web") }},
		"another app in their place": {change: func(r *hydratetest.Repo) {
			r.Git("rm", "-rq", "apps/web",
				"apps/db")
			app(r, "new", "dev", "new")
		}, want: []string{"one "}},
		"an app that keeps an object": {change: func(r *hydratetest.Repo) {
			r.Git("rm", "-rq", "apps/web",
				"apps/db")
			app(r, "new", "dev", "web")
		}},
		"an app that changes all": {
			change: func(r *hydratetest.Repo) { app(r, "api", "prod", "other") },
			want:   []string{"two "},
		},
		"a retired cluster": {change: func(r *hydratetest.Repo) {
			r.Write("clusters/a.yaml", emptyClusters[:len(emptyClusters)-2]+", state: retired}\n")
		}},
		"a cluster that is removed": {change: func(r *hydratetest.Repo) {
			r.Write("clusters/a.yaml",
				emptyClusters[:len(emptyClusters)/2-2])
		}},
		"a file that is not read": {change: func(r *hydratetest.Repo) {
			r.Write("sluice.yaml", emptyFleet[:len(emptyFleet)-2]+", files: {clusters: [others/*.yaml]}}\n")
			r.Write("others/b.yaml", emptyClusters[len(emptyClusters)/2+1:])
		}, want: []string{"one clusters/a.yaml"}},
		"a file that is not read, and changed": {change: func(r *hydratetest.Repo) {
			r.Write("sluice.yaml", emptyFleet[:len(emptyFleet)-2]+", files: {clusters: [others/*.yaml]}}\n")
			r.Write("clusters/a.yaml", "# moved to others\n"+emptyClusters)
			r.Write("others/b.yaml", emptyClusters[len(emptyClusters)/2+1:])
		}, want: []string{"one clusters/a.yaml"}},
		"a file that is not read, and retires it": {change: func(r *hydratetest.Repo) {
			r.Write("sluice.yaml", emptyFleet[:len(emptyFleet)-2]+", files: {clusters: [others/*.yaml]}}\n")
			r.Write("clusters/a.yaml", strings.Replace(emptyClusters, "environment: dev}",
				"environment: dev, state: retired}", 1))
			r.Write("others/b.yaml", emptyClusters[len(emptyClusters)/2+1:])
		}},
		"a target that fails": {change: func(r *hydratetest.Repo) {
			r.Git("rm", "-rq",
				"apps/web")
			r.Write("apps/db/m/x.yaml", "a: [")
		}},
		"some apps are compared": {
			change: func(r *hydratetest.Repo) { r.Git("rm", "-rq", "apps") },
			alter:  func(q *compare.Request) { q.Apps = []string{"web"} },
		},
		"a whole environment": {
			change: func(*hydratetest.Repo) {},
			alter:  func(q *compare.Request) { q.Against = compare.AgainstNothing },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := hydratetest.New(t)
			r.Write("sluice.yaml", emptyFleet)
			r.Write("clusters/a.yaml", emptyClusters)
			app(r, "web", "dev", "web")
			app(r, "db", "dev", "db")
			app(r, "api", "prod", "api")
			r.Commit("start")
			c.change(r)
			r.Git("commit", "-q", "--allow-empty", "-m", "change", "-a")
			r.Git("add", "-A")
			r.Git("commit", "-q", "--allow-empty", "--amend", "-m", "change")
			request := compare.Request{Base: r.Resolve("HEAD~1"), Head: r.Resolve("HEAD")}
			if c.alter != nil {
				c.alter(&request)
			}
			list, err := run(r, request).Emptied(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range list {
				got = append(got, e.Cluster.Name+" "+e.Unread)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the result is %q, want %q", got, c.want)
			}
		})
	}
}

// TestEmptiedMoved: a cluster that moves to another environment leaves the branch of its old one, and is not emptied. A
// promotion compares only one environment.
func TestEmptiedMoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		environment, place string
		want               int
	}{
		"moved, with its app":            {environment: "prod", place: "prod"},
		"it stays, and its app goes":     {environment: "dev", place: "prod", want: 1},
		"moved, and its app goes for it": {environment: "prod", place: "dev"}, // seen where prod is compared too
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := hydratetest.New(t)
			r.Write("sluice.yaml", emptyFleet)
			r.Write("clusters/a.yaml", emptyClusters)
			app(r, "web", "dev", "web")
			r.Commit("start")
			r.Hydrate(func(q *hydrate.Request) { q.Environments = []string{"dev", "prod"} })
			r.Write("clusters/a.yaml", strings.Replace(emptyClusters, "environment: dev", "environment: "+c.environment,
				1))
			app(r, "web", c.place, "web")
			r.Commit("move")
			request := compare.Request{
				Head: r.Resolve("HEAD"), Against: compare.AgainstBranches,
				Environments: []string{"dev"},
			}
			if got, err := run(r, request).Emptied(t.Context()); err != nil || len(got) != c.want {
				t.Errorf("the result of Emptied is %+v, want %d (the error is %v)", got, c.want, err)
			}
		})
	}
}
