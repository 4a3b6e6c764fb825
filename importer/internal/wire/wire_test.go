package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestValues(t *testing.T) {
	t.Parallel()
	type sample struct {
		Object map[string]any
		Texts  []string
		Data   []byte
	}
	want := sample{
		Object: map[string]any{
			"null": nil, "yes": true, "no": false, "small": int64(-5), "large": int64(math.MaxInt64), "float": 1.0,
			"text": "a\xffb",
			"list": []any{"", []any{}, map[string]any{}},
			"map":  map[string]any{"": map[string]any{"deep": []any{int64(1)}}},
		},
		Texts: []string{"x", ""}, Data: []byte{0, 255},
	}
	data, err := Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got sample
	if err := Unmarshal(data, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the result of Unmarshal is %#v, %v\nwant %#v", got, err, want)
	}
	for n := range data {
		if err := Unmarshal(data[:n], &got); err == nil {
			t.Errorf("%d of %d bytes were decoded", n, len(data))
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	deep := any("bottom")
	for range maxLevels + 1 {
		deep = []any{deep}
	}
	encoded := func(v any) []byte {
		data, err := Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, data := range map[string][]byte{
		"levels":                  encoded(deep),
		"a number without a type": encoded(uint64(math.MaxUint64)),
		"a list of a million":     encoded(make([]bool, MaxElements+1)),
		"more than there is":      {0x9a, 0x00, 0x0f, 0xff, 0xff},
		"a list without an end":   {0x9f, 0xff},
		"a tag":                   {0xc1, 0x00},
		"a key twice":             {0xa2, 0x61, 'a', 0x00, 0x61, 'a', 0x01},
		"something behind it":     {0x00, 0x00},
		"nothing":                 nil,
	} {
		var v any
		if err := Unmarshal(data, &v); err == nil {
			t.Errorf("%s: decoded as %s", name, strings.TrimSpace(fmt.Sprint(v))[:1])
		}
	}
	var v struct{ Known int }
	if err := Unmarshal(encoded(map[string]any{"Unknown": 1}), &v); err == nil {
		t.Error("an unknown field was decoded")
	}
}

// Bytes of any kind are decoded without a panic, and what they say can be encoded and decoded again.
func FuzzUnmarshal(f *testing.F) {
	seed, err := Marshal(map[string]any{"list": []any{1, 2.5, "three", nil, true}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{0x9a, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0xa1, 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		var v any
		if Unmarshal(data, &v) != nil {
			return
		}
		again, err := Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var got any
		// NaN does not equal itself
		if err := Unmarshal(again, &got); err != nil || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", v) {
			t.Fatalf("%#v became %#v, %v", v, got, err)
		}
	})
}

// Plain gives what encoding/json gives.
func TestPlain(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]any{
		"numbers": []any{
			1, int64(math.MaxInt64), int64(math.MinInt64), uint64(math.MaxUint64), int64(1<<53 + 1), 0.1,
			math.Copysign(0, -1), 1e300, float32(0.1),
		},
		"nothing": []any{nil, []any(nil), map[string]any(nil), []any{}, map[string]any{}},
		"texts":   []any{"", "a<b>&\u2028", "\xff", "\x00", "\ufffd"},
		"keys":    map[string]any{"a<b": true, "\xff": false},
		"types":   []any{[]string{"a"}, map[string]string{"a": "b"}, json.Number("1")},
		"NaN":     math.NaN(),
		"no end":  math.Inf(1),
	} {
		in := map[string]any{"value": v}
		var want map[string]any
		text, wantErr := json.Marshal(in)
		if wantErr == nil {
			wantErr = json.Unmarshal(text, &want)
		}
		got, err := Plain(in)
		if !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) {
			t.Errorf("%s: the result of Plain is %v, the error is %v; want %v, want %v", name, got, err, want, wantErr)
		}
	}
	in := map[string]any{"list": []any{map[string]any{"a": "b"}}}
	got, err := Plain(in)
	if err != nil {
		t.Fatal(err)
	}
	got["list"].([]any)[0].(map[string]any)["a"] = "changed"
	if in["list"].([]any)[0].(map[string]any)["a"] != "b" {
		t.Error("the copy shares parts with the original")
	}
	if got, err := Plain(nil); got != nil || err != nil {
		t.Errorf("the result of Plain is %v, the error is %v", got, err)
	}
}
