package argocd

import (
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"

	"github.com/sluice-gitops/sluice/tools/gitops/fields"
)

// Each field of Argo CD's API, at any depth, is in the tables of docs/from-argocd.md as supported, refused or ignored,
// and each that is refused fails its Application or ApplicationSet with its name.
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
			fields.Names(reflect.TypeFor[v1alpha1.ApplicationSpec](), "sources", "source.kustomize.patches.target"),
			map[string]string{
				"source.targetRevision": source("targetRevision: v1"),
				"source.helm.valueFiles": app("  source: {repoURL: " + url +
					", path: chart, helm: {valueFiles: [\"https://example.com/values.yaml\"]}}\n"),
				"source.plugin": source("plugin: {name: x}"),
				"source.directory.jsonnet": app("  source: {repoURL: "+url+
					", path: jsonnet, directory: {jsonnet: {}}}\n") + "-- jsonnet/x.jsonnet --\n{}\n",
				"sourceHydrator": app("  sourceHydrator: {drySource: {}}\n"),
			},
		},
		{
			"ApplicationSet",
			slices.Concat(
				fields.Names(reflect.TypeFor[v1alpha1.ApplicationSetSpec](), "generators", "template.spec"),
				fields.Names(reflect.TypeFor[v1alpha1.ApplicationSetGenerator](), "list.template", "clusters.template",
					"git.template", "matrix.template", "merge.template", "matrix.generators", "merge.generators"),
			),
			map[string]string{
				"scmProvider": set("scmProvider"), "pullRequest": set("pullRequest"), "plugin": set("plugin"),
				"clusterDecisionResource": set("clusterDecisionResource"),
			},
		},
	} {
		table, err := fields.Read("../../../docs/from-argocd.md", c.heading)
		if err != nil {
			t.Fatal(err)
		}
		refused := map[string]bool{}
		for _, name := range c.fields {
			short := strings.TrimPrefix(name, "source.")
			if table.Of(short) == "" {
				t.Errorf("docs/from-argocd.md says nothing of the field %s of an %s", name, c.heading)
			}
			if table.Refuses(short) {
				refused[name] = true
			}
		}
		if got, want := slices.Sorted(maps.Keys(refused)), slices.Sorted(maps.Keys(c.refused)); !slices.Equal(got,
			want) {
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
			field := map[string]string{
				"source.targetRevision":    "the revision",
				"source.directory.jsonnet": "Jsonnet",
			}[name]
			if field == "" {
				field = name[strings.LastIndex(name, ".")+1:]
			}
			if err == nil || !strings.Contains(string(out), "argocd/refused.yaml:1: ") ||
				!strings.Contains(string(out), field) {
				t.Errorf("%s of an %s is not refused by name: %v\n%s", name, c.heading, err, out)
			}
		}
		t.Logf("%s: %d fields, %d refused", c.heading, len(c.fields), len(c.refused))
	}
}
