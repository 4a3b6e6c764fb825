package kustomize_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-gitops/sluice/renderer/kustomize"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// references are texts that the library would fetch, or could treat as something outside of the bundle.
func references() map[string]string {
	const remote, relative = "remote", "relative"
	return map[string]string{
		"https://example.com/a.yaml":           remote,
		"http://example.com/a.yaml":            remote,
		"HTTPS://example.com/a.yaml":           remote,
		"hTtP:example.com":                     remote,
		"https:a.yaml":                         remote,
		"https://github.com/o/r//dir?ref=main": remote,
		"github.com/o/r":                       remote,
		"GitHub.com/o/r?ref=v1":                remote,
		"github.com:o/r.git":                   remote,
		"git@github.com:o/r.git":               remote,
		"git@host/o/r":                         remote,
		"someone@host/o/r":                     remote,
		"git::https://host/o/r":                remote,
		"GIT::ssh://host/o/r":                  remote,
		"git::host/o/r":                        remote,
		"ssh://git@host/o/r":                   remote,
		"file:///etc/passwd":                   remote,
		"file://host/r":                        remote,
		"s3://bucket/key":                      remote,
		"oci://host/r":                         remote,
		" https://example.com/a.yaml":          remote,
		"gitlab.com/o/r":                       remote,
		"host.example.com/o/r.git":             remote,
		"host.example.com/o/r//dir":            remote,
		"o/r?ref=main":                         remote,
		"dev.azure.com/o/p/_git/r":             remote,
		"/etc/passwd":                          "absolute",
		"/":                                    "absolute",
		"../../outside":                        "leaves the repository",
		"../..":                                "leaves the repository",
		"sub/../../../x":                       "leaves the repository",
		"missing.yaml":                         "does not exist",
		"sub\\a.yaml":                          "forward slashes",
		"a.yaml\x00":                           "forward slashes",
	}
}

// fields are the fields with references. %s is replaced by a quoted reference; the second value is the field that
// errors name.
func fields() map[string]string {
	plugin := func(list, kind, rest string) string {
		return list + ":\n- |\n  apiVersion: builtin\n  kind: " + kind + "\n  metadata: {name: p}\n  " + rest + "\n"
	}
	return map[string]string{
		"resources: [a.yaml, %s]\n": "resources[1]",
		"bases: [%s]\n":             "resources[0]",
		"Resources: [%s]\n":         "resources[0]",
		"components: [%s]\n":        "components[0]",
		"configurations: [%s]\n":    "configurations[0]",
		"crds: [%s]\n":              "crds[0]",
		"openapi: {path: %s}\n":     "openapi.path",
		"patches: [{path: %s}]\n":   "patches[0].path",
		"patchesJson6902: [{path: %s, target: {kind: A, name: b, version: v1}}]\n": "patchesJson6902[0].path",
		"patchesStrategicMerge: [%s]\n":                                            "patchesStrategicMerge[0]",
		"replacements: [{path: %s}]\n":                                             "replacements[0].path",
		"configMapGenerator: [{name: c, files: [%s]}]\n":                           "configMapGenerator[0].files[0]",
		"configMapGenerator: [{name: c, envs: [%s]}]\n":                            "configMapGenerator[0].envs[0]",
		"configMapGenerator: [{name: c, env: %s}]\n":                               "configMapGenerator[0].envs[0]",
		"secretGenerator: [{name: c, files: [%s]}]\n":                              "secretGenerator[0].files[0]",
		"secretGenerator: [{name: c, envs: [%s]}]\n":                               "secretGenerator[0].envs[0]",
		"generators: [%s]\n":                                                       "generators[0]",
		"transformers: [%s]\n":                                                     "transformers[0]",
		"validators: [%s]\n":                                                       "validators[0]",
		plugin("generators", "ConfigMapGenerator",
			"files: [%s]"): "ConfigMapGenerator p: files[0]",
		plugin("generators", "SecretGenerator", "ENVS: [%s]"):          "SecretGenerator p: envs[0]",
		plugin("transformers", "PatchTransformer", "path: %s"):         "PatchTransformer p",
		plugin("transformers", "PatchTransformer", "PaTh: %s"):         "PatchTransformer p",
		plugin("transformers", "PatchJson6902Transformer", "path: %s"): "PatchJson6902Transformer p",
		plugin("transformers", "PatchStrategicMergeTransformer",
			"paths: [%s]"): "PatchStrategicMergeTransformer p: paths[0]",
		plugin("transformers", "ReplacementTransformer",
			"replacements: [{path: %s}]"): "ReplacementTransformer p: replacements[0]",
		plugin("validators", "ValueAddTransformer", "targetFilePath: %s"): "ValueAddTransformer p",
	}
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// Puts every reference into every field.
func TestReferencesAreRefused(t *testing.T) {
	for field, name := range fields() {
		for ref, want := range references() {
			files := []kustomize.File{
				{Path: "app/kustomization.yaml", Data: fmt.Appendf(nil, field, fmt.Sprintf("%q", ref))},
				{Path: "app/a.yaml", Data: []byte(configMap)},
			}
			_, err := kustomize.NewWalker(mapFS(files), manifest.DefaultBudget()).Closure("app")
			if err == nil {
				t.Errorf("%s with %q is taken", name, ref)
				continue
			}
			got := err.Error()
			if strings.Contains(ref, "\x00") && strings.Contains(got, "control characters") {
				continue // YAML inside YAML cannot hold it at all
			}
			for _, part := range []string{"app/kustomization.yaml", name, want} {
				if !strings.Contains(got, part) {
					t.Errorf("%s with %q: no %q in: %s", name, ref, part, got)
				}
			}
		}
	}
}

// A kustomization of a mounted repository names a file of this one, in every field.
func TestMountedRepositoriesStayInside(t *testing.T) {
	const mounts = ".repositories"
	for field, name := range fields() {
		for _, ref := range []string{"../../../private.yaml", "../../../.repositories/../private.yaml"} {
			files := []kustomize.File{
				{Path: mounts + "/lib/app/kustomization.yaml", Data: fmt.Appendf(nil, field, fmt.Sprintf("%q", ref))},
				{Path: mounts + "/lib/app/a.yaml", Data: []byte(configMap)},
				{Path: "private.yaml", Data: []byte(configMap)},
				{Path: "fleet/kustomization.yaml", Data: []byte("resources: [../" + mounts + "/lib/app]\n")},
			}
			for _, root := range []string{mounts + "/lib/app", "fleet"} {
				_, err := kustomize.NewWalker(mapFS(files),
					manifest.DefaultBudget()).AnyFile().Mounts(mounts).Closure(root)
				if err == nil || !strings.Contains(err.Error(), name) ||
					!strings.Contains(err.Error(), "leaves the repository") {
					t.Errorf("%s with %q of %s: %v", name, ref, root, err)
				}
			}
		}
	}
	w := kustomize.NewWalker(mapFS(tree("-- "+mounts+
		"/lib/app/kustomization.yaml --\nhelmGlobals: {chartHome: ../../../charts}\nhelmCharts: [{name: web}]\n-- charts/web/Chart.yaml --\n")), manifest.DefaultBudget()).Charts().Mounts(mounts)
	charts, err := w.ChartsOf(mounts + "/lib/app")
	if err != nil || len(charts) != 1 {
		t.Fatalf("the charts are %v, the error is %v", charts, err)
	}
	if dir, _, err := w.Locate(&charts[0]); err == nil || !strings.Contains(err.Error(), "outside of the repository") {
		t.Errorf("a chart is looked for in %s: %v", dir, err)
	}
}

// Puts paths into the bundle that the library would fetch although they exist.
func TestExistingPathsThatLookRemoteAreRefused(t *testing.T) {
	for _, ref := range []string{
		"github.com/o/r", "git@host/o/r", "github.com:o/r/x", "https:/example.com/a",
		"git::host/o/r",
	} {
		files := []kustomize.File{
			{Path: "kustomization.yaml", Data: fmt.Appendf(nil, "resources: [%q]\n", ref)},
			{Path: ref + "/kustomization.yaml", Data: []byte("namePrefix: x\n")},
		}
		if got := errorOf(t, files, "."); !strings.Contains(got, "is remote") {
			t.Errorf("%s: the result of errorOf is %s", ref, got)
		}
		files = []kustomize.File{
			{Path: "kustomization.yaml", Data: fmt.Appendf(nil, "resources: [%q]\n", ref)},
			{Path: ref, Data: []byte("{this is no object")},
		}
		if got := errorOf(t, files, "."); !strings.Contains(got, "is remote") {
			t.Errorf("%s: the result of errorOf is %s", ref, got)
		}
	}
}

func TestRefused(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 8 {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", 'b'+i, 'b'+i, 'a'+i, 'a'+i, 'a'+i, 'a'+i,
			'a'+i, 'a'+i, 'a'+i, 'a'+i, 'a'+i)
	}
	inBomb := "  " + strings.ReplaceAll(strings.TrimSpace(bomb), "\n", "\n  ") + "\n"
	diamond := ""
	for i := range 24 {
		diamond += fmt.Sprintf("-- d%d/kustomization.yaml --\nresources: [../e%d, ../f%d]\n-- e%d/kustomization.yaml --\nresources: [../d%d]\n-- f%d/kustomization.yaml --\nresources: [../d%d]\n", i, i, i, i, i+1, i, i+1)
	}
	deep := ""
	for i := range 120 {
		deep += fmt.Sprintf("-- d%d/kustomization.yaml --\nresources: [../d%d]\n", i, i+1)
	}
	const inline = "transformers:\n- |\n  apiVersion: %s\n  kind: %s\n  metadata:\n    name: p\n    annotations: {%s}\n"
	for name, c := range map[string]struct {
		root  string
		files string
		want  []string
	}{
		"no kustomization": {"app", "-- app/a.yaml --\n", []string{"app has no kustomization.yaml"}},
		"two kustomizations": {
			".", "-- kustomization.yaml --\n-- Kustomization --\n",
			[]string{"both kustomization.yaml and Kustomization", "keep one"},
		},
		"no directory":   {"app", "-- x --\n", []string{"app", "does not exist"}},
		"root is a file": {"app", "-- app --\n", []string{"is a file"}},
		"root outside":   {"../app", "-- app/kustomization.yaml --\n", []string{"leaves the repository"}},
		"root absolute":  {"/app", "-- app/kustomization.yaml --\n", []string{"absolute"}},
		"root remote":    {"https://example.com/x", "-- app --\n", []string{"remote"}},
		"unknown field": {
			".", "-- kustomization.yaml --\nresources: []\nresource: [a]\n",
			[]string{"kustomization.yaml:2", `"resource"`, "correct or remove"},
		},
		"wrong type": {
			".", "-- kustomization.yaml --\nresources: {a: b}\n",
			[]string{"kustomization.yaml", "invalid kustomization"},
		},
		"no YAML": {
			".", "-- kustomization.yaml --\n{\n",
			[]string{"kustomization.yaml", "invalid kustomization"},
		},
		"empty": {
			".", "-- kustomization.yaml --\n# nothing\n",
			[]string{"kustomization.yaml is empty", "list resources"},
		},
		"cycle": {
			"a",
			"-- a/kustomization.yaml --\nresources: [../b]\n-- b/kustomization.yaml --\nresources:\n- ../a\n",
			[]string{"b/kustomization.yaml:2", "resources[0]", "cycle", "a → b → a"},
		},
		"itself": {"a", "-- a/kustomization.yaml --\nresources: [.]\n", []string{"cycle", "a → a"}},
		"around": {
			"a/b",
			"-- a/b/kustomization.yaml --\nresources: [../../a]\n-- a/kustomization.yaml --\nnamePrefix: a\n",
			[]string{"parent directory of a/b"},
		},
		"cycle of components": {
			"a",
			"-- a/kustomization.yaml --\ncomponents: [../b]\n-- b/kustomization.yaml --\nkind: Component\ncomponents: [../c]\n-- c/kustomization.yaml --\nkind: Component\ncomponents: [../b]\n",
			[]string{"c/kustomization.yaml:2", "cycle"},
		},
		"diamonds": {
			"d0", diamond + "-- d24/kustomization.yaml --\nnamePrefix: a\n",
			[]string{"more than 20000 kustomizations", "use it once"},
		},
		"deep": {
			"d0", deep + "-- d120/kustomization.yaml --\nnamePrefix: a\n",
			[]string{"deep", "flatten"},
		},
		"file outside": {
			"a",
			"-- a/kustomization.yaml --\nresources:\n- x.yaml\n- ../b.yaml\n-- a/x.yaml --\n-- b.yaml --\n",
			[]string{
				"a/kustomization.yaml:3", "resources[1]", `"../b.yaml"`,
				"outside of the kustomization's directory", "make a base",
			},
		},
		"patch is directory": {
			"a", "-- a/kustomization.yaml --\npatches: [{path: b}]\n-- a/b/c --\n",
			[]string{"patches[0].path", "is a directory"},
		},
		"component is file": {
			"a", "-- a/kustomization.yaml --\ncomponents: [b]\n-- a/b --\n",
			[]string{"components[0]", "is a file"},
		},
		"no component": {
			"a",
			"-- a/kustomization.yaml --\ncomponents: [../b]\n-- b/kustomization.yaml --\nnamePrefix: a\n",
			[]string{"is not a component", "kind: Component"},
		},
		"component as base": {
			"a",
			"-- a/kustomization.yaml --\nresources: [../b]\n-- b/kustomization.yaml --\nkind: Component\n",
			[]string{"is a component", "under components"},
		},
		"two list entries": {
			"a",
			"-- a/kustomization.yaml --\nresources:\n- ../b\n - ../c\n-- b/kustomization.yaml --\nnamePrefix: a\n-- b - ../c/x --\n-- c/kustomization.yaml --\nnamePrefix: a\n",
			[]string{"`..` inside a name"},
		},
		"helmCharts": {
			".",
			"-- kustomization.yaml --\nhelmCharts: [{name: x, repo: \"https://example.com\"}]\n",
			[]string{
				"helmCharts", "not allowed",
				"source of the app: source: {helm: {chart: \"x\", repo: \"https://example.com\"}}",
			},
		},
		"helmCharts of a registry": {
			".",
			"-- kustomization.yaml --\nhelmCharts: [{name: x, repo: \"oci://example.com/charts/\", version: 1.2.3}]\n",
			[]string{"source of the app: source: {helm: {chart: \"oci://example.com/charts/x\", version: \"1.2.3\"}}"},
		},
		"old helm": {
			".", "-- kustomization.yaml --\nhelmChartInflationGenerator: [{chartName: x}]\n",
			[]string{"helmChartInflationGenerator", "not allowed"},
		},
		"helm generator": {
			".",
			"-- kustomization.yaml --\ngenerators: [h.yaml]\n-- h.yaml --\napiVersion: builtin\nkind: HelmChartInflationGenerator\nmetadata: {name: h}\n",
			[]string{"h.yaml", "starts Helm", "not allowed"},
		},
		"exec function": {
			".", "-- kustomization.yaml --\n" +
				fmt.Sprintf(inline, "example.com/v1", "Fn", "config.kubernetes.io/function: 'exec: {path: ./x}'"),
			[]string{"kustomization.yaml", "exec or container function", "not allowed"},
		},
		"old function": {
			".", "-- kustomization.yaml --\n" +
				fmt.Sprintf(inline, "builtin", "LabelTransformer", "config.k8s.io/function: 'container: {image: x}'"),
			[]string{"exec or container function"},
		},
		"external plugin": {".", "-- kustomization.yaml --\n" +
			fmt.Sprintf(inline, "example.com/v1", "Fn", "a: b"), []string{"Fn p", "external plugin", "not allowed"}},
		"unknown plugin": {
			".", "-- kustomization.yaml --\n" + fmt.Sprintf(inline, "builtin", "Fn", "a: b"),
			[]string{"no such plugin"},
		},
		"plugin in a list": {
			".",
			"-- kustomization.yaml --\ntransformers: [l.yaml]\n-- l.yaml --\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: builtin, kind: PatchTransformer, metadata: {name: p}, path: \"https://example.com\"}\n",
			[]string{"PatchTransformer p", "is remote"},
		},
		"plugin in a directory": {
			".",
			"-- kustomization.yaml --\ntransformers: [t]\n-- t/kustomization.yaml --\nresources: [l.yaml]\n-- t/l.yaml --\n{apiVersion: builtin, kind: PatchTransformer, metadata: {name: p}, path: \"https://example.com\"}\n",
			[]string{"t/l.yaml", "PatchTransformer p", "is remote"},
		},
		"patched plugin": {
			".",
			"-- kustomization.yaml --\ntransformers: [t]\n-- t/kustomization.yaml --\nresources: [l.yaml]\npatches: [{patch: \"[{op: add, path: /path, value: 'https://example.com'}]\", target: {kind: PatchTransformer}}]\n-- t/l.yaml --\n{apiVersion: builtin, kind: PatchTransformer, metadata: {name: p}}\n",
			[]string{"t/kustomization.yaml", "may only list resources"},
		},
		"inline after remote": {
			".",
			"-- kustomization.yaml --\ntransformers:\n- |-\n  github.com/o/r: x\n  apiVersion: v1\n  kind: List\n  items: []\n",
			[]string{"transformers[0]", "is remote"},
		},
		"bomb in kustomization": {
			".", "-- kustomization.yaml --\n" + bomb,
			[]string{"kustomization.yaml", "exceeds the limit"},
		},
		"bomb in resource": {
			".", "-- kustomization.yaml --\nresources: [a.txt]\n-- a.txt --\n" + bomb,
			[]string{"resources[0]", "a.txt", "exceeds the limit"},
		},
		"bomb in patch": {
			".", "-- kustomization.yaml --\npatches: [{path: a}]\n-- a --\n" + bomb,
			[]string{"patches[0].path", "exceeds the limit"},
		},
		"bomb inline": {".", "-- kustomization.yaml --\npatches:\n- patch: |\n  " +
			strings.ReplaceAll(inBomb, "\n", "\n  ") + "\n", []string{"patches[0].patch", "exceeds the limit"}},
		"bomb in old patch": {
			".", "-- kustomization.yaml --\npatchesStrategicMerge:\n- |\n" + inBomb,
			[]string{"patchesStrategicMerge[0]", "exceeds the limit"},
		},
		"bomb in generator": {
			".", "-- kustomization.yaml --\ngenerators:\n- |\n" + inBomb,
			[]string{"generators[0]", "exceeds the limit"},
		},
		"cyclic crds": {
			".",
			"-- kustomization.yaml --\ncrds: [c.yaml]\n-- c.yaml --\nA: {Schema: {properties: {kind: {}, apiVersion: {}, metadata: {}, a: {$ref: A}}}}\n",
			[]string{"crds[0]", "cycle"},
		},
		"empty crds": {
			".", "-- kustomization.yaml --\ncrds: [c.yaml]\n-- c.yaml --\n",
			[]string{"crds[0]", "is empty"},
		},
		"cyclic description": {
			".",
			"-- kustomization.yaml --\nopenapi: {path: s}\n-- s --\ndefinitions: {A: {$ref: '#/definitions/B'}, B: {$ref: '#/definitions/A'}}\n",
			[]string{"openapi.path", "cycle"},
		},
		"foreign description": {
			".",
			"-- kustomization.yaml --\nopenapi: {path: s}\n-- s --\ndefinitions: {A: {properties: {x: {$ref: 'https://example.com/a#/definitions/B'}}}}\n",
			[]string{"openapi.path", "#/definitions/<name>"},
		},
		"wide crds": {
			".", "-- kustomization.yaml --\ncrds: [c.yaml]\n-- c.yaml --\n" + wideTypes(),
			[]string{"crds[0]", "more than 10000 paths"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := errorOf(t, tree(c.files), c.root)
			for _, part := range c.want {
				if !strings.Contains(got, part) {
					t.Errorf("no %q in: %s", part, got)
				}
			}
		})
	}
}

func wideTypes() string {
	var out strings.Builder
	for i := range 20 {
		fmt.Fprintf(&out, "T%d: {Schema: {properties: {kind: {}, apiVersion: {}, metadata: {}, a: {$ref: T%d}, b: {$ref: T%d}}}}\n", i, i+1, i+1)
	}
	return out.String()
}

// The errors of a kustomization are reported together, each with its line.
func TestAllErrorsAtOnce(t *testing.T) {
	got := errorOf(t, tree("-- kustomization.yaml --\nresources:\n# missing.yaml stands here too\n- missing.yaml\n- https://example.com/a\nconfigMapGenerator:\n- name: c\n  files:\n  - key=missing.txt\n"), ".")
	for _, part := range []string{
		"kustomization.yaml:3: resources[0]", "kustomization.yaml:4: resources[1]",
		"kustomization.yaml:8: configMapGenerator[0].files[0]",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in: %s", part, got)
		}
	}
	if strings.Contains(got, ":2:") {
		t.Errorf("a comment is no reference: %s", got)
	}
	many := "-- kustomization.yaml --\nresources:\n" + strings.Repeat("- missing.yaml\n", 100_000)
	if got := errorOf(t, tree(many), "."); strings.Count(got, "\n") > 25 ||
		!strings.HasSuffix(got, "more errors follow") {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
}

func TestLinksAndSubmodules(t *testing.T) {
	good := fstest.MapFS{
		"app/kustomization.yaml":  {Data: []byte("resources: [a.yaml, ../base]\n")},
		"app/a.yaml":              {Data: []byte(configMap)},
		"base/kustomization.yaml": {Data: []byte("namePrefix: x\n")},
	}
	for name, c := range map[string]struct {
		path string
		file fstest.MapFile
		want string
	}{
		"file": {"app/a.yaml", fstest.MapFile{
			Mode: fs.ModeSymlink,
			Data: []byte("../base/kustomization.yaml"),
		}, "symbolic link app/a.yaml"},
		"directory": {"base", fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("app")}, "symbolic link base"},
		"submodule": {"base", fstest.MapFile{Mode: fs.ModeIrregular}, "submodule base"},
		"kustomization": {"app/kustomization.yaml", fstest.MapFile{
			Mode: fs.ModeSymlink,
			Data: []byte("../base/kustomization.yaml"),
		}, "symbolic link"},
		"dangling": {
			"app/a.yaml",
			fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("nowhere")},
			"symbolic link app/a.yaml",
		},
		"device": {"app/a.yaml", fstest.MapFile{Mode: fs.ModeDevice}, "does not exist"},
	} {
		tree := fstest.MapFS{}
		for file, data := range good {
			if !strings.HasPrefix(file, c.path+"/") {
				tree[file] = data
			}
		}
		tree[c.path] = &c.file
		_, err := kustomize.NewWalker(tree, manifest.DefaultBudget()).Closure("app")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if _, err := kustomize.NewWalker(good, manifest.DefaultBudget()).Closure("app"); err != nil {
		t.Error(err)
	}
}

// Has two wrong types in a file. The order of Go's maps differs each time.
func TestErrorsOfSchemasAreDeterministic(t *testing.T) {
	types := ""
	for i := range 8 {
		types += fmt.Sprintf("T%d: {Schema: {properties: {a: {$ref: T%d}}}}\n", i, i)
	}
	for file, want := range map[string]string{
		"crds: [c.yaml]\n-- c.yaml --\n" + types: `"T0"`,
		"openapi: {path: s}\n-- s --\ndefinitions: {A: {$ref: '#/definitions/A'}, B: {$ref: '#/definitions/B'}, C: {$ref: '#/definitions/C'}}\n": `"A"`,
		"openapi: {path: s}\n-- s --\ndefinitions: {A: {$ref: 'http://a'}, B: {$ref: 'http://b'}, C: {$ref: 'http://c'}}\n":                      `"http://a"`,
	} {
		for range 30 {
			if got := errorOf(t, tree("-- kustomization.yaml --\n"+file), "."); !strings.Contains(got, want) {
				t.Fatalf("no %s in: %s", want, got)
			}
		}
	}
}

func TestBundlesOfOddPaths(t *testing.T) {
	for _, name := range []string{"../a", "/a", "a//b", "", ".", "a/", "a\\b", "a/./b"} {
		_, err := kustomize.NewBuilder(manifest.DefaultBudget()).Build(t.Context(), []kustomize.File{{Path: name}}, ".")
		if err == nil || !strings.Contains(err.Error(), "not a valid path inside a bundle") {
			t.Errorf("%q: the error is %v", name, err)
		}
	}
	for _, names := range [][]string{{"a", "a"}, {"a", "a/b"}} {
		files := []kustomize.File{{Path: names[0]}, {Path: names[1]}}
		if _, err := kustomize.NewBuilder(manifest.DefaultBudget()).Build(t.Context(), files, "."); err == nil {
			t.Errorf("%q is taken", names)
		}
	}
}

// brokenTree fails to read.
type brokenTree struct{ fstest.MapFS }

var errDisk = errors.New("disk on fire")

func (b brokenTree) ReadFile(string) ([]byte, error) { return nil, errDisk }

func TestErrorsOfTheTreeStay(t *testing.T) {
	tree := brokenTree{fstest.MapFS{"kustomization.yaml": {}}}
	if _, err := kustomize.NewWalker(tree, manifest.DefaultBudget()).Closure("."); !errors.Is(err, errDisk) {
		t.Errorf("the error is %v", err)
	}
	blind := blindTree{mapFS(nil)}
	if _, err := kustomize.NewWalker(blind, manifest.DefaultBudget()).Closure("app"); !errors.Is(err, errDisk) {
		t.Errorf("the error is %v", err)
	}
}

// blindTree fails to look up.
type blindTree struct{ fstest.MapFS }

func (b blindTree) Lstat(string) (fs.FileInfo, error) { return nil, errDisk }
