package manifest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	goccy "github.com/goccy/go-yaml"
	yaml3 "go.yaml.in/yaml/v3"
	yaml2 "sigs.k8s.io/yaml/goyaml.v2"
)

func wrap(v any) Object {
	return Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}, "data": v}
}

func encode(tb testing.TB, o Object) []byte {
	tb.Helper()
	out, err := Encode(o)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// texts are strings that some reader of YAML misreads.
func texts() []string {
	return []string{
		"", " ", "on", "yes", "No", "y", "N", "null", "~", "true", "0644", "0o14", "1e3", "1.5e+3", "12:30", "1:30:00",
		"0x1F", "0b1",
		"1_000", ".inf", "-.INF", ".nan", "NaN", "2020-01-01", "2001-12-14T21:59:43.10-05:00", "=", "<<", "-", "--",
		"---", "...", "- a", "? a",
		"a: b", "a:", ":a", "a #b", "#a", "a ", " a", "a\tb", "\ta", "a\r\nb", "a\nb", "a\nb\n", "a\n\n", "\n", "\n\na",
		"  a\nb", "a\n  \nb",
		"a \nb ", "a\n  ", "\na\n", "a\u0085b", "a\u2028b", "\ufeffa", "a\u00a0b", "ünï", "日本", "😀", "a\x00b", "\x7f",
		"{a}", "[a]", "a{b}", "a, b",
		"&a", "*a", "!a", "|", ">", "%a", "@a", "`a", "'a'", "\"a\"", "a'b", `a"b\c`, "1.33.2", "10.0.0.0/24", "250m",
		"-5", "+5", "5.", "-x", "--flag=x",
		"http://x:80/a?b=c#d", "sha256:abc", "a: b\nc: d", "#!/bin/sh\necho\n", "key: |\n  text\n", "\u200b", "\u202e", "a\n# b\n---\n...\n", "tab\there\nb\n",
		strings.Repeat("long ", 400), "1e1000", "0.", "08", "190:20:30", "1,000", "!!str a", "% x", "a\n\tb", "trailing\n \n", "e3", "3e", "0e",
	}
}

func TestStringsReadTheSameEverywhere(t *testing.T) {
	for _, s := range texts() {
		checkEverywhere(t, wrap(map[string]any{"k": s, "list": []any{s, map[string]any{"in": s}}}))
	}
}

func TestKeysReadTheSameEverywhere(t *testing.T) {
	for _, s := range texts() {
		checkEverywhere(t, wrap(map[string]any{s: "v", "z": map[string]any{s: []any{int64(1)}}}))
	}
}

func TestScalarsReadTheSameEverywhere(t *testing.T) {
	for _, v := range []any{
		nil, true, false, int64(0), int64(-1), int64(math.MaxInt64), int64(math.MinInt64), uint64(math.MaxUint64), 1.5, -0.25, 1e21, 1e-7, 3.0, 1e100,
		map[string]any{},
		[]any{},
		[]any{[]any{int64(1), []any{}}, []any{map[string]any{}}},
		[]any{map[string]any{"a": []any{"b"}}},
	} {
		checkEverywhere(t, wrap(map[string]any{"v": v, "l": []any{v}}))
	}
}

// checkEverywhere asserts that Decode returns the object, and that three other readers, of both YAML versions, agree.
func checkEverywhere(tb testing.TB, o Object) {
	tb.Helper()
	out := encode(tb, o)
	back, err := Decode(out, DefaultBudget())
	if err != nil || len(back) != 1 {
		tb.Fatalf("decode: %v (%d objects) of\n%s", err, len(back), out)
	}
	if !reflect.DeepEqual(back[0], o) {
		tb.Fatalf("decoded\n%#v\nfrom\n%s\nwant\n%#v", back[0], out, o)
	}
	if again := encode(tb, back[0]); !bytes.Equal(again, out) {
		tb.Fatalf("encoded again\n%s\nnot\n%s", again, out)
	}
	for name, read := range map[string]func([]byte, any) error{
		"YAML 1.1 goyaml.v2": yaml2.Unmarshal,
		"YAML 1.2 yaml.v3":   yaml3.Unmarshal,
		"YAML 1.2 goccy":     func(b []byte, v any) error { return goccy.Unmarshal(b, v) },
	} {
		var got any
		if err := read(out, &got); err != nil {
			tb.Fatalf("%s: %v in\n%s", name, err, out)
		}
		if a, b := normal(got), normal(map[string]any(o)); !reflect.DeepEqual(a, b) {
			tb.Fatalf("%s reads\n%#v\nfrom\n%s\nwant\n%#v", name, a, out, b)
		}
	}
}

// normal removes the differences between Go types that the readers choose for equal values.
func normal(v any) any {
	switch x := v.(type) {
	case map[any]any:
		out := map[string]any{}
		for k, item := range x {
			out[fmt.Sprint(k)] = normal(item)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, item := range x {
			out[k] = normal(item)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = normal(x[i])
		}
		return out
	case int, int64, uint64:
		return fmt.Sprintf("int %d", x)
	default:
		return v
	}
}

func TestEncodeLooksAsPeopleWriteIt(t *testing.T) {
	o := Object{
		"kind": "Deployment", "apiVersion": "apps/v1",
		"spec": map[string]any{
			"template": map[string]any{"containers": []any{
				map[string]any{"image": "a:1", "name": "a", "args": []any{"--x", "on"}},
			}},
			"empty": map[string]any{},
		},
		"metadata": map[string]any{"labels": map[string]any{"a": "b"}, "namespace": "ns", "name": "d"},
		"data":     map[string]any{"script": "#!/bin/sh\necho hi\n"},
	}
	want := `apiVersion: apps/v1
kind: Deployment
metadata:
  name: d
  namespace: ns
  labels:
    a: b
data:
  script: |
    #!/bin/sh
    echo hi
spec:
  empty: {}
  template:
    containers:
    - name: a
      args:
      - --x
      - "on"
      image: a:1
`
	if got := string(encode(t, o)); got != want {
		t.Fatalf("\nthe result of encode is %s\nwant\n%s", got, want)
	}
}

func TestEncodeRefusesWhatYAMLCannotCarry(t *testing.T) {
	for _, v := range []any{"a\xffb", "x\n\xff", math.NaN(), math.Inf(1), struct{}{}} {
		if out, err := Encode(wrap(map[string]any{"v": v})); err == nil {
			t.Errorf("%#v was encoded as\n%s", v, out)
		}
	}
}

func FuzzEncode(f *testing.F) {
	for i, s := range texts() {
		f.Add(s, "k", uint64(i))
		f.Add("v", s, uint64(i))
	}
	f.Fuzz(func(t *testing.T, value, key string, seed uint64) {
		if !bytes.Equal([]byte(value), bytes.ToValidUTF8([]byte(value), nil)) || !bytes.Equal([]byte(key), bytes.ToValidUTF8([]byte(key), nil)) {
			if _, err := Encode(wrap(map[string]any{key: value})); err == nil {
				t.Fatal("invalid UTF-8 was encoded")
			}
			return
		}
		r := rand.New(rand.NewPCG(seed, 1))
		checkEverywhere(t, wrap(randomValue(r, value, key, 0)))
	})
}

func randomValue(r *rand.Rand, value, key string, depth int) any {
	const deepest = 4
	switch n := r.IntN(10); {
	case n < 3 && depth < deepest:
		out := map[string]any{key: randomValue(r, value, key, depth+1)}
		for i := range r.IntN(3) {
			out[fmt.Sprint("k", i)] = randomValue(r, value, key, depth+1)
		}
		return out
	case n < 5 && depth < deepest:
		out := []any{}
		for range r.IntN(4) {
			out = append(out, randomValue(r, value, key, depth+1))
		}
		return out
	case n == 5:
		return int64(r.Uint64())
	case n == 6:
		return r.NormFloat64()
	default:
		return value
	}
}

func BenchmarkEncode(b *testing.B) {
	o := benchObject()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(o); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	data := encode(b, benchObject())
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Decode(data, DefaultBudget()); err != nil {
			b.Fatal(err)
		}
	}
}

func benchObject() Object {
	containers := []any{}
	for i := range 3 {
		containers = append(containers, map[string]any{
			"name": fmt.Sprint("c", i), "image": "registry.example.com/app:1.2.3",
			"env":       []any{map[string]any{"name": "A", "value": "on"}, map[string]any{"name": "B", "value": "12:30"}},
			"ports":     []any{map[string]any{"containerPort": int64(8080), "name": "http"}},
			"resources": map[string]any{"limits": map[string]any{"cpu": "100m", "memory": "64Mi"}},
		})
	}
	return Object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "app", "namespace": "ns"},
		"spec": map[string]any{"replicas": int64(3), "template": map[string]any{"spec": map[string]any{"containers": containers}}},
	}
}
