package renderer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// countObjects returns the number of objects in a stream, by a reader that shares nothing with package manifest. It
// counts the items of lists in place of the list, and neither empty documents nor empty lists.
func countObjects(t *testing.T, text []byte) int {
	t.Helper()
	count := 0
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc yaml.Node
		if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
			return count
		} else if err != nil {
			t.Fatalf("the text to count is no YAML: %v\n%s", err, text)
		}
		if len(doc.Content) > 0 {
			count += countIn(doc.Content[0])
		}
	}
}

func countIn(n *yaml.Node) int {
	if n.Tag == "!!null" || n.Kind == yaml.MappingNode && len(n.Content) == 0 {
		return 0
	}
	kind, items := "", (*yaml.Node)(nil)
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch n.Content[i].Value {
		case "kind":
			kind = n.Content[i+1].Value
		case "items":
			items = n.Content[i+1]
		}
	}
	if !strings.HasSuffix(kind, "List") {
		return 1
	}
	count := 0
	if items != nil {
		for _, item := range items.Content {
			count += countIn(item)
		}
	}
	return count
}

// randomDocument returns a document with objects and lists in many forms. Some of them are wrong. None has an empty
// list as an item, which Kustomize leaves out without a word; elsewhere it is an error.
func randomDocument(r *rand.Rand, next *int, depth int) string {
	name := func() string {
		*next++
		return fmt.Sprintf("n%d", *next)
	}
	metadata := func() string { // of a list
		return []string{"", ", metadata: {}", ", metadata: {resourceVersion: \"\"}", ", metadata: {name: " + name() +
			"}"}[r.IntN(4)]
	}
	items := func() string {
		if r.IntN(12) == 0 {
			return []string{"", ", items: ", ", items: {}", ", items: text", ", items: [text]", ", item: []"}[r.IntN(6)]
		}
		var out []string
		for range r.IntN(4) {
			out = append(out, randomDocument(r, next, depth+1))
		}
		return ", items: [" + strings.Join(out, ", ") + "]"
	}
	switch n := r.IntN(10); {
	case n < 3 && depth < 3:
		return "{apiVersion: v1, kind: List" + metadata() + items() + "}"
	case n == 3:
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMapList%s, items: [{metadata: {name: %s}}, {metadata: {name: %s}}]}", metadata(), name(), name())
	case n == 4:
		wrong := []string{
			"{}", "{apiVersion: v1, kind: ConfigMap, metadata: {name: }}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: \"\"}}", "{apiVersion: v1, kind: ConfigMap}",
			"{kind: A, metadata: {name: a}}", "{a: b}",
		}
		return wrong[r.IntN(len(wrong))]
	default:
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}", name())
	}
}

// TestNothingIsLost counts the objects of random documents and those of their rendering from each kind of source. A
// document may be an error, but it may not vanish.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	engine := NewEngine(DefaultLimits())
	const rounds = 400
	rendered := map[string]int{}
	for round := range rounds {
		r, next := rand.New(rand.NewPCG(uint64(round), 1)), 0
		var text strings.Builder
		for range 1 + r.IntN(3) {
			text.WriteString([]string{"---\n", "--- # c\n", "# c\n---\n", "---\n---\n"}[r.IntN(4)])
			text.WriteString([]string{"", "# c\n", "\n"}[r.IntN(3)] + randomDocument(r, &next, 0) + "\n")
		}
		data := []byte(text.String())
		files := func(with ...File) Content {
			return Content{Name: "x", Digest: text.String(), Files: append(with, File{"a.yaml", data})}
		}
		for name, s := range map[string]Source{
			"manifests": {Manifests: &ManifestsSource{Files: files()}},
			"kustomize": {Kustomize: &KustomizeSource{
				Root: "ROOT",
				Files: Content{Name: "x", Digest: text.String(), Files: []File{{
					"ROOT/kustomization.yaml",
					[]byte("resources: [a.yaml]\n"),
				}, {"ROOT/a.yaml", data}}},
			}},
			"helm": {Helm: &HelmSource{
				Release: "r", Values: []byte("{}"),
				Chart: chart(map[string]string{"a.yaml": text.String()}),
			}},
			"crds": {Helm: &HelmSource{
				Release: "r", Values: []byte("{}"), IncludeCRDs: true,
				Chart: files(File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}),
			}},
		} {
			if name == "crds" {
				s.Helm.Chart.Files[1].Path = "crds/a.yaml"
			}
			got, err := engine.Render(t.Context(), &Bundle{
				Namespace: "ns", KubeVersion: "1.33.0",
				Sources: []Source{s},
			})
			if err != nil {
				if !strings.Contains(err.Error(), "a.yaml") && !strings.HasPrefix(err.Error(),
					"kustomize build ROOT: result for ") {
					t.Errorf("%s: the error names neither the file nor the object: %v\n%s", name, err, data)
				}
				continue
			}
			rendered[name]++
			if want := countObjects(t, data); len(got.Objects)+len(got.Notes) != want {
				t.Errorf("%s: got %d objects and the notes %q, want %d objects of\n%s", name, len(got.Objects),
					got.Notes, want, data)
			}
		}
	}
	for _, name := range []string{"manifests", "kustomize", "helm", "crds"} {
		if rendered[name] < rounds/20 {
			t.Errorf("%s: only %d of %d texts are rendered: the test shows little", name, rendered[name], rounds)
		}
	}
	t.Logf("rendered: %v", rendered)
}

// TestNothingIsLostOfTheCorpus decodes every manifest of the real repositories.
func TestNothingIsLostOfTheCorpus(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(corpus); err != nil {
		t.Skipf("no corpus: %v", err)
	}
	files, objects := 0, 0
	err := filepath.WalkDir(corpus, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !isYAML(p) {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		got, err := manifest.Decode(data, manifest.DefaultBudget())
		if err != nil {
			//nolint:nilerr // no manifest: a kustomization, values, a template; the error names what is wrong
			return nil
		}
		if want := countObjects(t, data); len(got) != want {
			t.Errorf("%s: got %d objects, want %d", p, len(got), want)
		}
		files, objects = files+1, objects+len(got)
		return nil
	})
	if err != nil {
		t.Fatalf("reading the corpus: %v", err)
	}
	if objects < 1000 {
		t.Errorf("only %d objects in %d files are counted: the test shows little", objects, files)
	}
	t.Logf("%d objects in %d files", objects, files)
}

func TestHooksOfUnknownEventsAreNoted(t *testing.T) {
	t.Parallel()
	const hook = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, annotations: {helm.sh/hook: %s}}\n"
	b := helmBundle("{}", map[string]string{"a.yaml": fmt.Sprintf(hook, "a", "post-instal") + "---\n" +
		fmt.Sprintf(hook, "b", "test") + "---\n" + fmt.Sprintf(hook, "c", "post-install")})
	got := render(t, NewEngine(DefaultLimits()), b)
	if len(got.Objects) != 1 || got.Objects[0].ID.Name != "c" {
		t.Errorf("objects of a chart with three hooks: got %v, want Pod c", got.Objects)
	}
	if len(got.Notes) != 1 || !strings.HasPrefix(got.Notes[0], "Pod a from charts/x/templates/a.yaml is left out") {
		t.Errorf("notes of a chart with a hook of an unknown event: got %q", got.Notes)
	}
}
