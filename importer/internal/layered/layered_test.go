package layered

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"
)

func merged(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	for k, v := range b {
		upper, isMap := v.(map[string]any)
		lower, wasMap := out[k].(map[string]any)
		if isMap && wasMap {
			v = merged(lower, upper)
		}
		out[k] = v
	}
	return out
}

// both names a leaf of own that shared has too.
func both(shared, own map[string]any, at string) string {
	for key, v := range own {
		known, ok := shared[key]
		upper, isMap := v.(map[string]any)
		lower, wasMap := known.(map[string]any)
		switch {
		case ok && isMap && wasMap:
			if found := both(lower, upper, at+"."+key); found != "" {
				return found
			}
		case ok:
			return at + "." + key
		}
	}
	return ""
}

// The common part and the rest of each cluster give the cluster's values again, and nothing is in both.
func TestCommonAndRestGiveTheValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		common string
		values []string
	}{
		{`{"a":1}`, []string{`{"a":1,"b":2}`, `{"a":1,"b":3}`}},
		{`{"a":1,"b":{"c":[1]}}`, []string{`{"a":1,"b":{"c":[1]}}`, `{"a":1,"b":{"c":[1]}}`}},
		{`{"b":{"c":1}}`, []string{`{"b":{"c":1,"d":1}}`, `{"b":{"c":1}}`, `{"b":{"c":1,"d":{"e":2}}}`}},
		{`{}`, []string{`{"b":{"c":1}}`, `{"b":{}}`}},
		{`{}`, []string{`{"b":{"c":1}}`, `{"b":null}`}},
		{`{"b":null}`, []string{`{"b":null,"c":[1,2]}`, `{"b":null,"c":[1]}`}},
		{`{}`, []string{`{}`, `{"a":1}`}},
		{`{}`, []string{`{"a":1}`, `{}`}},
		{`{}`, []string{`{"a":null}`, `{}`}},
	} {
		list := make([]map[string]any, len(c.values))
		for i, text := range c.values {
			if err := json.Unmarshal([]byte(text), &list[i]); err != nil {
				t.Fatal(err)
			}
		}
		shared := Common(list)
		var want map[string]any
		if err := json.Unmarshal([]byte(c.common), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(shared, want) {
			t.Errorf("%q have %v in common, want %v", c.values, shared, want)
		}
		for i := range list {
			own := Rest(list[i], shared)
			if leaf := both(shared, own, ""); leaf != "" {
				t.Errorf("%q: %s is in the common part and in the rest", c.values, leaf)
			}
			if back := merged(shared, own); !reflect.DeepEqual(back, list[i]) {
				t.Errorf("%q: %v and %v give %v", c.values, shared, own, back)
			}
		}
	}
}
