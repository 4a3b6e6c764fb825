package helm

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/engine"
)

// unchanged fails if a rendering has changed default values that others share.
func unchanged(t *testing.T, c *Chart) {
	t.Helper()
	for choice, s := range c.selections.charts {
		if s.defaults == nil {
			continue
		}
		now := newDefaults(s.chart)
		if now == nil || len(now.maps) != len(s.defaults.maps) {
			t.Fatalf("selection %q: the defaults have other maps", choice)
		}
		for at, known := range s.defaults.maps {
			if again := now.maps[at]; !known.merged && (again == nil || again.sum != known.sum) {
				t.Fatalf("selection %q: a rendering changed the defaults", choice)
			}
		}
		for name, whole := range s.defaults.whole {
			if sum, _ := (&sums{}).of(whole.values, maxScopeHeight); sum != whole.known.sum || sum != now.whole[name].known.sum {
				t.Fatalf("selection %q: a rendering changed the merged values of %s", choice, name)
			}
		}
	}
}

func defaultsOf(t *testing.T, c *Chart) *defaults {
	t.Helper()
	_, s, err := c.selected(nil)
	if err != nil || s == nil || s.defaults == nil {
		t.Fatalf("no shared defaults: %v", err)
	}
	return s.defaults
}

// Every way to change a default value gives the rendering its own copy, also in a list, of globals, in a subchart and after a merge that
// only passes a reference on.
func TestTemplatesDoNotChangeDefaults(t *testing.T) {
	for _, text := range []string{
		`{{ $_ := set .Values.a "x" .Release.Name }}`, `{{ $_ := set .Values.a.b.c "x" .Release.Name }}`, `{{ $_ := unset .Values.a "b" }}`, `{{ $_ := set (first .Values.list) "x" .Release.Name }}`,
		`{{ range .Values.list }}{{ $_ := set . "x" $.Release.Name }}{{ end }}`, `{{ $_ := set (index .Values.deep 0 0) "x" .Release.Name }}`, `{{ $_ := merge .Values.a (dict "b" (dict "c" (dict "y" .Release.Name))) }}`,
		`{{ $_ := mergeOverwrite .Values (dict "a" (dict "b" (dict "s" .Release.Name))) }}`, `{{ $m := merge (dict) .Values.a }}{{ $_ := mergeOverwrite $m (dict "b" (dict "s" .Release.Name)) }}`,
		`{{ $m := dict "k" .Values.a }}{{ $_ := merge $m (dict "k" (dict "new" .Release.Name)) }}`, `{{ $_ := set .Values "new" .Values.a }}{{ $_ := set .Values.new "x" .Release.Name }}`,
		`{{ $_ := set .Values.global "x" .Release.Name }}`, `{{ $_ := set .Values.global.g "x" .Release.Name }}`, `{{ $_ := set .Values.sub.m "x" .Release.Name }}`, `{{ $_ := set .Values.sub.global.g "x" .Release.Name }}`,
		`{{ $_ := set (.Values.AsMap).a "x" .Release.Name }}`, `{{ $_ := set (pick .Values "a").a "x" .Release.Name }}`, `{{ tpl "{{ $_ := set .Values.a \"x\" .Release.Name }}" . }}`, `{{ $_ := mustMerge .Values.empty (dict "x" .Release.Name) }}`,
		`{{ $_ := mustMergeOverwrite (dict "p" .Values.a "q" .Values.a) (dict "p" (dict "s" .Release.Name) "q" (dict "s" .Release.Name)) }}`, `{{ $_ := merge (dict "p" .Values.a) (dict "p" (dict "z" .Values.empty)) (dict "p" (dict "z" (dict "x" .Release.Name))) }}`,
	} {
		c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")},
			File{"values.yaml", []byte("a: {s: t, b: {s: u, c: {s: v}}}\nlist: [{s: w}, {s: x}]\ndeep: [[{s: p}]]\nempty: {}\nglobal: {g: {s: z}}\nsub: {m: {t: 1}}\n")},
			File{"templates/b.txt", []byte(text + "{{ toJson .Values }}")}, File{"templates/a.txt", []byte("{{ toYaml .Values.a }}{{ toYaml .Values.list }}{{ toYaml .Values.empty }}")},
			File{"charts/sub/Chart.yaml", []byte("apiVersion: v2\nname: sub\nversion: 1.0.0\n")}, File{"charts/sub/values.yaml", []byte("m: {s: q, o: {s: r}}\nglobal: {g: {t: 1}, h: {}}\n")},
			File{"charts/sub/templates/s.txt", []byte(strings.ReplaceAll(text, ".Values.a", ".Values.m") + "{{ toJson .Values }}")})
		for i, name := range []string{"p", "q", "p", "r", "p"} {
			o := options([]map[string]any{{}, {"a": map[string]any{"own": map[string]any{}}}, {"sub": map[string]any{"m": map[string]any{"o": nil}}}}[i%3])
			o.ReleaseName = name
			_, _, _ = reused(t, c, o)
			if t.Failed() {
				t.Fatalf("with %s", text)
			}
		}
	}
}

// A chart that changes one map after the other shares nothing in the end, and is rendered all the same.
func TestSharingEnds(t *testing.T) {
	var values, text strings.Builder
	for i := range 3 * maxRestarts {
		fmt.Fprintf(&values, "m%d: {}\n", i)
		fmt.Fprintf(&text, "{{ $_ := set .Values.m%d \"x\" .Release.Name }}", i)
	}
	c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, File{"values.yaml", []byte(values.String())}, File{"templates/a.txt", []byte(text.String() + "{{ toJson .Values }}")})
	for range 3 {
		if _, _, err := reused(t, c, options(map[string]any{})); err != nil {
			t.Fatal(err)
		}
	}
	if d := defaultsOf(t, c); !d.off.Load() || d.restarts.Load() != maxRestarts+1 {
		t.Errorf("off %t after %d restarts", d.off.Load(), d.restarts.Load())
	}
}

// Renderings share what templates only read.
func TestDefaultsAreShared(t *testing.T) {
	c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}, File{"values.yaml", []byte("a: {b: {c: {}}, list: [{d: 1}]}\nw: {x: {}}\nglobal: {g: {}}\n")},
		File{"templates/a.txt", []byte(`{{ $_ := set .Values.w "y" 1 }}{{ toYaml .Values }}`)})
	for range 2 {
		if _, err := c.Render(t.Context(), options(map[string]any{"own": map[string]any{"e": "f"}, "a": map[string]any{"b": map[string]any{"g": "h"}}})); err != nil {
			t.Fatal(err)
		}
	}
	in, err := c.prepare(options(map[string]any{"a": map[string]any{"b": map[string]any{"g": "h"}}}), true)
	if err != nil {
		t.Fatal(err)
	}
	values, _ := mapOf(in.top["Values"])
	for name, want := range map[string]bool{"a": false, "a.b": false, "a.b.c": true, "w": false, "w.x": true, "global": false, "global.g": false} {
		m := values
		for key := range strings.SplitSeq(name, ".") {
			m, _ = m[key].(map[string]any)
		}
		if m == nil || (in.shared.table(m) != nil) != want {
			t.Errorf("%s: shared %t, want %t", name, !want, want)
		}
	}
}

// Imported values are in the tables of two charts, and two names of one chart have the same defaults: a change of one is none of the other.
func TestChangesOfImportedDefaults(t *testing.T) {
	for _, text := range []string{
		`{{ $_ := set .Values.got "x" .Release.Name }}`, `{{ $_ := set .Values.got.in "x" .Release.Name }}`, `{{ $_ := set .Values.one.exports.data.got.in "x" .Release.Name }}`, `{{ $_ := set .Values.two.m.o "x" .Release.Name }}`,
		`{{ $_ := merge .Values.one .Values.two (dict "m" (dict "o" (dict "y" .Release.Name))) }}`, `{{ $_ := mergeOverwrite .Values.two.m .Values.one.m (dict "o" (dict "s" .Release.Name)) }}`, `{{ $_ := mergeOverwrite (dict "p" .Values.one.m "q" .Values.two.m) (dict "p" (dict "s" .Release.Name)) }}`,
		`{{ $m := merge (dict) (dict "p" .Values.one.m "q" .Values.two.m) }}{{ $_ := set $m.p "x" .Release.Name }}`, `{{ $_ := set .Values.moved "x" .Release.Name }}`, `{{ range $k, $v := .Values.two }}{{ if kindIs "map" $v }}{{ $_ := set $v "x" $.Release.Name }}{{ end }}{{ end }}`,
		`{{ $_ := set (.Values.Table "one.m.o") "x" .Release.Name }}`, `{{ $_ := set .Subcharts.two.Values.m "x" .Release.Name }}`, `{{ $_ := set (slice .Values.list 0 1 | first) "x" .Release.Name }}`, `{{ $_ := set .Values "one" (fromYaml "null") }}`,
		`{{ $l := append (slice .Values.list 0 1) (dict "x" .Release.Name) }}{{ toJson (reverse $l) }}`, `{{ $l := concat .Values.list .Values.list }}{{ $_ := unset (last $l) "s" }}`, `{{ $_ := set .Values.one.global.g "x" .Release.Name }}`,
	} {
		c := reusable(t, File{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\ndependencies:\n- {name: sub, alias: one, version: 1.0.0, import-values: [data, {child: m, parent: moved}]}\n- {name: sub, alias: two, version: 1.0.0, import-values: [data], condition: two.on}\n")},
			File{"values.yaml", []byte("got: {own: 1}\nlist: [{s: a}, {s: b}]\ntwo: {m: {t: 1}}\nglobal: {g: {s: z}}\n")},
			File{"templates/b.txt", []byte(text + "{{ toJson .Values }}")}, File{"templates/a.txt", []byte("{{ toJson .Values }}{{ toYaml .Values.got }}{{ toJson .Subcharts }}")},
			File{"charts/sub/Chart.yaml", []byte("apiVersion: v2\nname: sub\nversion: 1.0.0\n")}, File{"charts/sub/values.yaml", []byte("exports: {data: {got: {in: {s: t}}}}\nm: {s: q, o: {s: r}}\nglobal: {g: {t: 1}}\n")},
			File{"charts/sub/templates/s.txt", []byte("{{ toJson .Values }}{{ toYaml .Values.m }}")})
		for i, name := range []string{"p", "q", "p", "r", "p", "q"} {
			o := options([]map[string]any{{}, {"one": map[string]any{"m": map[string]any{"o": nil}}}, {"got": map[string]any{"in": map[string]any{"s": nil}}, "two": map[string]any{"on": false}}, {"global": map[string]any{"g": nil}}}[i%4])
			o.ReleaseName = name
			_, _, _ = reused(t, c, o)
			if t.Failed() {
				t.Fatalf("with %s and %v", text, o.Values)
			}
		}
	}
}

// Renderings at the same time find out at the same time that a template changes defaults.
func TestChangesOfDefaultsAtTheSameTime(t *testing.T) {
	for seed := range uint64(4) {
		g := changer{rand.New(rand.NewPCG(seed, 3))}
		c := reusable(t, g.chart()...)
		var all sync.WaitGroup
		for range 6 {
			o := options(g.values())
			o.ReleaseName = g.of("r", "q", "s")
			var wants [2]map[string]string
			for i := range wants {
				work, top, err := unshared(c, o)
				if err != nil {
					t.Fatal(err)
				}
				wants[i], _ = engine.Engine{}.Render(work, top)
			}
			all.Go(func() {
				for range 4 {
					_, out, err := c.attempt(t.Context(), o)
					if (err == nil) != (wants[0] != nil && wants[1] != nil) {
						t.Errorf("seed %d: %v", seed, err)
						return
					}
					for name, want := range wants[0] {
						if err == nil && out.files[name].text != want && wants[1][name] == want {
							t.Errorf("seed %d: %s: got\n%s\nwant\n%s", seed, name, out.files[name].text, want)
						}
					}
				}
			})
		}
		all.Wait()
		unchanged(t, c)
	}
}
