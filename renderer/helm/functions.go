package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/Masterminds/sprig/v3"
	yamlv2 "go.yaml.in/yaml/v2"
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

// toYAML returns "" for a value that YAML cannot represent, as Helm does. Helm writes JSON, reads that as YAML, and
// writes what it has read; what is plain is the same before and after.
func toYAML(v any) string {
	marshal := yaml.Marshal
	if plain(v, 100) { // no deeper, because a template can put a mapping into itself
		marshal = yamlv2.Marshal
	}
	out, err := marshal(v)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(out), "\n")
}

// plain reports whether a value is surely the same after it is written as JSON and read as YAML. FuzzToYAML compares
// the two.
func plain(v any, depth int) bool {
	if depth == 0 {
		return false
	}
	switch x := v.(type) {
	case nil, bool, int:
		return true
	case float64: // that YAML writes as an integer, as JSON does
		return x == math.Trunc(x) && math.Abs(x) < 1e6 && (x != 0 || !math.Signbit(x))
	case string:
		return plainText(x)
	case map[string]any:
		for key, item := range x {
			const longest = 100 // each character can take 6 in JSON, and YAML reads keys of up to 1,024
			if len(key) > longest || !plainText(key) || !plain(item, depth-1) {
				return false
			}
		}
		return x != nil
	case []any:
		for _, item := range x {
			if !plain(item, depth-1) {
				return false
			}
		}
		return x != nil
	}
	return false
}

// plainText reports whether a text has only ASCII characters that can be seen, spaces, tabs and ends of lines.
func plainText(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < ' ' || c > '~') && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
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
