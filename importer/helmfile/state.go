package helmfile

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	sigs "sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// document is what `helmfile build` prints for one helmfile.
type document struct {
	source string // the helmfile's path where it was built; "" if the text does not say
	line   int    // of the document in the file
	state  spec
	fields map[string]any
}

// spec has the fields of helmfile's HelmState that Sluice reads.
type spec struct {
	KubeContext        string       `json:"kubeContext"`
	Namespace          string       `json:"namespace"`
	APIVersions        []string     `json:"apiVersions"`
	KubeVersion        string       `json:"kubeVersion"`
	MissingFileHandler string       `json:"missingFileHandler"`
	Repositories       []repository `json:"repositories"`
	HelmDefaults       defaults     `json:"helmDefaults"`
	Environments       map[string]struct {
		KubeContext string `json:"kubeContext"`
	} `json:"environments"`
	Releases []release `json:"releases"`
}

type defaults struct {
	KubeContext          string `json:"kubeContext"`
	SkipCRDs             bool   `json:"skipCRDs"`
	SkipSchemaValidation bool   `json:"skipSchemaValidation"`
	Devel                bool   `json:"devel"`
}

// repository is a chart repository by the name that charts refer to.
type repository struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	OCI  bool   `json:"oci"`
}

// release has the fields of helmfile's ReleaseSpec that Sluice reads.
type release struct {
	Name                  string     `json:"name"`
	Namespace             string     `json:"namespace"`
	Chart                 string     `json:"chart"`
	Version               string     `json:"version"`
	KubeContext           string     `json:"kubeContext"`
	APIVersions           []string   `json:"apiVersions"`
	KubeVersion           string     `json:"kubeVersion"`
	Installed             *bool      `json:"installed"`
	Condition             any        `json:"condition"` // a path of the environment's values, or true or false
	Devel                 *bool      `json:"devel"`
	SkipSchemaValidation  *bool      `json:"skipSchemaValidation"`
	MissingFileHandler    string     `json:"missingFileHandler"`
	ValuesPathPrefix      string     `json:"valuesPathPrefix"`
	Values                []any      `json:"values"`
	Secrets               []any      `json:"secrets"`
	Set                   []setValue `json:"set"`
	SetString             []setValue `json:"setString"`
	Needs                 []string   `json:"needs"`
	JSONPatches           []any      `json:"jsonPatches"`
	StrategicMergePatches []any      `json:"strategicMergePatches"`
	Hooks                 []hook     `json:"hooks"`

	line        int
	environment string
	fields      map[string]any
}

type setValue struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	File   string `json:"file"`
	Values []any  `json:"values"`
}

type hook struct {
	Name    string   `json:"name"`
	Events  []string `json:"events"`
	Command string   `json:"command"`
}

const (
	separator = "---"
	sourceTag = "#  Source: " // as helmfile prints it
)

// yamlLine is the line in an error of the YAML reader.
var yamlLine = regexp.MustCompile(`\bline (\d+): `)

// parse reads the documents of a state.
func parse(s State, environment string) ([]document, error) {
	if err := manifest.Check(s.Data, manifest.DefaultBudget()); err != nil {
		return nil, fmt.Errorf("%s: %w", s.File, err)
	}
	var out []document
	var text bytes.Buffer
	var source string
	first := 1
	flush := func() error {
		defer text.Reset()
		if strings.TrimSpace(text.String()) == "" {
			return nil
		}
		doc, err := decode(text.Bytes(), first)
		if err != nil {
			line, text := first, err.Error()
			if m := yamlLine.FindStringSubmatch(text); m != nil { // it counts from the document
				n, _ := strconv.Atoi(m[1]) // digits
				line = first + n - 1
				text = strings.Replace(text, m[0], "", 1)
			}
			return fmt.Errorf("%s:%d: %s (give it the output of `helmfile build`)", s.File, line, text)
		}
		doc.source = source
		for i := range doc.state.Releases {
			doc.state.Releases[i].environment = environment
		}
		if doc.fields != nil {
			out = append(out, doc)
		}
		return nil
	}
	for n, line := range strings.Split(string(s.Data), "\n") {
		if strings.TrimRight(line, " \r") == separator {
			if err := flush(); err != nil {
				return nil, err
			}
			source, first = "", n+2
			continue
		}
		if rest, ok := strings.CutPrefix(line, sourceTag); ok {
			source = strings.TrimSpace(rest)
		}
		text.WriteString(line + "\n")
	}
	if err := flush(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no state (give it the output of `helmfile build`)", s.File)
	}
	return out, nil
}

// decode reads a document that begins at a line of its file. A document of comments has no fields.
func decode(text []byte, first int) (document, error) {
	doc := document{line: first}
	if err := sigs.Unmarshal(text, &doc.fields); err != nil {
		return doc, err
	}
	if err := sigs.Unmarshal(text, &doc.state); err != nil {
		return doc, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return doc, err
	}
	lines := releaseLines(&root)
	list, _ := doc.fields["releases"].([]any) // doc.state has decoded it
	for i := range doc.state.Releases {
		r := &doc.state.Releases[i]
		r.line = first
		if i < len(lines) {
			r.line = first + lines[i] - 1
		}
		r.fields, _ = list[i].(map[string]any) // doc.state has decoded it
		if r.Name == "" || r.Chart == "" {
			return doc, fmt.Errorf("releases[%d] has no name or no chart", i)
		}
	}
	return doc, nil
}

func releaseLines(root *yaml.Node) []int {
	var out []int
	if len(root.Content) == 0 {
		return nil
	}
	top := root.Content[0]
	for i := 0; i+1 < len(top.Content); i += 2 {
		if top.Content[i].Value == "releases" {
			for _, n := range top.Content[i+1].Content {
				out = append(out, n.Line)
			}
		}
	}
	return out
}

// set reports whether a field has a value that is not the default of its type.
func set(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return !reflect.ValueOf(v).IsZero()
}
