package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
	yamlv3 "sigs.k8s.io/yaml/goyaml.v3"
)

// functions returns the functions of Helm's templates without a cluster and without DNS. It lacks `include` and
// `tpl`, which each rendering binds to its templates. Helm does not export its own map; TestFunctionsAreHelms compares
// the two.
func functions() template.FuncMap {
	out := sprig.TxtFuncMap()
	delete(out, "env")
	delete(out, "expandenv")
	maps.Copy(out, template.FuncMap{
		"toYaml":        toYAML,
		"toYamlPretty":  toYAMLPretty,
		"fromYaml":      func(text string) map[string]any { return decodeMap(text, unmarshalYAML) },
		"fromYamlArray": func(text string) []any { return decodeList(text, unmarshalYAML) },
		"toJson":        toJSON,
		"fromJson":      func(text string) map[string]any { return decodeMap(text, unmarshalJSON) },
		"fromJsonArray": func(text string) []any { return decodeList(text, unmarshalJSON) },
		"toToml":        toTOML,
		"fromToml":      func(text string) map[string]any { return decodeMap(text, unmarshalTOML) },
		"required":      required,
		"fail":          func(message string) (string, error) { return "", errors.New(message) },
		"lookup":        func(_, _, _, _ string) (map[string]any, error) { return map[string]any{}, nil },
		"getHostByName": func(string) string { return "" },
		"include":       func(string, any) (string, error) { return "", errUnbound },
		"tpl":           func(string, any) (string, error) { return "", errUnbound },
		"keys":          keys,
		"values":        values,
	})
	//nolint:forcetypeassert // Sprig's
	maps.Copy(out, inUTC(out["now"].(func() time.Time), out["dateInZone"].(func(string, any, string) string)))
	return out
}

// keys returns the keys of each map, sorted. Sprig's order is random, so that equal inputs would give different output.
func keys(dicts ...map[string]any) []string {
	out := []string{}
	for _, dict := range dicts {
		out = append(out, slices.Sorted(maps.Keys(dict))...)
	}
	return out
}

// values returns the values of a map in the order of its keys, for the same reason.
func values(dict map[string]any) []any {
	out := make([]any, 0, len(dict))
	for _, key := range slices.Sorted(maps.Keys(dict)) {
		out = append(out, dict[key])
	}
	return out
}

var errUnbound = errors.New("the function is not bound to templates")

// required returns an error for nil and the empty string.
func required(message string, v any) (any, error) {
	if text, ok := v.(string); v == nil || ok && text == "" {
		return v, errors.New(message)
	}
	return v, nil
}

func toYAML(v any) string {
	out, err := yaml.Marshal(v)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(out), "\n")
}

func toYAMLPretty(v any) string {
	var out bytes.Buffer
	enc := yamlv3.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(v); err != nil {
		return ""
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func toJSON(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(out)
}

func toTOML(v any) string {
	var out bytes.Buffer
	if err := toml.NewEncoder(&out).Encode(v); err != nil {
		return err.Error()
	}
	return out.String()
}

func unmarshalYAML(text string, into any) error { return yaml.Unmarshal([]byte(text), into) }
func unmarshalJSON(text string, into any) error { return json.Unmarshal([]byte(text), into) }
func unmarshalTOML(text string, into any) error { return toml.Unmarshal([]byte(text), into) }

// decodeMap puts the text of an error under the key Error, as Helm does.
func decodeMap(text string, unmarshal func(string, any) error) map[string]any {
	out := map[string]any{}
	if err := unmarshal(text, &out); err != nil {
		out["Error"] = err.Error()
	}
	return out
}

// decodeList returns the text of an error as the only item, as Helm does.
func decodeList(text string, unmarshal func(string, any) error) []any {
	out := []any{}
	if err := unmarshal(text, &out); err != nil {
		out = []any{err.Error()}
	}
	return out
}
