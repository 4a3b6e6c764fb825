package helm

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// changer writes templates that change maps of the scope in every way known to us, and templates that read them. P is a map of the values,
// D one that can get another one as an item, Q one that can become an item (so that no map contains itself), S a string.
type changer struct{ r *rand.Rand }

func (g changer) of(texts ...string) string { return texts[g.r.IntN(len(texts))] }

func (g changer) expand(text string) string {
	var out strings.Builder
	for _, c := range text {
		switch c {
		case 'P':
			out.WriteString(g.of("$.Values.m1", "$.Values.m1.m1", "$.Values.m1.m2", "$.Values.m2", "$.Values.m2.m1", "$.Values.m2.m2", "$.Values.global", "$.Values.sub"))
		case 'D':
			out.WriteString(g.of("$.Values.m1", "$.Values.m1.m1", "$.Values.sub", "$.Values.global"))
		case 'Q':
			out.WriteString(g.of("$.Values.m2", "$.Values.m2.m1", "$.Values.m2.m2"))
		case 'S':
			out.WriteString(g.of(`"x"`, `"y"`, "$.Values.s1", "$.Values.m2.s1", "$.Release.Name"))
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}

// change is a statement that can change a map.
func (g changer) change() string {
	part := g.of("P", "P.m1", "(default (dict) P)", `(get P "m1")`, `(index P "m2")`, `(dig "m1" "m2" (dict) ($.Values.AsMap))`, "(ternary P Q true)", `(get (omit P "z") "m1")`, `(pluck "m1" P | first)`,
		"(coalesce nil P)", `(P | required "r")`, "(and true P)", "(or nil P)", "(concat $.Values.list (list) | first)", "(append $.Values.list (dict) | first)", "(slice $.Values.list 0 1 | first)",
		"(merge (dict) P).m1", "(first $.Values.list)", "(index $.Values.list 1)", "(last $.Values.list)", "(without $.Values.list nil | first)", "(index (list P Q) 1)", "(rest $.Values.list | first)",
		`(dict "a" (dict "b" P)).a.b`, `(pick P "m1").m1`, "(deepCopy P)", "(deepCopy P).m1", "(fromYaml (toYaml P))", `(set (dict "a" P) "b" Q).a`, `(set (dict "a" P) "a" Q).a`, `(reverse $.Values.list | first)`, "(chunk 1 $.Values.list | first | first)")
	return g.expand(g.of(
		`{{ $_ := set `+part+` "s1" S }}`, `{{ $_ := set `+part+` "s2" S }}`, `{{ $_ := unset `+part+` "s1" }}`, `{{ with `+part+` }}{{ $_ := set . "s1" S }}{{ end }}`, `{{ include "w" `+part+` }}`,
		`{{ include "wm" (dict "m" `+part+` "v" S) }}`, `{{ template "w" `+part+` }}`, `{{ $a := `+part+` }}{{ $_ := set $a "s1" S }}`, `{{ $a := `+part+` }}{{ $b := $a }}{{ if S }}{{ $b = P }}{{ end }}{{ $_ := set $b "s1" S }}`,
		`{{ $_ := merge `+part+` (dict "s3" S "m1" (dict "s3" S)) }}`, `{{ $_ := mergeOverwrite `+part+` (dict "s1" S "m1" (dict "s1" S)) }}`,
		`{{ $_ := set D "x" Q }}`, `{{ $_ := merge D Q }}`, `{{ $_ := mustMergeOverwrite D Q }}`, `{{ $_ := merge (dict) Q (dict "m1" (dict "s3" S)) }}`, `{{ $_ := mergeOverwrite (dict "m1" Q) (dict "m1" (dict "s1" S)) }}`,
		`{{ if hasKey D "x" }}{{ $_ := set D.x "s1" S }}{{ end }}`, `{{ $_ := set D.m1 "s1" S }}`, `{{ $d := dict "a" Q }}{{ $_ := set $d.a "s1" S }}`, `{{ $d := dict }}{{ $_ := set $d "a" Q }}{{ $_ := set $d.a "s1" S }}`,
		`{{ $d := dict "a" (dict) }}{{ $_ := set $d "a" Q }}{{ $_ := set (get $d "a") "s1" S }}`, `{{ $d := dict }}{{ $_ := set $d "a" Q }}{{ $_ := merge $d (dict "a" (dict "s3" S)) }}`,
		`{{ $d := dict }}{{ range $i := until 2 }}{{ if $d.a }}{{ $_ := set $d.a "s1" S }}{{ end }}{{ $_ := set $d "a" Q }}{{ end }}`,
		`{{ range P }}{{ if kindIs "map" . }}{{ $_ := set . "s1" S }}{{ end }}{{ end }}`, `{{ range $k, $v := P }}{{ if kindIs "map" $v }}{{ $_ := unset $v "s2" }}{{ end }}{{ end }}`,
		`{{ range $.Values.list }}{{ $_ := set . "s1" S }}{{ end }}`, `{{ range $.Values.list }}{{ $_ := set . "a" Q }}{{ end }}{{ range $.Values.list }}{{ $_ := set .a "s1" S }}{{ end }}`,
		`{{ tpl $.Values.text $ }}`, `{{ $l := list }}{{ $l = append $l P }}{{ $_ := set (first $l) "s1" S }}`, `{{ $_ := set $.Values "s1" S }}`,
	))
}

func (g changer) reading() string {
	return g.expand(g.of("{{ toJson P }}", "{{ P.s1 }}", "{{ P.s2 }}", "{{ P.s3 }}", "{{ $.Values.s1 }}", "{{ toJson $.Values.list }}", "{{ if P.s1 }}a{{ else }}b{{ end }}", "{{ toJson P.m1 }}", "{{ toJson P.x }}", "{{ $.Values.s2 }}",
		"{{ $.Release.Name }}", `{{ include "r" P }}`))
}

func (g changer) chart() []File {
	file := func() []byte {
		var out strings.Builder
		for range 1 + g.r.IntN(3) {
			if g.r.IntN(5) == 0 {
				out.WriteString(g.change())
			}
			out.WriteString(g.reading() + "\n")
		}
		return []byte(out.String())
	}
	values := "s1: a\ns2: b\nm1: &m {s1: c, s2: d, m1: {s1: e, m1: {s1: k}, m2: {}}, m2: {s1: f, m1: {}, m2: {}}}\nm2: {s1: g, m1: {s1: h, m1: {}, m2: {}}, m2: {m1: {}, m2: {s1: l}}}\nlist: [{s1: i}, {s1: j}]\ntext: t\n"
	return []File{
		{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0, condition: use}]\n")},
		{"values.yaml", []byte(values + "use: false\nsub: {s1: m, m1: {s1: n, m1: {}, m2: {}}, m2: {s1: o, m1: {}, m2: {}}}\nglobal: {s1: p, m1: {m1: {}, m2: {}}, m2: {m1: {}, m2: {}}}\n")},
		{"templates/_h.tpl", []byte(`{{ define "w" }}{{ $_ := set . "s2" "w" }}{{ end }}{{ define "wm" }}{{ $_ := set .m "s1" .v }}{{ end }}{{ define "r" }}{{ .s1 }}{{ with .m1 }}{{ .s1 }}{{ end }}{{ end }}`)},
		{"charts/sub/Chart.yaml", []byte("apiVersion: v2\nname: sub\nversion: 1.0.0\n")},
		{"charts/sub/values.yaml", []byte(values + "sub: {m1: {m1: {}, m2: {}}, m2: {m1: {}, m2: {}}}\n")},
		{"charts/sub/templates/s.txt", file()},
		{"charts/sub/templates/u.txt", file()},
		{"templates/a.txt", file()},
		{"templates/b.txt", file()},
		{"templates/c.txt", file()},
		{"templates/d.txt", file()},
		{"templates/e.txt", file()},
	}
}

// values overrides scalars only, so that nearly all renderings succeed.
func (g changer) values() map[string]any {
	out := map[string]any{"use": g.r.IntN(3) == 0}
	for range g.r.IntN(3) {
		at := out
		for _, key := range [][]string{nil, {"m1"}, {"m1", "m1"}, {"m2"}, {"m2", "m1"}, {"m2", "m2"}, {"sub"}, {"sub", "m1"}, {"global"}}[g.r.IntN(9)] {
			if _, ok := at[key]; !ok {
				at[key] = map[string]any{}
			}
			at = at[key].(map[string]any)
		}
		at[g.of("s1", "s2", "s3")] = g.of("1", "2", "3")
	}
	if g.r.IntN(6) == 0 {
		out["text"] = g.of(`{{ $_ := set .Values.m2 "s1" "t" }}`, `{{ include "w" .Values.m1 }}`, `{{ .Values.s1 }}`)
	}
	return out
}

// Files that change maps of the scope are not reused. The others are, also those that read what was changed.
func TestReuseBesideChangesEqualsHelm(t *testing.T) {
	most := uint64(300)
	if testing.Short() {
		most = 60
	}
	first, n := chosenSeeds(t, most)
	files, found := 0, 0
	for seed := first; seed < first+n; seed++ {
		g := changer{rand.New(rand.NewPCG(seed, 2))}
		parts := g.chart()
		c, err := Load(parts, DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		c.Reuse(NewResults(1 << 20))
		o := options(nil)
		for range 8 {
			o.Values = g.values()
			o.ReleaseName = g.of("r", "r", "r", "q")
			n, reuses, _ := reused(t, c, o)
			files, found = files+n, found+reuses
			if t.Failed() {
				t.Logf("seed %d: values %v", seed, o.Values)
				for _, f := range parts {
					t.Logf("%s:\n%s", f.Path, f.Data)
				}
				return
			}
		}
	}
	t.Logf("%d files, %d reused", files, found)
	if found*20 < files || files < 1000 {
		t.Errorf("only %d of %d files were reused: the test compares nothing", found, files)
	}
}
