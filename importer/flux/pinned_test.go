package flux_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluice-gitops/sluice/importer/flux"
	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// readTree notes the files that an import reads.
type readTree struct {
	mapTree
	read *[]string
}

func (t readTree) ReadFile(name string) ([]byte, error) {
	*t.read = append(*t.read, name)
	return t.mapTree.ReadFile(name)
}

// A file of another repository that nothing builds is not read: it may have to be fetched, and it is no place of an
// object of this repository.
func TestFilesOfAnotherRepositoryThatNothingReads(t *testing.T) {
	files := sync + source(", ref: {branch: main}") + of("./tree") + other +
		"-- .repositories/lib/test/fixture.yaml --\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: my-web}\n" +
		"-- clusters/prod/own.yaml --\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: own, namespace: flux-system}\nspec: {path: ./own, namePrefix: my-, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}\n" +
		"-- own/release.yaml --\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: web}\n" +
		"spec: {interval: 10m, chart: {spec: {chart: ./chart, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}}\n-- chart/Chart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0}\n"
	var read []string
	tree := readTree{mapTree{fstest.MapFS{}}, &read}
	for _, f := range txtar.Parse([]byte(files)).Files {
		tree.MapFS[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	i, err := flux.New(tree, kustomize.NewBuilder(manifest.DefaultBudget()).AnyFile(), lib("refs/heads/main"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := i.Import(t.Context(), "clusters/prod")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, u := range all {
		switch u.Key.Name {
		case "child":
			found = u.Origin.String() == ".repositories/lib/tree/child.yaml:2"
		case "my-web":
			if u.Err != nil || strings.HasPrefix(u.Origin.File, ".repositories/") {
				t.Errorf("my-web is at %s: %v", u.Origin, u.Err)
			}
		}
	}
	if !found || slices.Contains(read, ".repositories/lib/test/fixture.yaml") ||
		!slices.Contains(read, ".repositories/lib/tree/child.yaml") {
		t.Errorf("child at its place: %v; reads %v", found, read)
	}
}

// One URL can be declared for several ranges of tags. Flux fetches the highest version in the range.
func TestSeveralDeclarationsThatAgree(t *testing.T) {
	declared := func(name, resolved, commit string) flux.Repository {
		r := lib(resolved)
		r.Name, r.Dir, r.Commit = name, ".repositories/"+name, commit
		return r
	}
	const one, two = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	files := func(ref string) string {
		return sync + source(", ref: "+ref) + of("./base") +
			"-- .repositories/a/base/c.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n-- .repositories/b/base/c.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n"
	}
	gone := declared("b", "", "")
	gone.Missing = "it cannot be fetched"
	for name, c := range map[string]struct {
		ref       string
		a, b      flux.Repository
		has, want string
	}{
		"the highest version": {
			`{semver: ">=1.0.0"}`, declared("a", "refs/tags/v1.10.0", one),
			declared("b", "refs/tags/v1.9.0", two), "name: a\n", "",
		},
		"the highest is the second": {
			`{semver: ">=1.0.0"}`, declared("a", "refs/tags/v1.9.0", one),
			declared("b", "refs/tags/v2.0.0", two), "name: b\n", "",
		},
		"only one is in the range": {
			`{semver: "1.x"}`, declared("a", "refs/tags/v1.9.0", one),
			declared("b", "refs/tags/v2.0.0", two), "name: a\n", "",
		},
		"one may be higher": {
			`{semver: ">=1.0.0"}`, declared("a", "refs/tags/v1.9.0", one), gone, "",
			"is the repository b, and its content is missing",
		},
		"two commits of a branch": {
			`{branch: main}`, declared("a", "refs/heads/main", one),
			declared("b", "refs/heads/main", two), "", "the repositories a and b pin different commits of it",
		},
		"one commit of a branch": {
			`{branch: main}`, declared("a", "refs/heads/main", one),
			declared("b", "refs/heads/main", one), "name: a\n", "",
		},
	} {
		u := units(t, files(c.ref), c.a, c.b)["Kustomization/app"]
		if c.want == "" && (u.Err != nil || !strings.Contains(string(u.Stream), c.has)) ||
			c.want != "" && (u.Err == nil || !strings.Contains(u.Err.Error(), c.want)) {
			t.Errorf("%s: the error is %v, want %q\nthe stream is\n%s", name, u.Err, c.want, u.Stream)
		}
	}
}

// What a GitRepository leaves out is not in the chart that Flux installs.
func TestChartsWithFilesThatAreLeftOut(t *testing.T) {
	const chart = "-- .repositories/lib/charts/web/templates/web.yaml --\nkind: ConfigMap\n-- .repositories/lib/charts/web/icon.png --\n\n"
	for name, c := range map[string]struct{ spec, files, want string }{
		"only what Flux leaves out everywhere": {"", chart, ""},
		"files elsewhere": {", ignore: /charts/webs", chart +
			"-- .repositories/lib/charts/webs/x --\n", ""},
		"a template": {
			", ignore: /charts/web/templates/web.yaml", chart,
			"charts/web/templates/web.yaml",
		},
		"a template, in .sourceignore": {"", chart +
			"-- .repositories/lib/charts/web/.sourceignore --\nweb.yaml\n", "charts/web/templates/web.yaml"},
		"what Flux leaves out of templates": {
			"", chart + "-- .repositories/lib/charts/web/templates/a.png --\n\n",
			"charts/web/templates/a.png",
		},
		"not checked out": {
			`, sparseCheckout: [charts/web/Chart.yaml, charts/web/values]`, chart,
			"charts/web/templates/web.yaml",
		},
	} {
		u := units(t, sync+source(", ref: {branch: main}"+c.spec)+libRelease+other+c.files,
			lib("refs/heads/main"))["HelmRelease/web"]
		if u.Err != nil || c.want != "" && !slices.Contains(u.Release.Without, ".repositories/lib/"+c.want) {
			t.Errorf("%s: the error is %v: the release is %+v, want %q", name, u.Err, u.Release, c.want)
		}
	}
}

// source-controller leaves out symbolic links, so a chart that has one is another chart in the cluster. Links elsewhere
// do not matter.
func TestChartsWithLinks(t *testing.T) {
	for link, want := range map[string]string{
		".repositories/lib/charts/web/templates/link.yaml": "charts/web/templates/link.yaml",
		".repositories/lib/charts/link":                    "",
		"chart/templates/link.yaml":                        "",
	} {
		tree := fstest.MapFS{link: {Data: []byte("web.yaml"), Mode: fs.ModeSymlink}}
		for _, f := range txtar.Parse([]byte(sync + source(", ref: {branch: main}") + libRelease + other)).Files {
			tree[f.Name] = &fstest.MapFile{Data: f.Data}
		}
		i, err := flux.New(mapTree{tree}, kustomize.NewBuilder(manifest.DefaultBudget()).AnyFile(),
			lib("refs/heads/main"))
		if err != nil {
			t.Fatal(err)
		}
		all, err := i.Import(t.Context(), "clusters/prod")
		n := slices.IndexFunc(all, func(u flux.Unit) bool { return u.Key.Kind == "HelmRelease" })
		if err != nil || n < 0 {
			t.Fatalf("%v: the error is %v", all, err)
		}
		if u := all[n]; u.Err != nil || want == "" && len(u.Release.Without) > 0 ||
			want != "" && !slices.Contains(u.Release.Without, ".repositories/lib/"+want) {
			t.Errorf("%s: the error is %v: the release is %+v, want %q", link, u.Err, u.Release, want)
		}
	}
}

// An ArtifactGenerator can come from a Kustomization that is read later.
func TestGeneratorsThatComeLater(t *testing.T) {
	files := sync + strings.Replace(app(""), "{kind: GitRepository, name: flux-system}\n  path: ./app",
		"{kind: ExternalArtifact, name: apps}\n  path: ./web", 1) + configMap +
		"-- clusters/prod/z.yaml --\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: z, namespace: flux-system}\nspec: {path: ./later, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}\n"
	const generator = "-- later/generator.yaml --\napiVersion: source.extensions.fluxcd.io/v1beta1\nkind: ArtifactGenerator\nmetadata: {name: generator, namespace: flux-system}\nspec:\n" +
		"  sources: [{alias: own, kind: GitRepository, name: flux-system}]\n  artifacts:\n  - name: apps\n    copy: [{from: \"@own/app/**\", to: \"@artifact/web/\"}]\n"
	if u := units(t, files+generator)["Kustomization/app"]; u.Err != nil || len(objects(t, u)) != 1 {
		t.Error(u.Err)
	}
	if u := units(t, files+strings.Replace(generator, "name: apps", "name: others",
		1))["Kustomization/app"]; u.Err == nil || !strings.Contains(u.Err.Error(),
		"no ArtifactGenerator of the cluster makes it") {
		t.Error(u.Err)
	}
}

// Messages appear in reviews, also in those of other repositories.
func TestCredentialsInURLs(t *testing.T) {
	for _, url := range []string{
		"https://user:s3cret@git.example.com/acme/lib",
		"https://s3cret@git.example.com/acme/lib", "ssh://git:s3cret@git.example.com/acme/lib",
		"https://user:s3/s3cret@git.example.com/acme/lib",
	} {
		files := sync + strings.Replace(source(", ref: {branch: main}"), "ssh://git@git.example.com/acme/lib.git", url,
			1) + of("./base")
		for _, others := range [][]flux.Repository{nil, {lib("refs/heads/next")}} {
			u := units(t, files, others...)["Kustomization/app"]
			if u.Err == nil || strings.Contains(u.Err.Error(), "s3cret") {
				t.Errorf("%s: the error is %v", url, u.Err)
			}
		}
	}
}
