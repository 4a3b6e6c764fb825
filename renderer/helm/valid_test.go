package helm

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
)

// randomSchema returns a schema for the tables of randomTable.
func randomSchema(r *rand.Rand, depth int) map[string]any {
	out := map[string]any{}
	below := func() any {
		if depth == 0 || r.IntN(6) == 0 {
			return []any{true, map[string]any{}, true, true, true, true, true, map[string]any{"type": "string"}, map[string]any{"type": []any{"string", "object", "null"}}, map[string]any{"$ref": "#/$defs/s"}, map[string]any{"enum": []any{"v0", "v1", nil}}, false, map[string]any{"type": []any{"boolean", "array"}}}[r.IntN(13)]
		}
		return randomSchema(r, depth-1)
	}
	if r.IntN(3) == 0 {
		out["type"] = []any{"object", []any{"object", "null", "string", "array"}}[r.IntN(2)]
	}
	properties := map[string]any{}
	for _, key := range []string{"global", "one", "two", "a", "b"} {
		if r.IntN(2) == 0 {
			properties[key] = below()
		}
	}
	out["properties"] = properties
	switch r.IntN(20) {
	case 0:
		out["additionalProperties"] = false
	case 1:
		out["additionalProperties"] = below()
	case 2:
		out["required"] = []any{[]any{"global", "one", "two", "a", "b"}[r.IntN(5)]}
	case 3:
		out["$ref"] = []any{"#/$defs/t", "#/$defs/s", "#/$defs/loop"}[r.IntN(3)]
	case 4:
		out[[]string{"patternProperties", "dependentSchemas"}[r.IntN(2)]] = map[string]any{"a": below()}
	case 5:
		out[[]string{"anyOf", "oneOf", "allOf"}[r.IntN(3)]] = []any{below(), below()}
	case 6:
		out[[]string{"maxProperties", "minProperties"}[r.IntN(2)]] = r.IntN(4)
	case 7:
		out[[]string{"unevaluatedProperties", "propertyNames", "if", "not"}[r.IntN(4)]] = below()
	}
	return out
}

// Values that differ from valid ones in a few places are valid if the whole validation says so.
func TestValidityIsTheLibrarys(t *testing.T) {
	t.Parallel()
	valid, invalid, kept := 0, 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		root := randomSchema(r, 3)
		root["$schema"] = []any{"http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"}[r.IntN(2)]
		root["$defs"] = map[string]any{"s": map[string]any{"type": []any{"string", "object", "null"}}, "t": randomSchema(r, 1), "loop": map[string]any{"$ref": "#/$defs/loop"}}
		text, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		compiled, separate, err := compile(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		c := &chart.Chart{Metadata: &chart.Metadata{Name: "x"}, Values: randomTable(r, 3)}
		shared := newDefaults(c)
		for range 8 {
			values := map[string]any{}
			if r.IntN(3) > 0 {
				values = randomTable(r, r.IntN(3))
			}
			if err := coalesce(c, values, shared); err != nil {
				t.Fatal(err)
			}
			want := compiled.Validate(copyMap(values)) == nil
			for range 2 {
				if got := separate.valid(compiled, values, shared, 0); got != want {
					t.Fatalf("seed %d: %t, want %t: %v\nis validated by %s", seed, got, want, values, text)
				}
			}
			if want {
				valid++
			} else {
				invalid++
			}
		}
		for _, table := range shared.maps {
			for known := table.valid.Load(); known != nil; known = known.next {
				kept++
			}
		}
	}
	if valid < 100 || invalid < 100 || kept < 10 { // how many tables are kept depends on the order of keys, which is random
		t.Errorf("%d valid and %d invalid values, %d valid tables: the test compares little", valid, invalid, kept)
	}
}

// Values that are no tables are valid if the library says so.
func TestTypesAreTheLibrarys(t *testing.T) {
	kept := 0
	for _, schema := range []string{
		`{}`, `{"type": []}`, `{"type": "null"}`, `{"type": "boolean"}`, `{"type": "string"}`, `{"type": "array"}`, `{"type": "number"}`, `{"type": "integer"}`, `{"type": "object"}`, `{"type": ["object", "integer", "null"]}`, `{"type": ["number", "string"]}`,
		`{"type": "string", "title": "x"}`, `{"type": "string", "minLength": 2}`, `{"type": "array", "items": {"type": "string"}}`, `{"type": "number", "maximum": 2}`, `{"enum": [1]}`, `{"const": "x"}`, `{"type": "array", "required": ["x"], "properties": {"x": {"type": "null"}}}`,
		`{"type": "string", "$ref": "#/$defs/never"}`, `{"not": {}}`, `{"additionalProperties": false}`, `{"type": "array", "uniqueItems": true}`, `{"unevaluatedItems": false}`, `{"format": "ipv4"}`, `false`, `true`,
	} {
		compiled, separate, err := compile([]byte(`{"properties": {"v": ` + schema + `}, "$defs": {"never": {"type": "null"}}}`))
		if err != nil {
			t.Logf("%s: %v", schema, err)
			continue
		}
		for _, v := range []any{nil, true, "x", "", []any{}, []any{1.0, 1.0}, []any{map[string]any{}}, 0, 1, int64(3), 1.0, 1.5, -2.0, 1e300, -1e-300, math.NaN(), math.Inf(1), math.Copysign(0, -1), uint8(1), float32(2)} {
			of := compiled.Properties["v"]
			known, want := separate.typed(of, v), of.Validate(v) == nil
			if known && !want || separate.valid(compiled, map[string]any{"v": v}, nil, 0) != want {
				t.Errorf("%s: %T %v is valid: %t, want %t", schema, v, v, known, want)
			}
			if known {
				kept++
			}
		}
	}
	if kept < 50 {
		t.Errorf("only %d values are known to be valid: the test compares nothing", kept)
	}
}

// A reference that depends on the schemas around it makes the whole schema one part.
func TestDynamicSchemasHaveNoParts(t *testing.T) {
	for _, keyword := range []string{`"$dynamicRef": "#x"`, `"$dynamicAnchor": "y"`, `"$dynamic\u0041nchor": "y"`} {
		text := fmt.Sprintf(`{"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"a": {"anyOf": [{%s}]}}, "$defs": {"x": {"$dynamicAnchor": "x"}}}`, keyword)
		if _, separate, err := compile([]byte(text)); err != nil || separate != nil {
			t.Errorf("%s: %v, %d parts", text, err, len(separate))
		}
	}
}

// Messages do not depend on what is kept.
func TestInvalidValuesBesideValidTables(t *testing.T) {
	c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, File{"values.yaml", []byte("a: {b: {c: d}}\ne: {f: g}\n")}, File{"templates/a.txt", []byte("x")},
		File{"values.schema.json", []byte(`{"properties": {"a": {"properties": {"b": {"properties": {"c": {"type": "string"}}, "additionalProperties": false}}}, "e": {"properties": {"f": {"enum": ["g"]}}}}}`)})
	for _, x := range []struct {
		values map[string]any
		want   string
	}{
		{nil, ""},
		{map[string]any{"a": map[string]any{"b": map[string]any{"c": 1.0}}}, "a.b.c"},
		{map[string]any{"e": map[string]any{"f": "h"}}, "e.f"},
		{map[string]any{"a": map[string]any{"b": map[string]any{"z": "y"}}}, "a.b"},
		{map[string]any{"a": map[string]any{"y": "z"}}, ""},
	} {
		_, err := c.Render(t.Context(), options(x.values))
		if x.want == "" {
			if err != nil {
				t.Errorf("%v: %v", x.values, err)
			}
			continue
		}
		c.selections.charts[""].defaults.off.Store(true)
		_, want := c.Render(t.Context(), options(x.values))
		c.selections.charts[""].defaults.off.Store(false)
		if err == nil || want == nil || err.Error() != want.Error() {
			t.Errorf("%v: got %v, want %v", x.values, err, want)
		}
	}
}

// The meta-schemas that the library has built in have dynamic references.
func TestReferencesToMetaSchemas(t *testing.T) {
	for _, ref := range []string{"https://json-schema.org/draft/2020-12/schema#/allOf/1", "https://json-schema.org/draft/2020-12/schema"} {
		compiled, separate, err := compile([]byte(`{"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"a": {"$ref": "` + ref + `"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		c := &chart.Chart{Metadata: &chart.Metadata{Name: "x"}, Values: map[string]any{"a": map[string]any{"properties": map[string]any{"b": map[string]any{"type": "banana"}}}}}
		if compiled.Validate(c.Values) == nil {
			t.Fatalf("%s: the values are valid", ref)
		}
		if separate != nil && separate.valid(compiled, c.Values, newDefaults(c), 0) {
			t.Errorf("%s: invalid values are valid", ref)
		}
	}
}
