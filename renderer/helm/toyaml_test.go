package helm

import (
	"encoding/json"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"sigs.k8s.io/yaml"
)

// helmToYAML is Helm's function.
func helmToYAML(v any) string {
	out, err := yaml.Marshal(v)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(out), "\n")
}

func TestToYAMLIsHelms(t *testing.T) {
	t.Parallel()
	for _, v := range []any{
		nil, true, "", "a", "on", "1", "1.5", "<b> & 'c'", "a\nb\n", "a\n", "\ta", " a", "a ", "0x1f", "2020-01-01", "~", "null", "<<", "a: b", "# a", "- a", "é", "日本", "😀", "\x00", "\x7f", "\u0085", "\u2028", "\xff", "\ufeff",
		1, int64(5), 3.0, -3.0, 0.5, 1e21, 1e300, float64(1 << 53), float64(1<<53) * 4, uint64(7), int8(3),
		[]string{"a"},
		map[string]string{"a": "b"},
		json.Number("5"),
		struct{ A int }{5},
		[]any{},
		[]any(nil),
		map[string]any{},
		map[string]any(nil),
		[]any{nil, []any{1.0, "x"}, map[string]any{"b": 1.0, "a": []any{}}},
		map[string]any{"a10": 1.0, "a2": 2.0, "1": "x", "on": "y", "<<": "z", "é": "e", "": "empty", "A": "B", "long": strings.Repeat("words and ", 30)},
		chartutil.Values{"a": chartutil.Values{"b": "c"}},
		map[string]any{"<<": map[string]any{"a": "b"}},
		strings.Repeat("k", 2000),
		map[string]any{strings.Repeat("k", 600): "v"},
		map[string]any{strings.Repeat("k", 1200): "v"},
	} {
		if got, want := toYAML(v), helmToYAML(v); got != want {
			t.Errorf("%#v: %q, but Helm: %q", v, got, want)
		}
	}
	if _, ok := sameInJSON(map[string]any{"a": []any{"b", 1.0, true, nil}}, maxSameDepth); !ok {
		t.Error("ordinary values take the long way")
	}
}

func FuzzToYAML(f *testing.F) {
	f.Add(`{"a": [1, 2.5, "x\ny", null, {"b10": true, "b9": "on"}], "": "\u2028"}`)
	f.Add(`"- a: b"`)
	f.Add(`[[], {}, "1_0", "é", -0, 1e3]`)
	f.Fuzz(func(t *testing.T, in string) {
		var v any
		if json.Unmarshal([]byte(in), &v) != nil {
			v = map[string]any{in: []any{in}}
		}
		if got, want := toYAML(v), helmToYAML(v); got != want {
			t.Errorf("%#v: %q, but Helm: %q", v, got, want)
		}
	})
}
