// Package hostile reads the tables of testdata/hostile: cases of hostile input with their expected outcome. The tests
// that run the cases import it; no released program does.
package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// Head is what every case has. A case sets exactly one outcome, with the keys of its table.
type Head struct {
	Name  string `yaml:"name"`
	Class string `yaml:"class"` // one of Classes
}

// Class is a kind of attack.
type Class struct{ Name, Meaning string }

// Classes returns the classes in the order of the documentation.
func Classes() []Class {
	return []Class{
		{"paths", "files outside of what a case may read or write"},
		{"archives", "packed charts"},
		{"git", "Git trees, links, refs and objects"},
		{"fetching", "answers of chart repositories and registries, internal addresses, proxies"},
		{"credentials", "redirects and servers that want credentials, and what repeats them"},
		{"templates", "charts and Kustomize roots that loop, allocate, reach out or are malformed"},
		{"yaml", "YAML and JSON that grows or nests"},
		{"rego", "policies in Rego"},
		{"cel", "policies in CEL"},
		{"regexp", "regular expressions"},
		{"schema", "schemas"},
		{"diff", "changes that are expensive to compare or to report"},
		{"text", "text that tries to become markup, a mention, a log line or a workflow command"},
		{"webhooks", "requests to the webhook's address"},
		{"configuration", "configuration that widens rights, policy, trust, places or limits"},
		{"history", "rewritten, unrelated and forged history"},
		{"heads", "several merge requests of one commit"},
		{"commands", "commands that are quoted, edited, or come from people without the right"},
		{"approvals", "approvals before and after a new commit"},
	}
}

// Load reads a table, strictly, into a pointer to a slice of cases.
func Load(file string, into any) error {
	data, err := os.ReadFile(file) //nolint:gosec // a file of the repository
	if err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// Row is a case as the documentation lists it.
type Row struct {
	Head    `yaml:",inline"`
	Table   string         `yaml:"-"` // the file without its extension
	Outcome string         `yaml:"-"`
	Rest    map[string]any `yaml:",inline"`
}

// Rows reads all tables of a folder. A case without a name, a class of Classes and exactly one outcome is an error, and
// so is a name that two cases of one table share.
func Rows(dir string) ([]Row, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, c := range Classes() {
		known[c.Name] = true
	}
	var out []Row
	var problems []error
	for _, file := range files {
		var rows []Row
		if err := Load(file, &rows); err != nil {
			return nil, err
		}
		table := strings.TrimSuffix(filepath.Base(file), ".yaml")
		names := map[string]bool{}
		for _, r := range rows {
			r.Table = table
			var outcomes []string
			for _, o := range []string{"refused", "contained", "harmless", "commands"} {
				if value, ok := r.Rest[o]; ok && value != false && value != nil {
					outcomes = append(outcomes, o)
				}
			}
			if r.Name == "" || !known[r.Class] || len(outcomes) != 1 || names[r.Name] {
				problems = append(problems, fmt.Errorf("%s: case %q: class %q, outcomes %q, name used before: %t", file,
					r.Name, r.Class, outcomes, names[r.Name]))
				continue
			}
			names[r.Name] = true
			if r.Outcome = outcomes[0]; r.Outcome == "commands" {
				r.Outcome = "harmless"
			}
			out = append(out, r)
		}
	}
	return out, errors.Join(problems...)
}

// Expand executes a text as a template with the delimiters <% %>, so that a short case can describe a large input.
func Expand(text string) (string, error) {
	if !strings.Contains(text, "<%") {
		return text, nil
	}
	tmpl, err := template.New("").Delims("<%", "%>").Funcs(functions()).Parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = tmpl.Execute(&out, nil)
	return out.String(), err
}

func functions() template.FuncMap {
	return template.FuncMap{
		"repeat":    func(n int, s string) string { return strings.Repeat(s, n) },
		"numbered":  numbered,
		"head":      func() string { return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n" },
		"component": func() string { return "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n" },
		"bomb":      bomb,
		"doubling":  doubling,
		"app": func() string {
			return fleetKind("App", "evil") + "spec:\n  namespace: evil\n  placement: {}\n  source:\n    "
		},
		"cluster": func(name string) string {
			return fleetKind("Cluster", name) + "spec:\n  environment: dev\n  class: core\n"
		},
		"fleet":  func() string { return fleet("main", "class, environment, region, cluster") },
		"trunk":  func(branch string) string { return fleet(branch, "class, environment, region, cluster") },
		"layers": func(layer string) string { return fleet("main", layer) },
		"lock": func(repo string) string {
			return fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: Lock\ncharts:\n  - {chart: web, repo: %q, version: 1.0.0, resolved: 1.0.0, digest: \"sha256:%s\"}\n", repo, strings.Repeat("0", 64))
		},
		"admission": func() string {
			return "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: evil}\nspec:\n  matchConstraints: {resourceRules: [{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}\n  validations:\n"
		},
		"crd": func() string {
			return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: evils.evil.example.com}\nspec:\n  group: evil.example.com\n  names: {kind: Evil, plural: evils}\n  scope: Namespaced\n  versions:\n    - name: v1\n      served: true\n      storage: true\n      schema:\n        openAPIV3Schema: "
		},
		"exempt": func() string {
			return "apiVersion: sluice.dev/v1alpha1\nkind: Exemption\nmetadata: {name: mine}\nspec: {rule: plaintext-secret, object: \"*\", reason: mine}\n"
		},
	}
}

func fleetKind(kind, name string) string {
	return fmt.Sprintf("apiVersion: sluice.dev/v1alpha1\nkind: %s\nmetadata: {name: %q}\n", kind, name)
}

// fleet is the fleet of the tests, open at the end of its list of environments.
func fleet(trunk, layers string) string {
	return fleetKind("Fleet", "harbour") + fmt.Sprintf(`spec:
  trunk: %s
  layers: [%s]
  environments:
    - name: dev
    - name: staging
    - name: prod
      after: [staging]
      promotion: {mode: manual}
`, trunk, layers)
}

// numbered repeats a text with @ replaced by 0, 1, 2, ….
func numbered(n int, s string) string {
	var out strings.Builder
	for i := range n {
		out.WriteString(strings.ReplaceAll(s, "@", fmt.Sprint(i)))
	}
	return out.String()
}

// bomb is n+1 levels of aliases, each ten times the level before.
func bomb(n int) string {
	var out strings.Builder
	out.WriteString("b0: &b0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range n {
		aliases := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*b%d, ", i), 10), ", ")
		fmt.Fprintf(&out, "b%d: &b%d [%s]\n", i+1, i+1, aliases)
	}
	return out.String()
}

// doubling is definitions of a schema, each of which refers to the next one twice.
func doubling(n int) string {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprintf(`"d%d": {"allOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]}`, i,
			i+1, i+1))
	}
	return strings.Join(append(parts, fmt.Sprintf(`"d%d": {}`, n)), ", ")
}
