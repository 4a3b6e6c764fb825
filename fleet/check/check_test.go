package check_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/fleet/check"
	"github.com/sluice-gitops/sluice/fleet/explain"
	"github.com/sluice-gitops/sluice/fleet/internal/fleettest"
)

// loader reads fleets as the callers of this package do.
func loader() fleet.Loader { return fleet.Loader{Warn: check.Effects} }

func mustLoad(tb testing.TB, files map[string]string) *fleet.Fleet {
	tb.Helper()
	f, problems := loader().Load(tb.Context(), fleettest.NewTree(files))
	if f == nil {
		tb.Fatalf("the fleet does not load:\n%v", problems)
	}
	return f
}

func TestCheckFindsWhatLoadDoesNotRead(t *testing.T) {
	f := mustLoad(t, fleettest.Tiny(map[string]string{
		"apps/web/layers/global/values.yaml":           "ok: 1\nbad: x-${cluster.vars.gone}\n",
		"apps/web/layers/cluster/a/values.yaml":        "a: [\n",
		"apps/web/layers/cluster/b/kustomization.yaml": "kind: Component\npatches:\n- path: p.yaml\n- patch: |-\n    - op: add\n      path: /x\n      value: ${cluster.vars.absent}\n",
		"apps/web/layers/cluster/b/p.yaml":             "kind: Deployment\n",
		"charts/web/Chart.yaml":                        "name: web\n", "k/text/kustomization.yaml": "resources: []\n",
		"apps/other/app.yaml": fleettest.Base +
			"kind: App\nmetadata: {name: other}\nspec:\n  namespace: other\n  placement: {}\n  source:\n    kustomize: {path: \"k/${cluster.vars.s}\"}\n",
	}))
	got := check.Targets(t.Context(), f)
	text := got.Error()
	for _, want := range []string{
		"apps/web/layers/global/values.yaml:2:6: error: ${cluster.vars.gone} is not set for cluster a",
		"; the same for cluster b",
		"apps/web/layers/cluster/a/values.yaml:",
		"apps/web/layers/cluster/b/kustomization.yaml:7:1: error: ${cluster.vars.absent} is not set for cluster b",
		"apps/other/app.yaml:8:23: error: ${cluster.vars.s} is not set for cluster b",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d problems:\n%s", len(got), text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if check.Targets(ctx, f).Err() == nil {
		t.Error("a check that was stopped must not pass")
	}
}

func TestCheckOfAGoodFleet(t *testing.T) {
	files := fleettest.Big()
	files["charts/web/Chart.yaml"] = "name: web\n"
	f := mustLoad(t, files)
	if p := check.Targets(t.Context(), f); len(p) != 0 {
		t.Error(p)
	}
}

func TestDemonstrationFleet(t *testing.T) {
	tree, ok := os.DirFS("../../testdata/fleet").(fleet.Tree)
	if !ok {
		t.Fatal("a directory is no tree")
	}
	f, problems := loader().Load(t.Context(), tree)
	if len(problems) > 0 || len(f.Targets()) == 0 {
		t.Fatalf("result is %+v", []fleet.Problem(problems))
	}
	if problems := check.Targets(t.Context(), f); len(problems) > 0 {
		t.Error(problems)
	}
}

func TestAppsInOneFolder(t *testing.T) {
	app := fleettest.Base + "kind: App\nmetadata: {name: %}\nspec: {namespace: n, placement: {}, source: {manifests: {path: m}}}\n"
	f, problems := loader().Load(t.Context(), fleettest.NewTree(fleettest.Tiny(map[string]string{
		"apps/web/app.yaml": strings.ReplaceAll(app, "%", "web") + "---\n" +
			strings.ReplaceAll(app, "%", "api"),
		"apps/web/layers/region/r1/kustomization.yaml": "kind: Component\n",
	})))
	if f == nil || !strings.Contains(problems[0].Message, "api and web are in one folder") {
		t.Error(problems)
	}
}

func TestCheckLooksForSources(t *testing.T) {
	app := func(source string) string {
		return fleettest.Base + "kind: App\nmetadata: {name: web}\nspec:\n  namespace: web\n  placement: {}\n  source:\n    " +
			source + "\n"
	}
	for source, want := range map[string]string{
		"helm: {path: charts/nope}":       "apps/web/app.yaml:8:18: error: source for cluster a: the folder charts/nope does not exist; the same for cluster b (write the path",
		"helm: {path: \"charts/${app}\"}": "apps/web/app.yaml:8:18: error: source for cluster a: there is no chart in charts/web: Chart.yaml is missing",
		"kustomize: {path: charts/web}":   "there is no kustomization.yaml in charts/web",
		"manifests: {path: nope}":         "the folder nope does not exist",
		"helm: {}":                        "apps/web/app.yaml:8:5: error: source for cluster a: there is no chart in apps/web",
	} {
		files := fleettest.Small()
		files["charts/web/templates/x.yaml"] = ""
		files["apps/web/app.yaml"] = app(source)
		if p := check.Targets(t.Context(), mustLoad(t, files)); !strings.Contains(p.Error(), want) {
			t.Errorf("%s: want %q, got\nthe error is\n%s", source, want, p.Error())
		}
	}
	files := fleettest.Small()
	files["charts/web/Chart.yaml"] = "name: web\n"
	if p := check.Targets(t.Context(), mustLoad(t, files)); p.Err() != nil {
		t.Error(p)
	}
}

func TestFilesThatNoLayerReads(t *testing.T) {
	files := fleettest.Small()
	files["clusters/c.yaml"] = strings.Replace(fleettest.Cluster("c", "stage", "base", "ap", ""), "stage", "prod", 1)
	files["sluice.yaml"] = strings.Replace(fleettest.FleetFile, "    - name: dev\n", "    - name: dev\n    - name: stage\n", 1)
	files["clusters/d.yaml"] = fleettest.Cluster("d", "stage", "base", "us", "")
	files["apps/web/layers/global/values.yml"] = "a: 1\n"
	files["apps/web/layers/region/us/value.yaml"] = "a: 1\n"
	files["apps/web/layers/region/us/values.extra.yaml"] = "a: 1\n"
	files["layers/environment/dev/values.yaml"] = "a: 1\n"
	files["layers/environment/prod/values.yaml"] = "a: 1\n"
	_, problems := loader().Load(t.Context(), fleettest.NewTree(files))
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

func TestSymlinkedValues(t *testing.T) {
	dir := t.TempDir()
	for name, text := range fleettest.Small() {
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
	f, problems := loader().Load(t.Context(), lstatTree{os.DirFS(dir).(fleet.Tree), dir})
	if f == nil {
		t.Fatal(problems)
	}
	if p := check.Targets(t.Context(), f); !strings.Contains(p.Error(),
		"apps/web/layers/global/values.yaml: error: apps/web/layers/global/values.yaml is a symbolic link, and this tree cannot read links") {
		t.Errorf("the error is %s", p.Error())
	}
}

// lstatTree reports links as a Git tree does.
type lstatTree struct {
	fleet.Tree
	dir string
}

func (l lstatTree) Stat(name string) (os.FileInfo, error) {
	return os.Lstat(filepath.Join(l.dir, name))
}

func TestLinksAreUsed(t *testing.T) {
	t.Parallel()
	f := mustLoad(t, fleettest.Linked())
	found := check.Targets(t.Context(), f)
	if found.Err() != nil {
		t.Fatalf("a fleet with links: %v", found)
	}
	for _, w := range found.Warnings() {
		if strings.Contains(w.File, "region") {
			t.Errorf("a link counts as unused: %v", w)
		}
	}
}

func TestLinksThatCannotBeFollowed(t *testing.T) {
	t.Parallel()
	const file = "apps/web/layers/global/values.yaml"
	for target, want := range map[string]string{
		"/etc/passwd":               `points to "/etc/passwd", which is outside the repository`,
		"../../../../../etc/passwd": `points to "../../../../../etc/passwd", which is outside the repository`,
		"nothing.yaml":              `points to "nothing.yaml", which does not exist: apps/web/layers/global/nothing.yaml is not in the repository`,
		"values.yaml":               "leads through more than 40 links",
		"..":                        "it is no file",
	} {
		files := fleettest.Small()
		files[file] = fleettest.LinkTo + target
		f := mustLoad(t, files)
		text := check.Targets(t.Context(), f).Error()
		if !strings.Contains(text, file+": error: ") || !strings.Contains(text, want) {
			t.Errorf("%s: the text is %s\nwant %s", target, text, want)
		}
		if !strings.Contains(want, "no file") && !strings.Contains(text, "the symbolic link "+file) {
			t.Errorf("%s: the message does not name the link: %s", target, text)
		}
	}
	files := fleettest.Linked()
	files["apps/web/app.yaml"] = strings.ReplaceAll(files["apps/web/app.yaml"], "charts/web", "linked/web")
	files["linked"] = fleettest.LinkTo + "charts"
	f := mustLoad(t, files)
	if p := check.Targets(t.Context(), f); !strings.Contains(p.Error(),
		"linked/web is behind a symbolic link, which is not followed: name charts/web") {
		t.Errorf("a source behind a link: %v", p)
	}
}

func TestCheckOfTheEverydayFormat(t *testing.T) {
	t.Parallel()
	if p := check.Targets(t.Context(), mustLoad(t, fleettest.Everyday())); p.Err() != nil {
		t.Errorf("a fleet without mistakes: %v", p)
	}
}

func TestCheckOfVersionsAndValues(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, text, want string }{
		"no version": {
			"versions/dev.yaml", "charts: {}\n",
			`versions/dev.yaml, which holds the version of chart web for cluster a: there is no version at "charts.web"`,
		},
		"no file":  {"versions/dev.yaml", "", "the file does not exist"},
		"no value": {"apps/web/layers/region/us/values.yaml", "x: 1\n", "no layer sets chartVersion"},
		"number": {
			"apps/web/layers/region/us/values.yaml", "chartVersion: 1.10\n",
			"must be a string: put it in quotes",
		},
		"duplicate key": {
			"apps/web/layers/region/us/values.yaml", "a: 1\nb: {c: 1, d: 2, c: 3}\n",
			"us/values.yaml:2:17: error: the key c is set twice, first in line 2",
		},
		"text is not values": {"teams/core/values.yaml", "text\n", "a values file must be a mapping"},
		"unset in a text": {
			"image-tags/dev/web", "v${cluster.vars.nope}\n",
			"image-tags/dev/web:1:2: error: ${cluster.vars.nope} is not set",
		},
	} {
		files := fleettest.Everyday()
		if files[c.file] = c.text; c.text == "" {
			delete(files, c.file)
		}
		if p := check.Targets(t.Context(), mustLoad(t, files)); !strings.Contains(p.Error(), c.want) {
			t.Errorf("%s: want %q, got\nthe error is\n%s", name, c.want, p.Error())
		}
	}
}

func TestEffects(t *testing.T) {
	t.Parallel()
	files := fleettest.Small()
	files["apps/web/layers/region/mars/values.yaml"] = "a: 1\n"
	files["apps/web/layers/planet/earth/values.yaml"] = "a: 1\n"
	files["apps/none/app.yaml"] = fleettest.Base +
		"kind: App\nmetadata: {name: none}\nspec: {namespace: n, placement: {optional: true, matchLabels: {region: moon}}, source: {manifests: {}}}\n"
	files["apps/none/layers/global/values.yaml"] = "a: 1\n"
	files["apps/web/layers/cluster/a/values.yaml"] = "a: 1\n"
	files["apps/web/layers/cluster/aa/values.yaml"] = "a: 1\n"
	files["sluice.yaml"] = strings.Replace(files["sluice.yaml"], "layers: [", "layers: [{name: orbit, optional: true}, ", 1)
	f, problems := loader().Load(t.Context(), fleettest.NewTree(files))
	if f == nil {
		t.Fatalf("the fleet does not load: %v", problems)
	}
	got := fmt.Sprint([]fleet.Problem(problems))
	for _, wrong := range []string{
		"cluster=a,", "cluster=a ", "orbit",
	} {
		if strings.Contains(got, wrong) {
			t.Errorf("%q is in %s", wrong, got)
		}
	}
	for _, want := range []string{
		"no cluster has region=mars", "no cluster has cluster=aa",
		"planet is not a layer", "app none is placed on no cluster",
		"app none has no Helm source",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
	if problems.Err() != nil {
		t.Error("warnings are no errors")
	}
}

// A folder of a layer that the storage cannot give is an error of the storage, not one of the fleet.
func TestEffectsOfAFaultOfTheStorage(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	tree := fleettest.NewTree(fleettest.Small())
	tree.Fail["apps/web/layers/region"] = lost
	f, problems := loader().Load(t.Context(), tree)
	err := problems.Err()
	if _, blamed := errors.AsType[fleet.Problems](err); f != nil || !errors.Is(err, lost) || blamed {
		t.Errorf("loaded: %t, got the error %v, want %v", f != nil, err, lost)
	}
}

// A fleet that moves to another commit has the warnings that it has if it is loaded there.
func TestEffectsOfMovedFleets(t *testing.T) {
	t.Parallel()
	moved, warned := 0, 0
	for _, files := range []map[string]string{fleettest.Small(), fleettest.Foreign(), fleettest.Linked()} {
		before, _ := loader().Load(t.Context(), fleettest.NewTree(files))
		for _, name := range []string{
			"apps/web/layers/region/eu/values.yaml", "apps/web/layers/region/nowhere/values.yaml",
			"apps/web/layers/region/us/value.yaml", "apps/web/layers/cluster/a/kustomization.yaml",
			"layers/region/eu/values.yaml", "layers/typo/eu/values.yaml", "fleet/layers/example.com/zone/z9/values.yaml",
			"README.md",
		} {
			after := maps.Clone(files)
			after[name] = "a: 1\n"
			edited, others := []string{name}, []string(nil)
			if _, had := files[name]; !had {
				edited, others = nil, edited
			}
			got, gotProblems := fleet.Moved(before, fleettest.NewTree(after), fleet.NewCache(), edited, others)
			_, want := loader().Load(t.Context(), fleettest.NewTree(after))
			if got == nil {
				continue // it is loaded
			}
			if moved++; len(want) > 0 {
				warned++
			}
			if fmt.Sprint([]fleet.Problem(gotProblems)) != fmt.Sprint([]fleet.Problem(want)) {
				t.Errorf("%s: got the warnings\n%v\nwant\n%v", name, []fleet.Problem(gotProblems), []fleet.Problem(want))
			}
		}
	}
	if moved < 10 || warned < 5 {
		t.Errorf("%d fleets moved, %d of them with warnings: the edits test too little", moved, warned)
	}
}

// A value that no chart reads is a warning at its place in the layer, with the name that the chart has.
func TestUnreadValues(t *testing.T) {
	t.Parallel()
	chart := func(template string) map[string]string {
		files := fleettest.Small()
		delete(files, "apps/web/layers/region/us/values.yaml")
		files["apps/web/layers/global/values.yaml"] = "host: x\n"
		files["apps/web/layers/environment/prod/values.yaml"] = "host: y\n# fewer\nreplica: 3\npod:\n  lables: {a: b}\n"
		files["charts/web/Chart.yaml"] = "name: web\n"
		files["charts/web/values.yaml"] = "host: ''\nreplicaCount: 1\n"
		files["charts/web/templates/a.yaml"] = template
		return files
	}
	const reads = "{{ .Values.replicaCount }}{{ .Values.pod.labels }}"
	other := fleettest.Base + "kind: App\nmetadata: {name: other}\nspec: {namespace: web, placement: {}, source: {helm: {path: charts/%s}}}\n"
	for name, c := range map[string]struct {
		template string
		files    map[string]string
		want     []string
	}{
		"misspelled": {reads, nil, []string{
			"apps/web/layers/environment/prod/values.yaml:3:1: warning: no template of the chart web reads the value replica, did you mean replicaCount? (correct it, or remove it)",
			"apps/web/layers/environment/prod/values.yaml:5:3: warning: no template of the chart web reads the value pod.lables, did you mean pod.labels? (correct it, or remove it)",
		}},
		"dynamic": {"{{ toYaml .Values }}", nil, nil},
		"read by another app": {reads, map[string]string{
			"sluice.yaml": strings.Replace(fleettest.FleetFile, "environment,",
				"{name: environment, values: [\"apps/web/layers/environment/${environment}/values.yaml\"]},", 1),
			"apps/other/app.yaml":           fmt.Sprintf(other, "other"),
			"charts/other/Chart.yaml":       "name: other\n",
			"charts/other/templates/x.yaml": "{{ .Values.replica }}{{ .Values.pod.lables }}",
		}, nil},
		"another chart is not here": {reads, map[string]string{
			"sluice.yaml": strings.Replace(fleettest.FleetFile, "environment,",
				"{name: environment, values: [\"apps/web/layers/environment/${environment}/values.yaml\"]},", 1),
			"apps/other/app.yaml": strings.Replace(fmt.Sprintf(other, "x"), "path: charts/x",
				"chart: x, repo: \"https://charts.example.com\", version: 1.0.0", 1),
		}, nil},
		"read by Sluice": {reads, map[string]string{
			"apps/web/layers/environment/prod/values.yaml": "host: y\n",
			"apps/web/layers/global/values.yaml":           "chartVersion: 1.0.0\n",
			"apps/web/app.yaml": fleettest.Base +
				"kind: App\nmetadata: {name: web}\nspec: {namespace: web, placement: {}, sources: [{helm: {path: charts/web}}, {name: b, helm: {chart: b, repo: \"https://x.example.com\", versionFrom: {value: chartVersion}}}]}\n",
		}, nil},
		"shared text": {reads, map[string]string{
			"apps/web/layers/environment/prod/values.yaml": "x-pod: {a: 1}\ncommon: &common {a: b}\npod: {labels: *common}\n",
		}, nil},
	} {
		files := chart(c.template)
		maps.Copy(files, c.files)
		f := mustLoad(t, files)
		var got []string
		for _, p := range check.UnreadValues(t.Context(), f, f.Targets(), check.OfTree(f), explain.Imported) {
			got = append(got, p.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the warnings are %q, want %q", name, got, c.want)
		}
	}
}

// Files that nearly have the place of one that is read are named, with the place that they should have.
func TestMisplacedFiles(t *testing.T) {
	t.Parallel()
	declaration := fleettest.Small()["apps/web/app.yaml"]
	for file, c := range map[string]struct{ text, want string }{
		"apps/web/layers/values.yaml": {"a: 1\n", "no layer reads values.yaml: a layer is a folder (move it to apps/web/layers/global/values.yaml, or into the folder of another layer)"},
		"layers/values.yaml":          {"a: 1\n", "(move it to layers/global/values.yaml, or into the folder of another layer)"},
		"apps/web/values.yaml":        {"a: 1\n", "no layer reads this file (move it to apps/web/layers/global/values.yaml)"},
		"apps/api/app.yml":            {declaration, "apps/*/app.yaml does not match this file (rename it to app.yaml)"},
		"apps/api/application.yaml":   {declaration, "(rename it to app.yaml)"},
		"apps/api.yaml":               {declaration, "(move it to apps/api/app.yaml)"},
		"clusters/c.yml":              {fleettest.Cluster("c", "dev", "edge", "eu", ""), "(rename it to c.yaml)"},
		"clusters/eu/c.yaml":          {fleettest.Cluster("c", "dev", "edge", "eu", ""), "(move it, or write spec.files.clusters: [clusters/**/*.yaml])"},
		// what other tools have there
		"apps/web/README.md":               {"text", ""},
		"apps/api/deployment.yaml":         {"kind: Deployment\n", ""},
		"clusters/eu/kustomization.yaml":   {"kind: Kustomization\n", ""},
		"apps/web/templates/x.yaml":        {"a: 1\n", ""},
		"apps/web/layers/README.md":        {"text", ""},
		"apps/web/layers/global/notes.txt": {"text", ""},
	} {
		files := fleettest.Small()
		files[file] = c.text
		got := ""
		for _, p := range mustProblems(t, files) {
			if p.File == file {
				got += p.String()
			}
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: the problem is %q, want %q", file, got, c.want)
		}
	}
	files := fleettest.Small()
	for name, text := range files {
		if rest, ok := strings.CutPrefix(name, "apps/web/layers/"); ok {
			delete(files, name)
			files["apps/web/layer/"+rest] = text
		}
	}
	if got := fmt.Sprint(mustProblems(t, files)); !strings.Contains(got, "apps/web/layer: warning: no layer reads this folder (rename it to layers)") {
		t.Errorf("a folder layer: the problems are %s", got)
	}
}

func mustProblems(t *testing.T, files map[string]string) []fleet.Problem {
	t.Helper()
	f, problems := loader().Load(t.Context(), fleettest.NewTree(files))
	if f == nil {
		t.Fatalf("the fleet does not load: %v", problems)
	}
	return problems
}
