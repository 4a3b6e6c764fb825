package helm

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestReuseAfterChanges renders charts in which a file changes what other files read. Every chart must give the text of Helm's engine, with
// values that differ and come back.
func TestReuseAfterChanges(t *testing.T) {
	read := `{{ toJson .Values.a }}|{{ .Values.b.c }}|{{ .Release.Name }}`
	for name, files := range map[string][]string{
		"set, read later":                {"z", `{{ $_ := set .Values.a "k" .Release.Name }}`, "a", read},
		"a later name runs before":       {"b", read, "z", `{{ $_ := set .Values.a "k" .Release.Name }}`, "a", read},
		"through a variable":             {"z", `{{ $x := .Values.a | default dict }}{{ $_ := set $x "k" .Release.Name }}`, "a", read},
		"through a dict":                 {"z", `{{ $d := dict "x" .Values.a }}{{ $_ := set $d.x "k" .Release.Name }}`, "a", read},
		"through a dict that is changed": {"z", `{{ $d := dict }}{{ $_ := set $d "x" .Values.a }}{{ $_ := set $d.x "k" .Release.Name }}`, "a", read},
		"through merge":                  {"z", `{{ $d := merge (dict) .Values (dict "a" (dict "k" .Release.Name)) }}`, "a", read},
		"through mergeOverwrite":         {"z", `{{ $d := mustMergeOverwrite (dict "x" .Values.a) (dict "x" (dict "k" .Release.Name)) }}`, "a", read},
		"map merged twice":               {"z", `{{ $d := dict }}{{ $e := dict "a" $d "b" $d }}{{ $_ := mergeOverwrite $e (dict "a" (dict "x" .Values.a) "b" (dict "x" (dict "k" .Release.Name))) }}`, "a", "{{ .Release.Name }}"},
		"changed map is a source":        {"z", `{{ $s := dict "k" (dict) }}{{ $_ := mergeOverwrite (dict "p" (dict "n" .Values.a) "q" $s) (dict "p" $s "q" (dict "n" (dict "k" .Release.Name))) }}`, "a", "{{ .Release.Name }}"},
		"by an include":                  {"z", `{{ include "change" (dict "m" .Values.a "v" .Release.Name) }}`, "a", read},
		"by a template":                  {"z", `{{ template "change" (dict "m" .Values.a "v" .Release.Name) }}`, "a", read},
		"by a text":                      {"z", `{{ tpl "{{ $_ := set .Values.a \"k\" .Release.Name }}" . }}`, "a", read},
		"by a text through an include":   {"z", `{{ tpl "{{ include \"change\" (dict \"m\" .Values.a \"v\" .Release.Name) }}" . }}`, "a", read},
		"in a list":                      {"z", `{{ $_ := set (first .Values.list) "k" .Release.Name }}`, "a", `{{ toJson .Values.list }}`},
		"in a range":                     {"z", `{{ range $k, $v := .Values.b }}{{ if kindIs "map" $v }}{{ $_ := set $v "k" $.Release.Name }}{{ end }}{{ end }}`, "a", `{{ toJson .Values.b }}`},
		"the map that is ranged over":    {"z", `{{ range $k, $v := .Values.b }}{{ $_ := unset $.Values.b $k }}{{ end }}`, "a", `{{ toJson .Values.b }}`},
		"a new map, then in it":          {"z", `{{ $_ := set .Values "n" (dict) }}`, "y", `{{ $_ := set .Values.n "k" .Release.Name }}`, "a", `{{ toJson .Values.n }}`},
		"one value into another":         {"z", `{{ $_ := set .Values.a "b" .Values.b }}`, "y", `{{ $_ := set .Values.a.b "c" .Release.Name }}`, "a", read},
		"one value into another, equal":  {"z", `{{ $_ := set .Values.same "b" .Values.b }}`, "y", `{{ $_ := set .Values.same.b "c" .Release.Name }}`, "a", read},
		"the scope":                      {"z", `{{ $_ := set . "Values" (dict "a" .Release.Name "b" dict) }}`, "a", read},
		"the chart":                      {"z", `{{ $_ := set . "Chart" (dict "Name" .Release.Name) }}`, "a", `{{ .Chart.Name }}`},
		"the release":                    {"z", `{{ $_ := set .Release "Name" .Values.b.c }}`, "a", read},
		"the release of a subchart":      {"z", `{{ $_ := set .Subcharts.sub.Release "Name" .Values.b.c }}`, "a", read},
		"its own template":               {"z", `{{ $_ := set .Template "Name" .Values.b.c }}{{ .Template.Name }}`, "a", `{{ .Template.Name }}`},
		"the template of another":        {"z", `{{ $_ := set .Subcharts.sub.Template "Name" .Release.Name }}`, "a", `{{ .Subcharts.sub.Template.Name }}`},
		"the template of a later file":   {"a/b/c/d/z", `{{ $_ := set (dict) "k" .Release.Name }}{{ .Values.on }}`, "z", `{{ $_ := set .Subcharts.sub.Template "Name" .Release.Name }}`, "a", `{{ .Subcharts.sub.Template.Name }}`},
		"a scope as a value":             {"z", `{{ $_ := set .Values "n" . }}`, "b", `{{ .Values.n.Template.Name }}`, "a", `{{ .Values.n.Template.Name }}`},
		"a template as a value":          {"z", `{{ $_ := set .Values "n" .Template }}`, "b", `{{ .Values.n.Name }}`, "a", `{{ .Values.n.Name }}`},
		"a value that contains itself":   {"z", `{{ $_ := set .Values.a "n" .Values.a }}`, "b", `{{ len .Values.a }}{{ .Values.a.n.n.n.k }}`, "a", `{{ .Values.b.c }}`},
		"values that double":             {"z", `{{ range until 200 }}{{ $_ := set $.Values "n" (dict "l" $.Values.n "r" $.Values.n) }}{{ end }}`, "a", `{{ len .Values.n }}{{ .Values.b.c }}`},
		"values that are deep":           {"z", `{{ range until 1500 }}{{ $_ := set $.Values "n" (dict "n" $.Values.n) }}{{ end }}`, "a", `{{ len .Values.n }}{{ .Values.b.c }}`},
		"another type":                   {"z", `{{ $_ := set .Values "n" (semver "1.2.3") }}`, "a", `{{ .Values.n.Major }}{{ .Release.Name }}`},
		"texts of a split":               {"z", `{{ $_ := set .Values "n" (split "-" .Release.Name) }}`, "a", `{{ .Values.n._0 }}`},
		"every file":                     {"z", `{{ $_ := set .Values.a "z" .Release.Name }}`, "y", `{{ $_ := set .Values.a "y" .Values.a.z }}`, "x", `{{ $_ := set .Values.a "x" .Values.a.y }}{{ toJson .Values.a }}`, "a", read},
		"only for one release":           {"z", `{{ if eq .Release.Name "r1" }}{{ $_ := set .Values.a "k" 1 }}{{ end }}`, "a", read},
		"only for one value":             {"z", `{{ if .Values.on }}{{ $_ := set .Values.a "k" 1 }}{{ end }}`, "a", read},
		"to the same value":              {"z", `{{ $_ := set .Values "on" true }}`, "a", `{{ .Values.on }}`},
		"a key that may be missing":      {"z", `{{ $_ := unset .Values "on" }}`, "a", `{{ .Values.on }}`},
		"an empty map may be nothing":    {"z", `{{ $m := .Values.maybe | default dict }}{{ $_ := set $m "k" "v" }}{{ toJson $m }}`, "a", `{{ toJson .Values.maybe }}`},
		"the values as a map":            {"z", `{{ $_ := set .Values.AsMap "n" .Release.Name }}`, "a", `{{ .Values.n }}`},
		"globals of a subchart":          {"deep/er/z", `{{ $_ := set .Values.global.g "n" .Release.Name }}`, "a", `{{ toJson .Values.sub }}`},
		"nothing but a local map":        {"z", `{{ $d := dict }}{{ $_ := set $d "k" .Values.b.c }}{{ $d.k }}`, "y", `{{ $d := dict }}{{ $_ := merge $d (dict "k" .Values.b) }}{{ $d.k.c }}`, "a", read},
		"nothing, and a text reads":      {"z", `{{ tpl "{{ .Values.b.c }}" . }}`, "a", read},
		"keywords":                       {"z", `{{ if eq .Release.Name "r1" }}{{ $_ := sortAlpha .Chart.Keywords }}{{ end }}`, "a", `{{ .Chart.Keywords }}`},
	} {
		chart := []File{
			{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\nkeywords: [b, a]\ndependencies: [{name: sub, version: 1.0.0}]\n")},
			{"values.yaml", []byte("a: {k: v}\nb: {c: d, e: {f: g}}\nlist: [{k: v}]\nsame: {b: {c: d, e: {f: g}}}\nglobal: {g: {h: {}}}\nn: {}\n")},
			{"templates/_h.tpl", []byte(`{{ define "change" }}{{ $_ := set .m "k" .v }}{{ end }}`)},
			{"charts/sub/Chart.yaml", []byte("apiVersion: v2\nname: sub\nversion: 1.0.0\n")},
			{"charts/sub/templates/s.txt", []byte("{{ .Release.Name }}{{ toJson .Values.global }}")},
		}
		for i := 0; i < len(files); i += 2 {
			chart = append(chart, File{"templates/" + files[i] + ".txt", []byte(files[i+1])})
		}
		c := reusable(t, chart...)
		found := 0
		for i := range 18 {
			values := map[string]any{"on": i%3 == 0, "b": map[string]any{"c": fmt.Sprint("c", i%2)}}
			if i%5 == 0 {
				values["maybe"] = map[string]any{"x": "y"}
			}
			o := options(values)
			o.ReleaseName = fmt.Sprint("r", i/2%3)
			_, reuses, err := reused(t, c, o)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if found += reuses; t.Failed() {
				t.Fatalf("%s, rendering %d", name, i)
			}
		}
		if found < 10 {
			t.Errorf("%s: only %d files reused: the test compares nothing", name, found)
		}
	}
}

// mergo visits keys in random order, so what a merge changes can be random, too.
func TestMergesThatChangeTheScope(t *testing.T) {
	m := func(items ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(items); i += 2 {
			out[items[i].(string)] = items[i+1]
		}
		return out
	}
	value, local, other := m("k", m()), m(), m("n", m())
	units := map[string]unit{"x": {scope: m("Values", m("v", value)), digests: &digests{sums: &sums{}}}}
	for name, x := range map[string]struct {
		into, from    map[string]any
		changed, lost bool
	}{
		"new maps":                {m("a", m()), m("a", m("b", 1.0)), false, false},
		"a value is read":         {m("a", m()), m("a", value, "b", value), false, false},
		"a value":                 {value, m("x", 1.0), true, false},
		"nothing into a value":    {value, m(), false, false},
		"a value in a map":        {m("a", value), m("a", m("x", 1.0)), true, false},
		"a value two levels down": {m("a", m("b", value)), m("a", m("b", m("x", 1.0))), true, false},
		"beside a value":          {m("a", value), m("b", m("x", 1.0), "a", "text"), false, false},
		"one map twice":           {m("a", local, "b", local), m("a", m("x", value), "b", m("x", m("y", 1.0))), false, true},
		"changed and read":        {m("p", m("n", value), "q", other), m("p", other, "q", m("n", m("y", 1.0))), false, true},
		"into itself":             {local, local, false, false},
		"another type":            {m("a", map[string]string{}), m("a", map[string]string{"x": "y"}), false, true},
	} {
		e := &execution{changes: changes{watching: true, units: units}}
		if _, err := e.merge(x.into, []map[string]any{x.from}, func(into, _ map[string]any) (any, error) { return into, nil }); err != nil || e.changed != x.changed || e.lost != x.lost {
			t.Errorf("%s: changed %t, lost %t, %v", name, e.changed, e.lost, err)
		}
	}
	for name := range functions() {
		if _, watched := (&execution{}).watched(toWatch(functions()))[name]; watched != (kindOfCall(name) == mutatorCall || volatile(name) || name == "toYaml" || name == "fromYaml") {
			t.Errorf("%s: watched %t", name, watched)
		}
	}
}

// A file that changes a map of the scope is executed for each rendering; the ones after it are reused by what it left.
func TestReuseBehindAFileThatChanges(t *testing.T) {
	c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, File{"values.yaml", []byte("a: {b: c}\n")},
		File{"templates/z.txt", []byte(`{{ $_ := set .Values.a "n" (trunc 1 .Values.own) }}`)}, File{"templates/a.txt", []byte(`{{ .Values.a.n }}`)}, File{"templates/b.txt", []byte(`{{ .Values.a.b }}`)},
		File{"templates/c.txt", []byte(`{{ $d := merge (dict "x" 1) .Values.a }}{{ $_ := set $d "y" 2 }}{{ toJson $d }}`)})
	for i, want := range []int{0, 0, 3, 1, 3, 3} { // the first one is rendered without analysis
		_, found, err := reused(t, c, options(map[string]any{"own": []string{"p", "p1", "p2", "q", "q2", "p3"}[i]}))
		if err != nil || found != want {
			t.Errorf("rendering %d: %d files reused, want %d, %v", i, found, want, err)
		}
	}
}

// holder writes templates that change local maps, which share maps with each other and with the values. No map can contain itself: $q gets
// $p but not the other way, and the maps of the values that they get hold only scalars and new maps of scalars.
type holder struct{ changer }

func (g holder) leaf() string {
	return g.of("$.Values.m2.m1.m1", "$.Values.m2.m1.m2", "$.Values.m2.m2.m1", "$.Values.m2.m2.m2")
}

func (g holder) key() string { return g.of(`"m1"`, `"m2"`, `"m3"`) }

// scalars is a map without shared parts.
func (g holder) scalars() string {
	s := g.expand("S")
	return g.of("(dict)", `(dict "s1" `+s+")", `(dict "s2" `+s+` "s3" "z")`, "(deepCopy "+g.leaf()+")", "(fromYaml (toYaml "+g.leaf()+"))", `(fromJson (include "h" (dict "m" (dict) "v" `+s+")))", `(set (dict "s1" "y") "s2" `+s+")")
}

// part is what $p gets as an item.
func (g holder) part() string {
	leaf, other := g.leaf(), g.leaf()
	return g.of(leaf, leaf, "("+leaf+" | default dict)", "(get (dict "+`"k" `+leaf+`) "k")`, "(first (list "+leaf+" "+other+"))", "(ternary "+leaf+" "+other+` (eq $.Release.Name "q"))`, "(or "+leaf+" "+other+")", "(coalesce "+leaf+" (dict))",
		"(omit "+leaf+` "s1")`, g.scalars(), g.scalars(), "$r", "(merge (dict) "+leaf+")")
}

func (g holder) container() string {
	key, part := g.key(), g.part()
	return g.of("(dict "+key+" "+part+")", `(dict "m1" `+part+` "m2" `+g.part()+")", "(merge (dict) (dict "+key+" "+part+"))", "(pick (dict "+key+" "+part+`) "m1" "m2")`, "(set (dict) "+key+" "+part+")", "(deepCopy $p)", "(omit $p "+key+")")
}

func (g holder) file() string {
	var out strings.Builder
	fmt.Fprintf(&out, "{{ $r := %s }}{{ $p := dict }}{{ $p = %s }}{{ $q := dict \"m1\" (dict) \"p\" $p }}", g.of("(dict)", g.leaf(), "("+g.leaf()+" | default dict)"), g.container())
	for range 1 + g.r.IntN(5) {
		key, s, any := g.key(), g.expand("S"), g.of("$p", "$q", "$q.p", "$r")
		item := "(get " + any + " " + key + ` | kindIs "map" | ternary (get ` + any + " " + key + ") (dict))"
		out.WriteString(g.of(
			"{{ $p = "+g.container()+" }}", "{{ $_ := set $q \"p\" $p }}", "{{ $_ := set $p "+key+" "+g.part()+" }}", "{{ $_ := set $q "+key+" "+g.part()+" }}", "{{ $_ := set $r "+key+" "+g.scalars()+" }}", "{{ $_ := set "+any+" \"s1\" "+s+" }}",
			"{{ $_ := unset "+any+" "+key+" }}", "{{ $_ := set "+item+" \"s1\" "+s+" }}", "{{ $_ := merge $q $p (dict "+key+" (dict \"s1\" "+s+")) }}", "{{ $_ := mergeOverwrite $p (dict "+key+" "+g.leaf()+") }}",
			"{{ $_ := mergeOverwrite (dict) $p (dict "+key+" "+g.scalars()+") }}", "{{ $_ := mustMerge $r "+g.scalars()+" "+g.leaf()+" }}", "{{ with "+item+" }}{{ $_ := set . \"s2\" "+s+" }}{{ end }}",
			"{{ if eq "+s+" \"1\" }}{{ $_ := set "+item+" \"s3\" "+s+" }}{{ end }}", "{{ if eq "+s+" \"1\" }}{{ $r = "+g.leaf()+" }}{{ end }}", `{{ include "w" `+any+" }}", `{{ include "wm" (dict "m" `+item+` "v" `+s+") }}",
			"{{ range $k, $v := "+any+" }}{{ if kindIs \"map\" $v }}{{ $_ := set $v \"s3\" $k }}{{ end }}{{ end }}", "{{ "+any+".s1 }}", "{{ toJson "+item+" }}", `{{ include "x/templates/e.txt" $ }}`, `{{ tpl "{{ $_ := set .m \"s1\" \"t\" }}" (dict "m" `+item+" \"Template\" $.Template) }}",
		))
	}
	return out.String() + g.of("{{ toJson $p }}", "{{ toJson $q }}", "{{ toJson $r }}", "{{ $p.s1 }}{{ $q.s3 }}{{ $r.s2 }}", "") + g.reading()
}

func (g holder) chart() []File {
	files := g.changer.chart()
	for i := range files {
		switch name := files[i].Path; {
		case strings.HasSuffix(name, ".tpl"):
			files[i].Data = append(files[i].Data, `{{ define "h" }}{{ $_ := set .m "s2" .v }}{{ toJson .m }}{{ end }}`...)
		case strings.HasSuffix(name, "/e.txt") || strings.HasSuffix(name, "/u.txt"):
			files[i].Data = []byte(g.reading())
		case strings.HasSuffix(name, ".txt"):
			files[i].Data = []byte(g.file())
		}
	}
	return files
}

// The files of each chart change local maps, and by them maps of the scope.
func TestReuseBesideLocalChangesEqualsHelm(t *testing.T) {
	most := uint64(150)
	if testing.Short() {
		most = 50
	}
	first, n := chosenSeeds(t, most)
	files, found, failed := 0, 0, 0
	for seed := first; seed < first+n; seed++ {
		g := holder{changer{rand.New(rand.NewPCG(seed, 3))}}
		parts := g.chart()
		c := reusable(t, parts...)
		for range 8 {
			o := options(g.values())
			o.ReleaseName = g.of("r", "r", "r", "q")
			n, reuses, err := reused(t, c, o)
			files, found = files+n, found+reuses
			if err != nil {
				failed++
			}
			if t.Failed() {
				t.Logf("seed %d: values %v", seed, o.Values)
				for _, f := range parts {
					t.Logf("%s:\n%s", f.Path, f.Data)
				}
				return
			}
		}
	}
	t.Logf("%d files, %d reused, %d renderings failed", files, found, failed)
	if found*20 < files || files < 500 {
		t.Errorf("only %d of %d files were reused: the test compares nothing", found, files)
	}
}

// A rendering ends, also after a template put a map into itself or into many others.
func TestValuesOfATemplateThatContainThemselves(t *testing.T) {
	for _, text := range []string{
		`{{ $_ := set .Values "self" .Values }}{{ tpl "x" . }}`, `{{ $_ := set .Values.a "l" (list (list .Values)) }}{{ tpl "x" . }}`,
		`{{ $l := list }}{{ range until 200 }}{{ $l = list $l $l }}{{ end }}{{ $_ := set .Values "l" $l }}{{ tpl "x" . }}`,
	} {
		c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, File{"values.yaml", []byte("a: {}\n")}, File{"templates/a.txt", []byte(text)})
		for range 3 {
			if _, err := c.Render(t.Context(), options(nil)); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}
