package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// Missing charts, roots and folders are found without rendering, at the line that names them.
func TestCheckLooksForSources(t *testing.T) {
	app := func(source string) string {
		return base + "kind: App\nmetadata: {name: web}\nspec:\n  namespace: web\n  placement: {}\n  source:\n    " +
			source + "\n"
	}
	for source, want := range map[string]string{
		"helm: {path: charts/nope}":       "apps/web/app.yaml:8:18: error: source for cluster a: the folder charts/nope does not exist; the same for cluster b (write the path",
		"helm: {path: \"charts/${app}\"}": "apps/web/app.yaml:8:18: error: source for cluster a: there is no chart in charts/web: Chart.yaml is missing",
		"kustomize: {path: charts/web}":   "there is no kustomization.yaml in charts/web",
		"manifests: {path: nope}":         "the folder nope does not exist",
		"helm: {}":                        "apps/web/app.yaml:8:5: error: source for cluster a: there is no chart in apps/web",
	} {
		files := small()
		files["charts/web/templates/x.yaml"] = ""
		files["apps/web/app.yaml"] = app(source)
		if p := load(t, files).Check(t.Context()); !strings.Contains(p.Error(), want) {
			t.Errorf("%s: want %q, got\nthe error is\n%s", source, want, p.Error())
		}
	}
	files := small()
	files["charts/web/Chart.yaml"] = "name: web\n"
	if p := load(t, files).Check(t.Context()); p.Err() != nil {
		t.Error(p)
	}
}

func TestChartsOfAFleet(t *testing.T) {
	f := load(t, fleettest.Everyday())
	var got []string
	for _, c := range f.Charts() {
		var targets []string
		for _, target := range c.Targets {
			targets = append(targets, target.String())
		}
		got = append(got, strings.Join([]string{c.File, c.Chart, c.Version, strings.Join(targets, " ")}, ","))
		if c.Line == 0 {
			t.Errorf("no line for %+v", c)
		}
	}
	want := "apps/web/app.yaml,web,1.10,a/web; apps/plain/app.yaml,web,1.0.0,b/plain; apps/web/app.yaml,web,2.0.0,b/web"
	if strings.Join(got, "; ") != want {
		t.Errorf("the result is %s", strings.Join(got, "; "))
	}
}

func TestFilesThatNoLayerReads(t *testing.T) {
	files := small()
	files["clusters/c.yaml"] = strings.Replace(cluster("c", "stage", "base", "ap", ""), "stage", "prod", 1)
	files["sluice.yaml"] = strings.Replace(fleetYAML, "    - name: dev\n", "    - name: dev\n    - name: stage\n", 1)
	files["clusters/d.yaml"] = cluster("d", "stage", "base", "us", "")
	files["apps/web/layers/global/values.yml"] = "a: 1\n"
	files["apps/web/layers/region/us/value.yaml"] = "a: 1\n"
	files["apps/web/layers/region/us/values.extra.yaml"] = "a: 1\n"
	files["layers/environment/dev/values.yaml"] = "a: 1\n"
	files["layers/environment/prod/values.yaml"] = "a: 1\n"
	_, problems := Load(t.Context(), mapFS(files), NewCache())
	var text strings.Builder
	for _, p := range problems {
		text.WriteString(p.String() + "\n")
	}
	for _, want := range []string{
		"apps/web/layers/global/values.yml: warning: no layer reads values.yml (rename it to values.yaml)",
		"apps/web/layers/region/us/value.yaml: warning: no layer reads value.yaml",
		`apps/web/layers/region/us/values.extra.yaml: warning: app web has no Helm source "extra"`,
		"layers/environment/stage/values.yaml: warning: environment=stage has no values in this layer, though dev, prod have (add the file",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
}

// The message says what kind of file it is.
func TestSymlinkedValues(t *testing.T) {
	dir := t.TempDir()
	for name, text := range small() {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "apps/web/layers/global/values.yaml")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../region/us/values.yaml", link); err != nil {
		t.Fatal(err)
	}
	f, problems := Load(t.Context(), lstatTree{os.DirFS(dir).(Tree), dir}, NewCache())
	if f == nil {
		t.Fatal(problems)
	}
	if p := f.Check(t.Context()); !strings.Contains(p.Error(),
		"apps/web/layers/global/values.yaml: error: apps/web/layers/global/values.yaml is a symbolic link, and this tree cannot read links") {
		t.Errorf("the error is %s", p.Error())
	}
}

// lstatTree reports links as a Git tree does.
type lstatTree struct {
	Tree
	dir string
}

func (l lstatTree) Stat(name string) (os.FileInfo, error) {
	return os.Lstat(filepath.Join(l.dir, name))
}
