package gitops

import (
	"maps"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
)

var token = regexp.MustCompile("`([^`]+)`")

// documented returns what the table below a heading says of each field. A name without a dot is below the one before it with a dot, too:
// `install.crds`, `disableHooks`.
func documented(t *testing.T, page, heading string) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(data), "\n### "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %s", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n### ")
	out := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		parent := ""
		for _, m := range token.FindAllStringSubmatch(cells[1], -1) {
			name, _, _ := strings.Cut(m[1], ":")
			if at := strings.LastIndex(name, "."); at > 0 {
				parent = name[:at+1]
			} else if parent != "" {
				out[parent+name] += cells[2]
			}
			out[name] += cells[2]
		}
	}
	return out
}

// fieldsOf returns the names of a type's fields in JSON. It goes into the fields that nested names.
func fieldsOf(t reflect.Type, prefix string, nested ...string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	var out []string
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case strings.Contains(options, "inline"):
			out = append(out, fieldsOf(f.Type, prefix, nested...)...)
		case slices.Contains(nested, prefix+name):
			out = append(out, fieldsOf(f.Type, prefix+name+".", nested...)...)
		default:
			out = append(out, prefix+name)
		}
	}
	return out
}

// Each field of Flux's API is in the table of docs/from-flux.md as supported, refused or ignored, and each that is refused fails its target
// with its name.
func TestFieldsOfFluxAreDocumented(t *testing.T) {
	const kustomization = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: app, namespace: flux-system}\nspec:\n  path: ./app\n  prune: true\n  sourceRef: {kind: GitRepository, name: flux-system}\n"
	const release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: app, namespace: web}\nspec:\n  chart: {spec: {chart: web, version: 1.0.0, sourceRef: {kind: HelmRepository, name: charts}}}\n"
	const repository = "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: charts, namespace: web}\nspec: {url: \"https://charts.example.com\"}\n"
	base := sections(t, "testdata/import/flux.txt")["base"]
	for _, c := range []struct {
		heading string
		fields  []string
		refused map[string]string // examples
	}{
		{"Kustomization", fieldsOf(reflect.TypeFor[kustomizev1.KustomizationSpec](), "", "postBuild"), map[string]string{
			"kubeConfig": kustomization + "  kubeConfig: {secretRef: {name: x}}\n",
		}},
		{"HelmRelease", fieldsOf(reflect.TypeFor[helmv2.HelmReleaseSpec](), "", "chart", "chart.spec", "install"), map[string]string{
			"kubeConfig":             release + "  kubeConfig: {secretRef: {name: x}}\n" + repository,
			"valuesFrom":             release + "  valuesFrom: [{kind: Secret, name: v}]\n" + repository + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: v, namespace: web}\nstringData: {values.yaml: \"ENC[AES256_GCM,data:x]\"}\nsops: {mac: x}\n",
			"postRenderStrategy":     release + "  postRenderStrategy: nohooks\n  commonMetadata: {labels: {a: b}}\n" + repository,
			"chart.spec.valuesFiles": strings.Replace(release, "version: 1.0.0", "version: 1.0.0, valuesFiles: [x.yaml]", 1) + repository,
		}},
	} {
		said := documented(t, "from-flux.md", c.heading)
		refused := map[string]bool{}
		for _, name := range c.fields {
			text, ok := said[name]
			if !ok {
				text = said[name[strings.LastIndex(name, ".")+1:]] // chart.spec.x is called x
			}
			if text == "" {
				t.Errorf("docs/from-flux.md says nothing of the field %s of a %s", name, c.heading)
			}
			if strings.Contains(text, "refused") {
				refused[name] = true
			}
		}
		if got, want := slices.Sorted(maps.Keys(refused)), slices.Sorted(maps.Keys(c.refused)); !slices.Equal(got, want) {
			t.Errorf("%s: the table refuses %v, the examples are of %v", c.heading, got, want)
		}
		for name, text := range c.refused {
			dir := t.TempDir()
			unpack(t, dir, base+"-- clusters/prod/refused.yaml --\n"+text)
			cmd := exec.CommandContext(t.Context(), binary, "import")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+t.TempDir(), "SLUICE_OFFLINE=1")
			out, err := cmd.CombinedOutput()
			if field := name[strings.LastIndex(name, ".")+1:]; err == nil || !strings.Contains(string(out), "clusters/prod/refused.yaml:1: ") || !strings.Contains(string(out), field) {
				t.Errorf("%s of a %s is not refused by name: %v\n%s", name, c.heading, err, out)
			}
		}
		t.Logf("%s: %d fields, %d refused", c.heading, len(c.fields), len(c.refused))
	}
}
