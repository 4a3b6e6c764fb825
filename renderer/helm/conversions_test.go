package helm

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
)

func TestConversionsAreHelms(t *testing.T) {
	t.Parallel()
	c := &conversions{}
	values := []any{
		nil, "text", 1,
		[]any{},
		map[string]any{},
		map[string]any(nil), chartutil.Values(nil), []any(nil),
		map[string]any{"a": 1},
		map[string]any{"a": int64(1)},
		map[string]any{"a": 1.0},
		map[string]any{"a": "1"},
		map[string]any{"a": true},
		map[string]any{"a": nil},
		map[string]any{"a": 1e21},
		map[string]any{"a": math.Inf(1)},
		map[string]any{"a": []any{1}},
		map[string]any{"a": []any{"1"}},
		map[string]any{"a": map[string]any{"b": "c"}},
		map[string]any{"a": "", "b": "c"},
		map[string]any{"a": "b", "c": ""},
		map[string]any{"ab": "c"},
		map[string]any{"a": []any(nil)},
		map[string]any{"a": map[string]any(nil)},
		map[string]any{"a": []string{"b"}},
		map[string]any{"a": map[string]string{"b": "c"}},
		chartutil.Values{"a": 1},
		[]any{"a", "b"},
		[]any{"ab"},
		[]any{[]any{"a"}, "b"},
		[]any{nil, "a: b\n"},
	}
	for range 3 {
		for _, v := range values {
			if got, want := c.toYAML(v, nil), toYAML(v); got != want {
				t.Errorf("%#v: got %q, want %q", v, got, want)
			}
		}
		for _, text := range []string{"", "null", "a: 1", "a: '1'", "- 1", "a: [", "a: {b: [1, {c: d}]}", "a: ~", "{}", "a: &x {b: c}\nd: *x"} {
			got, want := c.fromYAML(text), decodeMap(text, unmarshalYAML)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%q: got %#v, want %#v", text, got, want)
			}
			if got != nil { // what a template changes does not come back
				got["changed"] = true
				if below, ok := got["a"].(map[string]any); ok {
					below["changed"] = true
				}
			}
		}
	}
	if len(c.texts) < 10 || len(c.values) < 7 {
		t.Errorf("%d texts and %d values are kept", len(c.texts), len(c.values))
	}
}

func TestConversionsAreLimited(t *testing.T) {
	t.Parallel()
	c := &conversions{}
	for i := range 4_000 {
		text := fmt.Sprintf("a: %0500d", i)
		c.toYAML(c.fromYAML(text), nil)
		if c.bytes > maxConversions {
			t.Fatalf("%d bytes are kept", c.bytes)
		}
	}
	c.fromYAML(fmt.Sprintf("a: %0*d", maxConversion, 1))
	for text := range c.values {
		if len(text) > maxConversion {
			t.Errorf("a text of %d bytes is kept", len(text))
		}
	}
}
