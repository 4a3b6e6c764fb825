package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Limits of the parameters of a catalog. A fleet is loaded in the process that serves others too, and anybody who may open a
// merge request writes one.
const (
	maxSchema    = 16 << 10 // bytes of a schema as JSON
	maxValues    = 16 << 10 // bytes of the values of an app
	maxPattern   = 20_000   // steps of all patterns of a schema, each with its repetitions
	maxChecking  = 4 << 30  // bytes of schemas times bytes of values, of all apps of a fleet
	maxMistakes  = 20       // that are reported of one app
	parametersAt = "file:///parameters.json"
)

// parameterSchema is the compiled schema of the parameters of a version.
type parameterSchema struct {
	raw      map[string]any
	size     int
	compiled *jsonschema.Schema
}

// parameterMistake is what a schema refuses, and where in the values.
type parameterMistake struct {
	at   []string
	text string
}

// parameterChecks counts what the apps of a fleet cost.
type parameterChecks struct{ spent int }

// compileParameters compiles a schema. Names that it does not have are refused, unless it says something else. It cannot
// have references, so that its size bounds what it costs.
func compileParameters(parameters map[string]any) (out *parameterSchema, err error) {
	defer func() {
		if r := recover(); r != nil { // the compiler's, for schemas that it does not expect
			out, err = nil, fmt.Errorf("the schema cannot be used: %v", r)
		}
	}()
	whole := maps.Clone(parameters)
	if whole == nil {
		whole = map[string]any{}
	}
	if kind, ok := whole["type"]; ok && kind != "object" {
		return nil, fmt.Errorf("the type of parameters is object, not %v", kind)
	}
	if err := plainSchema(whole, new(int)); err != nil {
		return nil, err
	}
	_, patterns := whole["patternProperties"]
	if _, said := whole["additionalProperties"]; !said && !patterns {
		whole["additionalProperties"] = false
	}
	whole["type"] = "object"
	document, size, err := jsonOf(whole, maxSchema)
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noDocuments{})
	if err := compiler.AddResource(parametersAt, document); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(parametersAt)
	if err != nil {
		return nil, err
	}
	return &parameterSchema{raw: parameters, size: size, compiled: compiled}, nil
}

// plainSchema refuses references and patterns that take much memory. Names of properties may look like keywords; they are
// refused too.
func plainSchema(v any, steps *int) error {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			if err := plainSchema(one, steps); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch name {
			case "$ref", "$dynamicRef", "$recursiveRef", "$id", "$schema":
				return fmt.Errorf("the schema has %s: write everything in place", name)
			case "pattern":
				if text, ok := v[name].(string); ok {
					if err := countPattern(text, steps); err != nil {
						return err
					}
				}
			case "patternProperties":
				if patterns, ok := v[name].(map[string]any); ok {
					for text := range patterns {
						if err := countPattern(text, steps); err != nil {
							return err
						}
					}
				}
			}
			if err := plainSchema(v[name], steps); err != nil {
				return err
			}
		}
	}
	return nil
}

// countPattern adds what a pattern has when its repetitions are written out.
func countPattern(text string, steps *int) error {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return fmt.Errorf("the pattern %.100q: %w", text, err)
	}
	if *steps += stepsOf(parsed); *steps > maxPattern {
		return fmt.Errorf("the patterns of the schema have more than %d steps, with their repetitions: use maxLength, and fewer of them", maxPattern)
	}
	return nil
}

func stepsOf(r *syntax.Regexp) int {
	count := 1 + len(r.Rune)
	for _, sub := range r.Sub {
		count += stepsOf(sub)
	}
	if r.Op == syntax.OpRepeat {
		count *= max(r.Min, r.Max, 1)
	}
	return min(count, maxPattern+1)
}

// noDocuments loads no schema.
type noDocuments struct{}

// Load implements jsonschema.URLLoader.
func (noDocuments) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to another document, %.100q, which is not read", url)
}

// presets checks the defaults at the top of the schema.
func (s *parameterSchema) presets() []parameterMistake {
	var out []parameterMistake
	properties, _ := s.raw["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, ok := properties[name].(map[string]any)
		preset, has := property["default"]
		compiled := s.compiled.Properties[name]
		if !ok || !has || compiled == nil {
			continue
		}
		value, _, err := jsonOf(s.complete(map[string]any{name: preset})[name], maxValues)
		if err == nil {
			err = compiled.Validate(value)
		}
		for _, m := range refusals(err, nil) {
			out = append(out, parameterMistake{append([]string{name}, m.at...), m.text})
		}
	}
	return out
}

// check returns what the schema refuses of the values of an app.
func (p *parameterChecks) check(s *parameterSchema, values map[string]any) []parameterMistake {
	value, size, err := jsonOf(s.complete(values), maxValues)
	if err != nil {
		return []parameterMistake{{text: err.Error()}}
	}
	if p.spent += s.size * size; p.spent > maxChecking {
		return []parameterMistake{{text: "the values of all apps from the catalog are too large to be checked: make them or the schemas smaller"}}
	}
	return refusals(s.compiled.Validate(value), nil)
}

// refusals lists the single mistakes of an error of the validator, at most maxMistakes.
func refusals(err error, out []parameterMistake) []parameterMistake {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	switch {
	case err == nil || len(out) == maxMistakes:
		return out
	case !ok:
		return append(out, parameterMistake{text: err.Error()})
	}
	for _, cause := range invalid.Causes {
		out = refusals(cause, out)
	}
	if len(invalid.Causes) > 0 {
		return out
	}
	if k, ok := invalid.ErrorKind.(*kind.AdditionalProperties); ok {
		slices.Sort(k.Properties) // the validator's order differs between runs
	}
	return append(out, parameterMistake{
		invalid.InstanceLocation, invalid.ErrorKind.LocalizedString(message.NewPrinter(language.English)),
	})
}

// jsonOf returns a value as the validator expects it, and its size as JSON.
func jsonOf(v any, most int) (any, int, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, 0, err
	}
	if len(text) > most {
		return nil, 0, fmt.Errorf("it has %d bytes as JSON, more than %d", len(text), most)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	return out, len(text), err
}

// complete returns values with the defaults of the properties that they lack, also in objects that they have.
func (s *parameterSchema) complete(values map[string]any) map[string]any {
	return withDefaults(s.raw, values)
}

func withDefaults(schema, values map[string]any) map[string]any {
	out := maps.Clone(values)
	if out == nil {
		out = map[string]any{}
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		property, ok := p.(map[string]any)
		if !ok {
			continue
		}
		value, given := out[name]
		if preset, ok := property["default"]; ok && !given {
			value, given = preset, true
		}
		if inner, ok := value.(map[string]any); ok {
			value = withDefaults(property, inner)
		}
		if given {
			out[name] = value
		}
	}
	return out
}
