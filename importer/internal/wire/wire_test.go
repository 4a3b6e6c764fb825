package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"
)

func TestValues(t *testing.T) {
	t.Parallel()
	want := map[string]any{
		"null": nil, "yes": true, "no": false, "small": int64(-5), "large": uint64(math.MaxUint64), "float": 1.0,
		"text": "a\xffb",
		"list": []any{"", []any{}, map[string]any{}},
		"map":  map[string]any{"": map[string]any{"deep": []any{int64(1)}}},
	}
	data, err := AppendValue(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(AppendTexts(AppendUint(data, 7), []string{"x", ""}))
	if got := r.Value(); !reflect.DeepEqual(got, any(want)) {
		t.Errorf("the result of Value is %#v\nwant %#v", got, want)
	}
	if n, texts := r.Uint(), r.Texts(); n != 7 || len(texts) != 2 || texts[0] != "x" || r.More() || r.Err() != nil {
		t.Errorf("read %d %q, more: %v, error %v", n, texts, r.More(), r.Err())
	}
	if r.Text(); r.Err() == nil {
		t.Error("reading past the end is no error")
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	deep := any("bottom")
	for range maxDepth + 1 {
		deep = []any{deep}
	}
	for _, v := range []any{deep, struct{}{}, []any{int32(1)}, map[string]any{"a": map[int]any{}}} {
		if _, err := AppendValue(nil, v); err == nil {
			t.Errorf("a %T was encoded", v)
		}
	}
}

// Bytes of any kind are read without a panic, and what they make of themselves is not much larger than they are.
func FuzzReader(f *testing.F) {
	seed, err := AppendValue(nil, map[string]any{"list": []any{1, 2.5, "three", nil, true}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{list, 0xff, 0xff, 0xff, 0x7f})
	f.Add([]byte{mapping, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader(data)
		v := r.Value()
		if r.Err() != nil {
			if r.More() || len(r.Rest()) > 0 {
				t.Fatal("something is left after an error")
			}
			return
		}
		again, err := AppendValue(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		// NaN does not equal itself
		if got, want := fmt.Sprintf("%#v", NewReader(again).Value()), fmt.Sprintf("%#v", v); got != want {
			t.Fatalf("%s became %s", want, got)
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
