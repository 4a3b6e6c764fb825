package argocd

import (
	"maps"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
)

var token = regexp.MustCompile("`([^`]+)`")

// documented returns what the table below a heading says of each field. A name without a dot is below the one before it with a dot, too:
// `install.crds`, `disableHooks`.
func documented(t *testing.T, page, heading string) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../../../docs/" + page)
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

// Each field of Argo CD's API is in the tables of docs/from-argocd.md as supported, refused or ignored, and each that is refused fails its
// Application or ApplicationSet with its name.
func TestFieldsOfArgoCDAreDocumented(t *testing.T) {
	app := func(spec string) string {
		return "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: refused, namespace: argocd}\nspec:\n  project: default\n  destination: {name: prod, namespace: ns}\n" + spec
	}
	source := func(fields string) string {
		return app("  source: {repoURL: " + url + ", path: plain, " + fields + "}\n")
	}
	set := func(generator string) string {
		return "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: refused, namespace: argocd}\nspec:\n  generators: [{" + generator + ": {}}]\n  template: {metadata: {name: a}, spec: {project: default, destination: {name: prod}, source: {repoURL: " + url + ", path: plain}}}\n"
	}
	base := sections(t)["base"]
	for _, c := range []struct {
		heading string
		fields  []string
		refused map[string]string // examples
	}{
		{
			"Application",
			fieldsOf(reflect.TypeFor[v1alpha1.ApplicationSpec](), "", "source", "source.helm", "source.kustomize", "source.directory", "destination"),
			map[string]string{
				"source.targetRevision":    source("targetRevision: v1"),
				"source.helm.valueFiles":   app("  source: {repoURL: " + url + ", path: chart, helm: {valueFiles: [\"https://example.com/values.yaml\"]}}\n"),
				"source.plugin":            source("plugin: {name: x}"),
				"source.directory.jsonnet": app("  source: {repoURL: "+url+", path: jsonnet, directory: {jsonnet: {}}}\n") + "-- jsonnet/x.jsonnet --\n{}\n",
				"sourceHydrator":           app("  sourceHydrator: {drySource: {}}\n"),
			},
		},
		{
			"ApplicationSet",
			slices.Concat(
				fieldsOf(reflect.TypeFor[v1alpha1.ApplicationSetSpec](), ""), fieldsOf(reflect.TypeFor[v1alpha1.ApplicationSetGenerator](), ""), fieldsOf(reflect.TypeFor[v1alpha1.ListGenerator](), ""),
				fieldsOf(reflect.TypeFor[v1alpha1.ClusterGenerator](), ""), fieldsOf(reflect.TypeFor[v1alpha1.GitGenerator](), ""), fieldsOf(reflect.TypeFor[v1alpha1.MergeGenerator](), ""),
			),
			map[string]string{
				"scmProvider": set("scmProvider"), "pullRequest": set("pullRequest"), "plugin": set("plugin"), "clusterDecisionResource": set("clusterDecisionResource"),
			},
		},
	} {
		said := documented(t, "from-argocd.md", c.heading)
		refused := map[string]bool{}
		for _, name := range c.fields {
			short := strings.TrimPrefix(name, "source.")
			text := said[short]
			if text == "" {
				t.Errorf("docs/from-argocd.md says nothing of the field %s of an %s", name, c.heading)
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
			unpack(t, dir, base+"-- argocd/refused.yaml --\n"+text)
			initialize(t, dir)
			cmd := exec.CommandContext(t.Context(), binary, "import")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+t.TempDir(), "SLUICE_OFFLINE=1")
			out, err := cmd.CombinedOutput()
			// The message names the field, or what its value is.
			field := map[string]string{"source.targetRevision": "the revision", "source.directory.jsonnet": "Jsonnet"}[name]
			if field == "" {
				field = name[strings.LastIndex(name, ".")+1:]
			}
			if err == nil || !strings.Contains(string(out), "argocd/refused.yaml:1: ") || !strings.Contains(string(out), field) {
				t.Errorf("%s of an %s is not refused by name: %v\n%s", name, c.heading, err, out)
			}
		}
		t.Logf("%s: %d fields, %d refused", c.heading, len(c.fields), len(c.refused))
	}
}
