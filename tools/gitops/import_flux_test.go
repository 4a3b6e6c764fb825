package gitops

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/tools/gitops/fluxref"
)

// rendered returns Sluice's rendering of a cluster: for each app, objects by identity.
func rendered(t *testing.T, dir, cluster string) map[string]map[string]string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	c := exec.CommandContext(t.Context(), binary, "render", "--cluster", cluster, "--out", out, "-q")
	c.Dir = dir
	c.Env = append(os.Environ(), "HOME="+t.TempDir(), "SLUICE_OFFLINE=1")
	text, err := c.CombinedOutput() // a chart that cannot be fetched fails only its own target
	if err != nil && !strings.Contains(string(text), "could not be rendered") &&
		!strings.Contains(string(text), "cannot be rendered") {
		t.Logf("sluice render: %v\n%.2000s", err, text)
	}
	found := map[string]map[string]string{}
	err = filepath.WalkDir(out, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(out, name)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		app := path.Dir(filepath.ToSlash(rel))
		app = path.Base(app)
		if found[app] == nil {
			found[app] = map[string]string{}
		}
		id, content := identity(t, data)
		found[app][id] = content
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return found
}

// equalObjects compares the objects of a tool with Sluice's, and returns the number of equal objects. Sluice writes
// the namespace of every namespaced object; a tool leaves it to the API server, which takes that of the unit.
func equalObjects(t *testing.T, unit, namespace string, theirs, ours map[string]string) int {
	t.Helper()
	equal := 0
	left := maps.Clone(ours)
	for id, want := range theirs {
		at := id
		got, ok := left[at]
		if parts := strings.Split(id, "/"); !ok && parts[len(parts)-2] == "" {
			parts[len(parts)-2] = namespace
			if at = strings.Join(parts, "/"); left[at] != "" {
				got, ok = withoutNamespace(t, left[at]), true
			}
		}
		delete(left, at)
		switch {
		case !ok:
			t.Errorf("%s: the tool builds %s, Sluice does not", unit, id)
		case got != want:
			t.Errorf("%s: %s: Sluice renders\n%s\nthe tool builds\n%s", unit, id, got, want)
		default:
			equal++
		}
	}
	for id := range left {
		t.Errorf("%s: Sluice renders %s, the tool does not build it", unit, id)
	}
	return equal
}

func withoutNamespace(t *testing.T, text string) string {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	if m, ok := o["metadata"].(map[string]any); ok {
		delete(m, "namespace")
	}
	out, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// compareFlux compares a cluster of a repository. It leaves out units whose source is in another repository.
func compareFlux(t *testing.T, dir, cluster, root string) (units, equal int) {
	t.Helper()
	theirs := t.TempDir()
	if err := os.CopyFS(theirs, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	flux, err := fluxref.Build(t.Context(), fluxref.Options{Dir: theirs, Root: root})
	if err != nil {
		t.Fatal(err)
	}
	ours := rendered(t, dir, cluster)
	for name, want := range flux.Built {
		n := equalObjects(t, name, flux.Namespaces[name], contentsOf(t, want), ours[name])
		delete(ours, name)
		units, equal = units+1, equal+n
	}
	for name := range ours {
		t.Errorf("Sluice renders the app %s, which Flux does not build: %v", name, flux.Failed[name])
	}
	return units, equal
}

func corpus(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CORPUS")
	if dir == "" {
		dir = "../../../shared/corpus"
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the corpus of real repositories is not on this machine")
	}
	return dir
}

// For the Flux repositories of the corpus, every object of every Kustomization equals the build of Flux's libraries.
func TestImportEqualsFlux(t *testing.T) {
	dir := corpus(t)
	all := 0
	for _, c := range []struct {
		dir, cluster, root string
		units, objects     int // at least
	}{
		{"flux/bjw-s--home-ops", "main", "kubernetes/main/flux", 90, 266},
		{"kustomize/fluxcd--flux2-kustomize-helm-example", "production", "clusters/production", 4, 10},
		{"kustomize/fluxcd--flux2-kustomize-helm-example", "staging", "clusters/staging", 4, 10},
		{"kustomize/fluxcd--flux2-multi-tenancy", "production", "clusters/production", 4, 7},
		{"kustomize/fluxcd--flux2-multi-tenancy", "staging", "clusters/staging", 4, 7},
		{"kustomize/giantswarm--gitops-template", "mc-name", "management-clusters/MC_NAME", 6, 62},
	} {
		t.Run(c.dir+"/"+c.root, func(t *testing.T) {
			units, equal := compareFlux(t, filepath.Join(dir, c.dir), c.cluster, c.root)
			t.Logf("%d units, %d objects equal", units, equal)
			if units < c.units || equal < c.objects {
				t.Errorf("compared %d units and %d objects, want at least %d and %d", units, equal, c.units, c.objects)
			}
			all += equal
		})
	}
	t.Logf("%d objects compared", all)
	if all == 0 {
		t.Error("nothing was compared")
	}
}

// Compares small repositories, one for each field.
func TestImportFieldsEqualFlux(t *testing.T) {
	fixtures := sections(t, "testdata/import/flux.txt")
	base, all := fixtures["base"], 0
	delete(fixtures, "base")
	for name, text := range fixtures {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, dir, base+text)
			units, equal := compareFlux(t, dir, "prod", "clusters/prod")
			if units < 2 || equal < 2 {
				t.Errorf("compared %d units and %d objects", units, equal)
			}
			all += equal
		})
	}
	t.Logf("%d fixtures, %d objects compared", len(fixtures), all)
	if len(fixtures) < 30 || all == 0 {
		t.Errorf("%d fixtures, %d objects compared", len(fixtures), all)
	}
}

// sections reads a file of fixtures. A line `== NAME` begins a fixture, which is a txtar archive.
func sections(t *testing.T, name string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	at := ""
	for line := range strings.Lines(string(data)) {
		if next, ok := strings.CutPrefix(line, "== "); ok {
			at = strings.TrimSpace(next)
			if _, twice := out[at]; twice {
				t.Fatalf("%s: two fixtures are called %q", name, at)
			}
			out[at] = ""
			continue
		}
		out[at] += line
	}
	return out
}

func unpack(t *testing.T, dir, archive string) {
	t.Helper()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		full := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func contentsOf(t *testing.T, list []*fluxref.Object) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, o := range list {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		id, content := identity(t, text)
		out[id] = content
	}
	return out
}

// `sluice import --check` compares with the program that this module builds. It finds a difference and refuses to
// compare nothing.
func TestImportCheck(t *testing.T) {
	tools := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", tools,
		"./sluice-reference-flux").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	check := func(t *testing.T, dir, path string) (string, error) {
		t.Helper()
		c := exec.CommandContext(t.Context(), binary, "import", "--check")
		c.Dir = dir
		c.Env = append(os.Environ(), "HOME="+t.TempDir(), "SLUICE_OFFLINE=1", "PATH="+
			path+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := c.CombinedOutput()
		t.Logf("%s", out)
		return string(out), err
	}
	fixtures := sections(t, "testdata/import/flux.txt")
	dir := t.TempDir()
	unpack(t, dir, fixtures["base"]+fixtures["HelmRelease"])
	out, err := check(t, dir, tools)
	if err != nil || !strings.Contains(out, "0 differences") || !strings.Contains(out, "4 objects of 2 apps equal") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := check(t, dir, t.TempDir()); err == nil || !strings.Contains(out,
		"needs the program sluice-reference-flux in PATH") {
		t.Errorf("%v: %s", err, out)
	}
	// Each version of Flux renders with the Helm that it ships, and Sluice does the same. Numbers keep their types.
	typed := ""
	for version, want := range map[string]string{"": "v4.3", "2.8.0": "v4.3", "2.7.5": "v3.22"} {
		versions := t.TempDir()
		typed = versions
		unpack(t, versions, fixtures["base"]+fixtures["HelmRelease"])
		if version != "" { // sluice finds it
			unpack(t, versions, "-- install/gotk-components.yaml --\n# Flux Version: v"+version+"\n")
		}
		unpack(t, versions, "-- charts/web/templates/typed.yaml --\napiVersion: example.com/v1\nkind: Typed\nmetadata: {name: typed}\nspec: {helm: {{ .Capabilities.HelmVersion.Version }}, float: 3.0, whole: 3, text: \"3\", big: 18446744073709551615, small: 1e-3}\n")
		if out, err := check(t, versions, tools); err != nil || !strings.Contains(out, "5 objects of 2 apps equal, 0 differences") {
			t.Errorf("Flux %q: %v: %s", version, err, out)
		}
		if out := strings.Join(slices.Sorted(maps.Values(rendered(t, versions, "prod")["web.web"])), "\n"); !strings.Contains(out, want) {
			t.Errorf("Flux %q renders with another Helm than %s:\n%s", version, want, out)
		}
	}
	// Neither a ResourceSet nor what it brings is compared, and neither is a difference.
	set := t.TempDir()
	unpack(t, set, fixtures["base"]+fixtures["HelmRelease"]+
		"-- clusters/prod/set.yaml --\napiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {name: set, namespace: apps}\nspec:\n  inputs: [{tenant: a}]\n  resources:\n"+
		"  - {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {name: \"app-<< inputs.tenant >>\", namespace: flux-system}, spec: {path: ./app, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}}\n")
	out, err = check(t, set, tools)
	for _, want := range []string{
		"not compared  prod/app-a (clusters/prod/set.yaml:1): apps.set.rset brings it, which is not compared",
		"not compared  prod/apps.set.rset (clusters/prod/set.yaml:1): the Flux Operator builds it",
		"4 objects of 2 apps equal, 0 differences, 2 apps not compared",
	} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("no %q: %v: %s", want, err, out)
		}
	}
	// A target that neither side can build is no success.
	failing := t.TempDir()
	unpack(t, failing, fixtures["base"]+fixtures["HelmRelease"]+
		"-- clusters/prod/gone.yaml --\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: gone, namespace: flux-system}\nspec: {path: ./gone, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}\n")
	if out, err := check(t, failing, tools); err == nil || !strings.Contains(out,
		"cannot read   prod/gone (clusters/prod/gone.yaml:1): both sides fail") ||
		!strings.Contains(out, "1 app cannot be read") {
		t.Errorf("%v: %s", err, out)
	}
	// A float in place of an integer is a difference.
	floats := t.TempDir()
	script := "#!/bin/sh\nexec '" + filepath.Join(tools, "sluice-reference-flux") + "' | sed 's/\"whole\":3/\"whole\":3.0/'\n"
	if err := os.WriteFile(filepath.Join(floats, "sluice-reference-flux"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := check(t, typed, floats); err == nil || !strings.Contains(out, "is not equal") {
		t.Errorf("%v: %s", err, out)
	}
	// A program that answers something else than Flux builds.
	wrong := t.TempDir()
	script = "#!/bin/sh\nexec '" + filepath.Join(tools, "sluice-reference-flux") +
		"' | sed 's/\"kind\":\"Job\"/\"kind\":\"CronJob\"/'\n"
	if err := os.WriteFile(filepath.Join(wrong, "sluice-reference-flux"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := check(t, dir, wrong); err == nil || !strings.Contains(out, "CronJob") ||
		!strings.Contains(out, "2 differences") {
		t.Errorf("%v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(wrong, "sluice-reference-flux"),
		[]byte("#!/bin/sh\necho '{\"clusters\": {}}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	unpack(t, empty, "-- sluice.yaml --\napiVersion: sluice.dev/v1alpha1\nkind: Fleet\nmetadata: {name: fleet}\nspec: {environments: [{name: prod}], import: [{flux: {clusters: {}}}]}\n")
	if out, err := check(t, empty, wrong); err == nil || !strings.Contains(out, "nothing was compared") {
		t.Errorf("%v: %s", err, out)
	}
}
