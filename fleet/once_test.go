package fleet

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

func errorsOf(t *testing.T, files map[string]string) Problems {
	t.Helper()
	var out Problems
	for _, p := range problemsOf(t, files) {
		if p.Severity == SeverityError {
			out = append(out, p)
		}
	}
	return out
}

// A consequence of a reported error is not reported again.
func TestOneMistakeIsOneProblem(t *testing.T) {
	classes := base + "kind: ClusterClass\nmetadata: {name: edge}\nspec: {kubeVersio: 1.33.2}\n"
	inEdge := base + "kind: Cluster\nmetadata: {name: %}\nspec: {environment: dev, class: edge}\n"
	for name, files := range map[string]map[string]string{
		"unknown key in a class": tiny(map[string]string{
			"clusters/classes.yaml": classes,
			"clusters/c.yaml":       strings.ReplaceAll(inEdge, "%", "c"),
			"clusters/d.yaml":       strings.ReplaceAll(inEdge, "%", "d"),
		}),
		"classes are no YAML": tiny(map[string]string{
			"clusters/classes.yaml": "a: [\n",
			"clusters/c.yaml":       strings.ReplaceAll(inEdge, "%", "c"),
			"clusters/d.yaml":       strings.ReplaceAll(inEdge, "%", "d"),
		}),
		"a class without apiVersion": tiny(map[string]string{
			"clusters/classes.yaml": "kind: ClusterClass\nmetadata: {name: edge}\nspec: {}\n",
			"clusters/c.yaml":       strings.ReplaceAll(inEdge, "%", "c"),
		}),
		"unknown key in the fleet": tiny(map[string]string{"sluice.yaml": base +
			"kind: Fleet\nmetadata: {name: tiny}\nspec:\n  layer: [region]\n  environments: [{name: dev}]\n"}),
		"environments are no list": tiny(map[string]string{"sluice.yaml": base +
			"kind: Fleet\nmetadata: {name: tiny}\nspec:\n  layers: [region]\n  environments: {name: dev}\n"}),
		"environment is missing": tiny(map[string]string{"clusters/a.yaml": base +
			"kind: Cluster\nmetadata: {name: a, labels: {region: r1}}\nspec: {}\n"}),
		"no source kind": tiny(map[string]string{"apps/web/app.yaml": base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, source: {helmm: {path: c}}}\n"}),
		"bool as layer": tiny(map[string]string{"sluice.yaml": base +
			"kind: Fleet\nmetadata: {name: tiny}\nspec:\n  layers: [true]\n  environments: [{name: dev}]\n"}),
		"null as layer": tiny(map[string]string{"sluice.yaml": base +
			"kind: Fleet\nmetadata: {name: tiny}\nspec:\n  layers: [null]\n  environments: [{name: dev}]\n"}),
	} {
		if got := errorsOf(t, files); len(got) != 1 {
			t.Errorf("%s: %d problems\n%s", name, len(got), got.Error())
		}
	}
}

// An error in one file does not hide errors in another.
func TestEveryFileIsJudgedAtOnce(t *testing.T) {
	got := errorsOf(t, tiny(map[string]string{
		"sluice.yaml": base +
			"kind: Fleet\nmetadata: {name: tiny}\nspec:\n  layer: [region]\n  environments: [{name: dev}, {name: dev}]\n",
		"clusters/a.yaml": base + "kind: Cluster\nmetadata: {name: a}\nspec: {environment: dve, stat: active}\n",
		"clusters/b.yaml": "a: [\n",
		"apps/web/app.yaml": base +
			"kind: App\nmetadata: {name: web}\nspec: {namespace: web, placemnt: {}, source: {manifests: {path: ../x}}}\n",
	}))
	text := got.Error()
	for _, want := range []string{
		"unknown key spec.layer, did you mean layers?", "the environment dev appears twice",
		`the environment "dve" does not exist, did you mean dev?`,
		"unknown key spec.stat, did you mean state?", "clusters/b.yaml:",
		"unknown key spec.placemnt, did you mean placement?",
		"leaves the repository",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// If clusters cannot be listed, the fleet is invalid; the clusters do not count as removed.
func TestUnreadableFolder(t *testing.T) {
	for _, dir := range []string{"clusters", "apps", "apps/web"} {
		tree := fleettest.NewTree(tiny(nil))
		tree.Fail[dir] = errors.New("object is missing")
		if f, p := Load(t.Context(), tree, NewCache()); f != nil || p.Err() == nil {
			t.Errorf("%s: loaded without it: %v", dir, p)
		}
	}
}

func TestForeignFileSaysWhatToChange(t *testing.T) {
	for name, text := range map[string]string{
		"another kind": "apiVersion: v1\nkind: ConfigMap\n", "values": "replicas: 1\n", "a list": "- a\n",
		"a scalar": "text\n",
	} {
		got := errorsOf(t, tiny(map[string]string{"clusters/x.yaml": text}))
		if len(got) != 1 || !strings.Contains(got[0].Hint, "spec.files") {
			t.Errorf("%s: the result of errorsOf is %v", name, got)
		}
	}
}

func TestLoadWithoutCache(t *testing.T) {
	if f, p := Load(t.Context(), fleettest.NewTree(tiny(nil)), nil); f == nil {
		t.Error(p)
	}
}

func TestFoldersThatAreMissing(t *testing.T) {
	files := tiny(map[string]string{"apps/web/app.yaml": ""})
	f, p := Load(t.Context(), fleettest.NewTree(files), NewCache())
	if f == nil || !slices.ContainsFunc(p, func(x Problem) bool {
		return x.Severity == SeverityWarning && strings.Contains(x.Message, "no file matches apps/*/app.yaml")
	}) {
		t.Errorf("without apps: the fleet loads: %t, the problems are %v, want a warning", f != nil, []Problem(p))
	}
}

// Links are not followed, and do not affect other files.
func TestLinksOnDisk(t *testing.T) {
	dir := t.TempDir()
	for name, text := range tiny(map[string]string{"sluice.yaml": base +
		"kind: Fleet\nmetadata: {name: tiny}\nspec:\n  files: {clusters: ['clusters/**/*.yaml']}\n  layers: [region]\n  environments: [{name: dev}]\n"}) {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o750),
			os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("nowhere", filepath.Join(dir, "clusters/dangling")),
		os.Symlink("..", filepath.Join(dir, "clusters/up"))); err != nil {
		t.Fatal(err)
	}
	tree, ok := os.DirFS(dir).(Tree)
	if !ok {
		t.Fatal("a directory is no tree")
	}
	f, p := Load(t.Context(), tree, NewCache())
	if f == nil || len(f.Clusters) != 2 {
		t.Fatal(p)
	}
	if err := os.Symlink("a.yaml", filepath.Join(dir, "clusters/link.yaml")); err != nil {
		t.Fatal(err)
	}
	if f, p := Load(t.Context(), tree, NewCache()); f != nil {
		t.Errorf("a link was read as a cluster: %v", p)
	}
}
