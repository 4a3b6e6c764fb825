package flux_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/importer/flux"
	"github.com/sluice-gitops/sluice/importer/internal/pinned"
)

// other is a declared repository with a chart, a base and Kustomizations of its own.
const other = `
-- .repositories/lib/charts/web/Chart.yaml --
{apiVersion: v2, name: web, version: 1.0.0}
-- .repositories/lib/charts/web/values-prod.yaml --
{a: {b: prod}}
-- .repositories/lib/base/config.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: base}, data: {color: "${color:=none}"}}
-- .repositories/lib/base/skipped.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: skipped}}
-- .repositories/lib/tree/child.yaml --
# a comment
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: child, namespace: flux-system}
spec: {interval: 10m, path: ./base, prune: true, sourceRef: {kind: GitRepository, name: lib}}
`

const commit = "1234567890123456789012345678901234567890"

func lib(resolved string) flux.Repository {
	return flux.Repository{
		Name: "lib", URL: "https://git.example.com/acme/lib", Dir: ".repositories/lib",
		Resolved: resolved, Commit: commit, Declared: "repositories/lib.yaml:1",
	}
}

// source is the GitRepository lib with some fields of its spec.
func source(spec string) string {
	return "-- clusters/prod/lib.yaml --\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: lib, namespace: flux-system}\n" +
		"spec: {url: \"ssh://git@git.example.com/acme/lib.git\"" + spec + "}\n"
}

func of(path string) string {
	return strings.Replace(app("postBuild: {substitute: {color: blue}}\n"), "name: flux-system}\n  path: ./app",
		"name: lib}\n  path: "+path, 1)
}

const libRelease = "-- clusters/prod/release.yaml --\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: web}\nspec:\n  interval: 10m\n" +
	"  chart: {spec: {chart: ./charts/web, valuesFiles: [charts/web/values-prod.yaml], reconcileStrategy: Revision, sourceRef: {kind: GitRepository, name: lib, namespace: flux-system}}}\n  values: {c: d}\n"

func TestChartOfAnotherRepository(t *testing.T) {
	for name, spec := range map[string]string{
		"as it is": "", "ignored files": ", ignore: \"/base\\n\"",
		"sparse": ", sparseCheckout: [charts]",
	} {
		u := units(t, sync+source(", ref: {tag: v1.0.0}"+spec)+libRelease+other,
			lib("refs/tags/v1.0.0"))["HelmRelease/web"]
		if u.Err != nil || u.Release == nil {
			t.Fatalf("%s: the unit is %+v", name, u)
		}
		if r := u.Release; r.Repository != "lib" || r.Path != "charts/web" ||
			!slices.Equal(r.ValuesFiles, []string{".repositories/lib/charts/web/values-prod.yaml"}) {
			t.Errorf("%s: the path is %s, the values files are %v", name, r.Path, r.ValuesFiles)
		}
		if got := encoded(t, u.Release.Values); got != `{"c":"d"}` {
			t.Errorf("%s: the result of encoded is %s", name, got)
		}
	}
	for name, c := range map[string]struct{ files, want string }{
		"the chart is ignored": {
			source(", ref: {tag: v1.0.0}, ignore: \"/charts\\n\"") + libRelease,
			`the chart "./charts/web" is not a directory of GitRepository flux-system/lib`,
		},
		"another directory": {
			source(", ref: {tag: v1.0.0}") +
				strings.Replace(libRelease, "./charts/web", "./charts/none", 1),
			`the chart "./charts/none" is not a directory`,
		},
		"this repository's": {
			source(", ref: {tag: v1.0.0}") +
				strings.Replace(libRelease, "./charts/web", "./app", 1) + configMap,
			`the chart "./app" is not a directory`,
		},
		"by its mounted path": {source(", ref: {tag: v1.0.0}") +
			strings.Replace(strings.Replace(libRelease, "./charts/web", "./.repositories/lib/charts/web", 1),
				"name: lib", "name: flux-system", 1), `is not a directory of GitRepository flux-system/flux-system`},
	} {
		u := units(t, sync+c.files+other, lib("refs/tags/v1.0.0"))["HelmRelease/web"]
		if u.Err == nil || !strings.Contains(u.Err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %s", name, u.Err, c.want)
		}
	}
}

func TestKustomizationOfAnotherRepository(t *testing.T) {
	all := units(t, sync+source(", ref: {branch: main}, ignore: skipped.yaml")+of("./base")+other,
		lib("refs/heads/main"))
	u := all["Kustomization/app"]
	got := objects(t, u)
	if u.Err != nil || len(got) != 1 || !strings.Contains(encoded(t, got[0]), `"color":"blue"`) {
		t.Fatalf("%v: the result of objects is %v", u.Err, got)
	}
	if !slices.Contains(u.Reads, ".repositories/lib/base/config.yaml") ||
		!slices.Contains(u.Reads, "clusters/prod/app.yaml") {
		t.Errorf("reads %v", u.Reads)
	}
	all = units(t, sync+source(", ref: {branch: main}")+of("./tree")+other, lib("refs/heads/main"))
	child := all["Kustomization/child"]
	if child.Err != nil || child.Parent.Name != "app" ||
		child.Origin.String() != ".repositories/lib/tree/child.yaml:2" || len(objects(t, child)) != 2 {
		t.Errorf("the child is %+v", child)
	}
	// The other repository is no part of this one: its clusters are not found, and a Kustomization of "." does not
	// build it.
	all = units(t, sync+strings.Replace(app(""), "./app", "./", 1)+configMap+other, lib("refs/heads/main"))
	if u := all["Kustomization/app"]; u.Err != nil || strings.Contains(string(u.Stream), "base") {
		t.Errorf("%v\nthe stream is\n%s", u.Err, u.Stream)
	}
}

func TestArtifactOfAnotherRepository(t *testing.T) {
	all := units(t, sync+source(", ref: {branch: main}")+strings.Replace(app(""), "{kind: GitRepository, name: flux-system}\n  path: ./app", "{kind: ExternalArtifact, name: apps}\n  path: ./web", 1)+configMap+`
-- clusters/prod/generator.yaml --
apiVersion: source.extensions.fluxcd.io/v1beta1
kind: ArtifactGenerator
metadata: {name: generator, namespace: flux-system}
spec:
  sources: [{alias: own, kind: GitRepository, name: flux-system}, {alias: lib, kind: GitRepository, name: lib}]
  artifacts:
  - name: apps
    copy: [{from: "@lib/base/config.yaml", to: "@artifact/web/base.yaml"}, {from: "@own/app/**", to: "@artifact/web/"}]
`+other, lib("refs/heads/main"))
	u := all["Kustomization/app"]
	if u.Err != nil || len(objects(t, u)) != 2 || !slices.Contains(u.Reads, ".repositories/lib/base/config.yaml") ||
		!slices.Contains(u.Reads, "app/config.yaml") {
		t.Errorf("the error is %v, the reads are %v\nthe stream is\n%s", u.Err, u.Reads, u.Stream)
	}
}

// What Flux fetches must be what sluice.lock pins.
func TestRefsOfAnotherRepository(t *testing.T) {
	for name, c := range map[string]struct{ spec, pinned, want string }{
		"a branch":           {", ref: {branch: main}", "refs/heads/main", ""},
		"the default branch": {"", "refs/heads/master", ""},
		"not the default branch": {
			"", "refs/heads/main",
			`has spec.ref.branch "master", but sluice.lock pins refs/heads/main at 1234567890 of the repository lib`,
		},
		"another branch":     {", ref: {branch: next}", "refs/heads/main", `spec.ref.branch "next"`},
		"a tag":              {", ref: {tag: v1.2.0}", "refs/tags/v1.2.0", ""},
		"another tag":        {", ref: {tag: v1.2.0}", "refs/tags/v1.3.0", `spec.ref.tag "v1.2.0"`},
		"a branch for a tag": {", ref: {branch: v1.2.0}", "refs/tags/v1.2.0", `spec.ref.branch`},
		"a tag for a branch": {", ref: {tag: main}", "refs/heads/main", `spec.ref.tag`},
		"a range":            {", ref: {semver: \">=1.0.0 <2.0.0\"}", "refs/tags/v1.9.9", ""},
		"out of the range": {
			", ref: {semver: \">=1.0.0 <2.0.0\"}", "refs/tags/v2.0.0",
			"run `sluice deps update lib`",
		},
		"a pre-release":           {", ref: {semver: \"1.x\"}", "refs/tags/v1.3.0-rc.1", "spec.ref.semver"},
		"no complete version":     {", ref: {semver: \"1.x\"}", "refs/tags/v1.3", "spec.ref.semver"},
		"a tag with a path":       {", ref: {semver: \"1.x\"}", "refs/tags/lib/v1.3.0", "spec.ref.semver"},
		"no range":                {", ref: {semver: \"one\"}", "refs/tags/v1.3.0", "spec.ref.semver"},
		"a range for a branch":    {", ref: {semver: \"1.x\"}", "refs/heads/v1.3.0", "spec.ref.semver"},
		"a leading zero":          {", ref: {semver: \"1.x\"}", "refs/tags/v1.03.0", ""},
		"a range and its tag":     {", ref: {semver: \"1.x\", tag: v1.3.0}", "refs/tags/v1.3.0", ""},
		"a range and another tag": {", ref: {semver: \"1.x\", tag: v9.0.0}", "refs/tags/v1.3.0", "spec.ref.tag"},
		"a name":                  {", ref: {name: refs/heads/main}", "refs/heads/main", ""},
		"a name before a branch": {
			", ref: {name: refs/pull/1/head, branch: main}", "refs/heads/main",
			`spec.ref.name "refs/pull/1/head"`,
		},
		"a tag's name": {", ref: {name: \"refs/tags/v1.0.0^{}\"}", "refs/tags/v1.0.0", ""},
		"a commit": {
			", ref: {branch: other, commit: " + `"` + commit + `"` + "}", "refs/heads/main",
			"",
		},
		"another commit": {
			", ref: {branch: main, commit: \"0000000000000000000000000000000000000000\"}",
			"refs/heads/main", `spec.ref.commit "0000000000000000000000000000000000000000"`,
		},
		"the start of a commit": {", ref: {commit: \"1234567890\"}", "refs/heads/main", `spec.ref.commit`},
		"includes other ones": {
			", ref: {branch: main}, include: [{repository: {name: flux-system}}]",
			"refs/heads/main", "spec.include is not supported",
		},
		"a commit that is no text":  {", ref: {commit: 12}", "refs/heads/main", "GitRepository flux-system/lib"},
		"a repository without refs": {", ref: {branch: main}", "", "spec.ref.branch"},
	} {
		u := units(t, sync+source(c.spec)+of("./base")+other, lib(c.pinned))["Kustomization/app"]
		if c.want == "" && u.Err != nil || c.want != "" && (u.Err == nil || !strings.Contains(u.Err.Error(), c.want)) {
			t.Errorf("%s: the error is %v, want %q", name, u.Err, c.want)
		}
	}
}

// One URL can be declared several times, for several refs.
func TestRefsOfOneRepository(t *testing.T) {
	first := lib("refs/tags/v1.0.0")
	first.Name, first.Dir, first.Missing = "first", ".repositories/first", "it is gone"
	u := units(t, sync+source(", ref: {branch: main}")+of("./base")+other, first,
		lib("refs/heads/main"))["Kustomization/app"]
	if u.Err != nil || len(objects(t, u)) != 2 {
		t.Errorf("%v\nthe stream is\n%s", u.Err, u.Stream)
	}
}

// A declared repository that cannot be read may bring units, one that nobody declares brings none. The message names
// the command that adds it.
func TestMissingRepositories(t *testing.T) {
	gone := lib("refs/heads/main")
	gone.Missing = "it cannot be fetched"
	u := units(t, sync+source(", ref: {branch: main}")+of("./base"), gone)["Kustomization/app"]
	if u.Err == nil || !strings.Contains(u.Err.Error(),
		"GitRepository flux-system/lib (ssh://git@git.example.com/acme/lib.git) is the repository lib, and its content is missing: it cannot be fetched") || !u.Brings {
		t.Errorf("%v, brings: %v", u.Err, u.Brings)
	}
	for spec, command := range map[string]string{
		"":                                     "sluice deps add lib ssh://git@git.example.com/acme/lib.git --branch master`",
		", ref: {branch: main}":                "--branch main`",
		", ref: {tag: v1.0.0}":                 "--tags v1.0.0`",
		", ref: {semver: 1.x}":                 "--tags '*'`",
		", ref: {commit: abc}":                 "--branch BRANCH`",
		", ref: {branch: \"$(touch hacked)\"}": "--branch BRANCH`",
	} {
		u := units(t, sync+source(spec)+of("./base"))["Kustomization/app"]
		if u.Err == nil || !strings.Contains(u.Err.Error(), command) || u.Brings {
			t.Errorf("%s: %v, brings: %v", spec, u.Err, u.Brings)
		}
	}
	for url, want := range map[string]string{
		"https://user:secret@git.example.com/acme/lib": "sluice deps add lib https://git.example.com/acme/lib ",
		"https://git.example.com/$(id)":                "sluice deps add lib URL ",
	} {
		u := units(t, sync+strings.Replace(source(""), "ssh://git@git.example.com/acme/lib.git", url,
			1)+of("./base"))["Kustomization/app"]
		if u.Err == nil || !strings.Contains(u.Err.Error(), want) {
			t.Errorf("%s: the error is %v", url, u.Err)
		}
	}
}

// source-controller packs a chart without ignored files and links, and replaces its own values with valuesFiles.
func TestPackedCharts(t *testing.T) {
	const files = "-- .repositories/lib/.sourceignore --\n/charts/web/skipped.yaml\n/charts/common/skipped.yaml\n/charts/other/skipped.yaml\n" +
		"-- .repositories/lib/charts/web/skipped.yaml --\na: b\n-- .repositories/lib/charts/web/files/logo.png --\nan image\n" +
		"-- .repositories/lib/charts/common/Chart.yaml --\n{apiVersion: v2, name: common, version: 1.0.0, dependencies: [{name: web, repository: \"file://../web\"}]}\n" +
		"-- .repositories/lib/charts/common/skipped.yaml --\na: b\n-- .repositories/lib/charts/other/skipped.yaml --\na: b\n"
	charts := strings.Replace(other, "version: 1.0.0}",
		"version: 1.0.0, dependencies: [{name: common, repository: \"file://../common\"}, {name: far, repository: \"file://../../../..\"}]}", 1)
	u := units(t, sync+source("")+libRelease+charts+files, lib("refs/heads/master"))["HelmRelease/web"]
	if u.Err != nil {
		t.Fatal(u.Err)
	}
	const dir = ".repositories/lib/charts/"
	if want := []string{dir + "common/skipped.yaml", dir + "web/files/logo.png", dir +
		"web/skipped.yaml"}; !slices.Equal(u.Release.Without, want) {
		t.Errorf("without %v", u.Release.Without)
	}
	if got := encoded(t, u.Release.Defaults); got != `{"a":{"b":"prod"}}` {
		t.Errorf("defaults %s", got)
	}
	u = units(t, sync+source("")+strings.Replace(libRelease, "valuesFiles: [charts/web/values-prod.yaml], ", "",
		1)+other, lib("refs/heads/master"))["HelmRelease/web"]
	if u.Err != nil || u.Release.Defaults != nil || u.Release.Without != nil {
		t.Errorf("%v: the release is %+v", u.Err, u.Release)
	}
}

// A GitRepository that pins a whole commit id gets the files of that commit, whatever the declared repositories pin. A
// branch does not, and a commit that is not there is named with its address.
func TestCommitOfAnotherRepository(t *testing.T) {
	const url = "ssh://git@git.example.com/acme/lib.git"
	exact := lib("")
	exact.Name, exact.URL, exact.Declared, exact.Exact = "lib", url, "", true
	missing := exact
	missing.Missing = "connection refused"
	second := exact
	second.Commit = strings.Repeat("2", 40)
	for name, c := range map[string]struct {
		ref, want string
		lacks     bool
		has       []flux.Repository
	}{
		"the commit":         {ref: `commit: "` + commit + `"`, has: []flux.Repository{exact}},
		"with a branch":      {ref: `branch: main, commit: "` + commit + `"`, has: []flux.Repository{exact}},
		"declared elsewhere": {ref: `commit: "` + commit + `"`, has: []flux.Repository{{Name: "x", URL: url, Commit: second.Commit, Dir: ".repositories/x"}, exact}},
		"it is missing":      {ref: `commit: "` + commit + `"`, want: "its content is missing: connection refused", has: []flux.Repository{missing}},
		"another commit":     {ref: `commit: "` + commit + `"`, want: "is not this repository", lacks: true, has: []flux.Repository{second}},
		"nothing":            {ref: `commit: "` + commit + `"`, want: "is not this repository", lacks: true},
		"a branch":           {ref: "branch: main", want: "the branch main can move", has: []flux.Repository{exact}},
		"a tag":              {ref: "tag: v1.0.0", want: "the tag v1.0.0 can move", has: []flux.Repository{exact}},
		"a short commit":     {ref: "commit: 1234567a", want: "is not this repository", has: []flux.Repository{exact}},
		"a number":           {ref: "commit: " + commit, want: "spec.ref.commit is a number in YAML, not text (quote it)", has: []flux.Repository{exact}},
	} {
		u := units(t, sync+source(", ref: {"+c.ref+"}")+libRelease+other, c.has...)["HelmRelease/web"]
		var lack *pinned.LackError
		switch {
		case c.want == "" && (u.Err != nil || u.Release.Repository != "lib" || u.Release.Path != "charts/web"):
			t.Errorf("%s: the unit is %+v", name, u)
		case c.want != "" && (u.Err == nil || !strings.Contains(u.Err.Error(), c.want)):
			t.Errorf("%s: the error is %v, want %q", name, u.Err, c.want)
		case errors.As(u.Err, &lack) != c.lacks:
			t.Errorf("%s: a lack is %v, want %v", name, lack, c.lacks)
		case c.lacks && (lack.URL != url || lack.Commit != commit):
			t.Errorf("%s: it lacks %s of %s", name, lack.Commit, lack.URL)
		}
	}
}
