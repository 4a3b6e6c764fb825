package flux

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/template"

	sprig "github.com/go-task/slim-sprig/v3"
	"github.com/gosimple/slug"
	"sigs.k8s.io/yaml"

	"github.com/sluice-gitops/sluice/hydrate/import/internal/templates"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// errUID is a ResourceSet whose objects depend on an id that only the cluster knows.
var errUID = errors.New("inputs.id of a ResourceSetInputProvider is not supported: the operator makes it of the UID that the provider has in the cluster (add an input with another name)")

// executeOne builds an entry of spec.resources: the operator executes its YAML text as a template.
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

// execute returns the objects that a template makes of a set of inputs.
func execute(rounds *templates.Rounds, text string, inputs map[string]any) ([]manifest.Object, error) {
	parsed := template.New("template").Delims("<<", ">>").Option("missingkey=error").Funcs(template.FuncMap{"inputs": func() any { return inputs }})
	out, err := rounds.Execute(parsed, text, nil)
	if err != nil {
		return nil, err
	}
	return manifest.Decode(out, manifest.DefaultBudget())
}

// functions are those of the operator's templates. Its functions `keys` and `values` have no order; here they are sorted by key.
func functions() template.FuncMap {
	out := sprig.HermeticTxtFuncMap()
	for _, name := range []string{"ago", "durationRound", "mustToDate", "randInt", "toDate"} { // they depend on the clock, the time zone or chance
		out[name] = func(...any) (string, error) {
			return "", fmt.Errorf("the function %s is not supported: its result is not the same everywhere", name)
		}
	}
	out["slugify"] = slugify
	out["toYaml"], out["mustToYaml"] = toYAML, toYAML
	out["keys"] = func(list ...map[string]any) []string {
		keys := []string{}
		for _, m := range list {
			keys = append(keys, slices.Sorted(maps.Keys(m))...)
		}
		return keys
	}
	out["values"] = func(m map[string]any) []any {
		values := []any{}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			values = append(values, m[k])
		}
		return values
	}
	return out
}

func toYAML(v any) (string, error) {
	data, err := yaml.Marshal(v)
	return string(data), err
}

// slugify makes a label's value of a text, cut at a word.
func slugify(text string) string { return templates.CutAtWord(slug.Make(text), 63) }
