package flux

import (
	"errors"
	"fmt"
	"text/template"

	sprig "github.com/go-task/slim-sprig/v3"
	"github.com/gosimple/slug"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/importer/internal/templates"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// errUID means that the objects of a ResourceSet depend on an id that only the cluster knows.
var errUID = errors.New("inputs.id of a ResourceSetInputProvider is not supported: the operator makes it of the UID that the provider has in the cluster (add an input with another name)")

// executeOne returns the object of an entry of spec.resources. Like the operator, it executes the entry's YAML text as
// a template.
func executeOne(rounds *templates.Rounds, resource, inputs map[string]any) (manifest.Object, error) {
	text, err := yaml.Marshal(resource)
	if err != nil {
		return nil, err
	}
	objects, err := execute(rounds, string(text), inputs)
	if err != nil {
		return nil, err
	}
	if len(objects) != 1 {
		return nil, fmt.Errorf("the template makes %d objects, not 1", len(objects))
	}
	return objects[0], nil
}

// execute returns the objects that a template makes of a set of inputs, which it reads as `inputs`.
func execute(rounds *templates.Rounds, text string, inputs map[string]any) ([]manifest.Object, error) {
	parsed := template.New("template").Delims("<<",
		">>").Option("missingkey=error").Funcs(template.FuncMap{"inputs": func() any { return inputs }})
	out, err := rounds.Execute(parsed, text, nil)
	if err != nil {
		return nil, err
	}
	return manifest.Decode(out, manifest.DefaultBudget())
}

// functions returns the functions of the operator's templates.
func functions() template.FuncMap {
	out := sprig.HermeticTxtFuncMap()
	templates.MakeDeterministic(out)
	out["slugify"] = slugify
	out["toYaml"], out["mustToYaml"] = toYAML, toYAML
	return out
}

func toYAML(v any) (string, error) {
	data, err := yaml.Marshal(v)
	return string(data), err
}

// slugify returns a text as the value of a label, cut at a word.
func slugify(text string) string { return templates.CutAtWord(slug.Make(text), 63) }
