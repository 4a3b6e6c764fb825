package helm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

func files(pairs ...string) []File {
	out := []File{{"Chart.yaml", []byte("apiVersion: v2\nname: x\nversion: 1.0.0\n")}}
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, File{pairs[i], []byte(pairs[i+1])})
	}
	return out
}

// eachVersion runs a test with each version of Helm.
func eachVersion(t *testing.T, test func(t *testing.T, v Version)) {
	t.Helper()
	for _, v := range []Version{Helm3, Helm4} {
		t.Run(fmt.Sprint("Helm", v), func(t *testing.T) { test(t, v) })
	}
}

func chartOf(t *testing.T, v Version, pairs ...string) *Chart {
	t.Helper()
	c, err := Load(v, files(pairs...), DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func options(values map[string]any) Options {
	return Options{ReleaseName: "r", Namespace: "n", KubeVersion: "1.33.2", Values: values}
}

func TestSchemasReachNothingBeyondThemselves(t *testing.T) {
	eachVersion(t, func(t *testing.T, v Version) {
		for name, c := range map[string]struct{ schema, want string }{
			"local":    {`{"properties": {"a": {"$ref": "#/$defs/s"}}, "$defs": {"s": {"type": "string"}}}`, ""},
			"meta":     {`{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"type": "string"}}}`, ""},
			"http":     {`{"properties": {"a": {"$ref": "http://127.0.0.1:1/s.json"}}}`, "http://127.0.0.1:1/s.json"},
			"file":     {`{"properties": {"a": {"$ref": "file:///etc/passwd"}}}`, "file:///etc/passwd"},
			"relative": {`{"properties": {"a": {"$ref": "other.json"}}}`, "other.json"},
			"by id": {
				`{"$id": "http://127.0.0.1:1/base/", "properties": {"a": {"$ref": "other.json"}}}`,
				"http://127.0.0.1:1/base/other.json",
			},
			"dynamic":   {`{"properties": {"a": {"$dynamicRef": "https://127.0.0.1:1/x#a"}}}`, "https://127.0.0.1:1/x"},
			"schema":    {`{"$schema": "https://127.0.0.1:1/meta.json"}`, "https://127.0.0.1:1/meta.json"},
			"no schema": {`{"properties": 5}`, "values.schema.json"},
			"violated":  {`{"properties": {"a": {"type": "integer"}}}`, ": a: got string, want integer"},
			"unknown": {
				`{"properties": {"z": {}}, "additionalProperties": false}`,
				"additional properties 'a', 'b', 'c', 'd', 'e' not allowed",
			},
		} {
			chart := chartOf(t, v, "values.schema.json", c.schema, "values.yaml", "e: 1\na: text\nd: 1\nb: 1\nc: 1\n")
			_, err := chart.Render(t.Context(), options(nil))
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s: the error is %v", name, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%s: the error is %v, want %q", name, err, c.want)
			}
			o := options(nil)
			o.SkipSchema = true
			if _, err := chart.Render(t.Context(), o); err != nil {
				t.Errorf("%s: schema: skip: %v", name, err)
			}
		}
	})
}

func tarball(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for _, h := range append([]tar.Header{{
		Name: "x/Chart.yaml", Typeflag: tar.TypeReg,
		Size: int64(len("name: x\nversion: 1.0.0\n")),
	}}, headers...) {
		h.Mode = 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		data := bytes.Repeat([]byte("y"), int(h.Size))
		if h.Name == "x/Chart.yaml" {
			data = []byte("name: x\nversion: 1.0.0\n")
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestHostileArchivesAreRefused(t *testing.T) {
	eachVersion(t, func(t *testing.T, v Version) {
		if _, err := LoadArchive(v, tarball(t), DefaultLimits()); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			header tar.Header
			want   string
		}{
			"parent":   {tar.Header{Name: "x/../../etc/passwd", Typeflag: tar.TypeReg}, "leaves it"},
			"absolute": {tar.Header{Name: "/etc/passwd", Typeflag: tar.TypeReg}, "leaves it"},
			"drive":    {tar.Header{Name: `x/C:\x`, Typeflag: tar.TypeReg}, "leaves it"},
			"symlink": {
				tar.Header{Name: "x/templates/l.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
				"link or a device",
			},
			"hard link": {
				tar.Header{Name: "x/l", Typeflag: tar.TypeLink, Linkname: "x/Chart.yaml"},
				"link or a device",
			},
			"device": {tar.Header{Name: "x/d", Typeflag: tar.TypeChar}, "link or a device"},
			"large":  {tar.Header{Name: "x/big", Typeflag: tar.TypeReg, Size: 3 << 20}, "larger"},
		} {
			_, err := LoadArchive(v, tarball(t, c.header), Limits{Entries: 10, Bytes: 1 << 20})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: the error is %v, want %q", name, err, c.want)
			}
		}
		var many []tar.Header
		for i := range 20 {
			many = append(many, tar.Header{Name: fmt.Sprint("x/", i), Typeflag: tar.TypeReg})
		}
		if _, err := LoadArchive(v, tarball(t, many...), Limits{Entries: 10, Bytes: 1 << 20}); err == nil {
			t.Error("more entries than the limit were taken")
		}
		if _, err := LoadArchive(v, []byte("no archive"), DefaultLimits()); err == nil {
			t.Error("text that is no archive was taken")
		}
	})
}

func TestRenderChangesNeitherChartNorValues(t *testing.T) {
	eachVersion(t, func(t *testing.T, v Version) {
		chart := chartOf(t, v,
			"values.yaml", "a: {b: 1}\nsub: {c: 2}\n",
			"charts/sub/Chart.yaml", "name: sub\nversion: 1.0.0\n", "charts/sub/values.yaml", "c: 1\ne: {f: 3}\n",
			"templates/a.yaml", "v: {{ .Values | toJson | quote }}\n")
		values := map[string]any{"a": map[string]any{"b": nil, "g": "h"}}
		before, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		first, err := chart.Render(t.Context(), options(values))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := chart.Render(t.Context(), options(map[string]any{
			"a":   "another shape",
			"sub": map[string]any{"e": nil},
		})); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				again, err := chart.Render(t.Context(), options(maps.Clone(values)))
				if err != nil || string(again.Documents[0].Text) != string(first.Documents[0].Text) {
					t.Errorf("%s, then %s (%v)", first.Documents[0].Text, again.Documents[0].Text, err)
				}
			})
		}
		group.Wait()
		if after, _ := json.Marshal(values); string(after) != string(before) {
			t.Errorf("values became %s", after)
		}
	})
}

func TestWhatHelmRefusesIsRefused(t *testing.T) {
	eachVersion(t, func(t *testing.T, v Version) {
		for name, c := range map[string]struct {
			files []string
			want  string
		}{
			"library": {
				[]string{"Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\ntype: library\n"},
				"library",
			},
			"dependency": {[]string{
				"Chart.yaml",
				"apiVersion: v2\nname: x\nversion: 1.0.0\ndependencies: [{name: d, version: 1.x, repository: \"https://example.com\"}]\n",
			}, "sluice deps lock"},
			"version": {
				[]string{
					"Chart.yaml",
					"apiVersion: v2\nname: x\nversion: 1.0.0\nkubeVersion: \">=1.99.0-0\"\n",
				},
				"needs Kubernetes >=1.99.0-0",
			},
			"fail": {
				[]string{"templates/a.yaml", "a: 1\n{{ fail \"set the host\" }}\n"},
				"x/templates/a.yaml:2:3: set the host",
			},
			"required": {
				[]string{"templates/a.yaml", "{{ required \"host is needed\" .Values.host }}\n"},
				"host is needed",
			},
			"syntax": {[]string{"templates/a.yaml", "{{ nope }}\n"}, `"nope" not defined`},
		} {
			_, err := chartOf(t, v, c.files...).Render(t.Context(), options(nil))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: the error is %v, want %q", name, err, c.want)
			}
		}
		o := options(nil)
		o.MaxOutput = 100
		if _, err := chartOf(t, v, "templates/a.yaml", "{{ repeat 1000 \"x\" }}").Render(t.Context(), o); err == nil ||
			!strings.Contains(err.Error(), "MiB of text") {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestAddedDependenciesAreUsed(t *testing.T) {
	eachVersion(t, func(t *testing.T, v Version) {
		chart := chartOf(t, v, "Chart.yaml",
			"apiVersion: v2\nname: x\nversion: 1.0.0\ndependencies: [{name: d, version: 1.x, repository: \"https://example.com\", alias: e}]\n")
		if missing := chart.Missing(); len(missing) != 1 || missing[0] != (Dependency{
			"d", "1.x",
			"https://example.com",
		}) {
			t.Fatalf("the missing is %+v", missing)
		}
		d, err := Load(v, []File{
			{"Chart.yaml", []byte("apiVersion: v2\nname: d\nversion: 1.2.0\n")},
			{"templates/a.yaml", []byte("v: {{ .Values.v }}")},
		}, DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		chart.Add(d)
		got, err := chart.Render(t.Context(), options(map[string]any{"e": map[string]any{"v": "hi"}}))
		if err != nil || len(got.Documents) != 1 || !strings.HasPrefix(string(got.Documents[0].Text), "v: hi") {
			t.Errorf("the result of Render is %+v, the error is %v", got, err)
		}
	})
}

// Helm 3 refuses files of more than 5 MiB, Helm 4 only charts of more than 100 MiB. The limits of a chart hold for
// both.
func TestLargeFiles(t *testing.T) {
	eachVersion(t, func(t *testing.T, v Version) {
		large := []File{{"Chart.yaml", chartYAML("a")}, {"large.bin", make([]byte, 6<<20)}}
		archive := packed(t, map[string][]byte{"a/Chart.yaml": large[0].Data, "a/large.bin": large[1].Data})
		for limits, want := range map[Limits]string{
			DefaultLimits():               "larger than Helm's limit of 5 MiB",
			{Entries: 10, Bytes: 4 << 20}: "larger than 4 MiB",
		} {
			if v == Helm4 && limits == DefaultLimits() {
				want = ""
			}
			_, asFiles := Load(v, large, limits)
			_, asArchive := LoadArchive(v, archive, limits)
			if (asFiles == nil) != (want == "") || asFiles != nil && !strings.Contains(asFiles.Error(), want) {
				t.Errorf("a folder with a file of 6 MiB within %d MiB: got %v, want %q", limits.Bytes>>20, asFiles,
					want)
			}
			if (asArchive == nil) != (want == "") {
				t.Errorf("an archive with a file of 6 MiB within %d MiB: got %v, want an error: %t", limits.Bytes>>20,
					asArchive, want != "")
			}
		}
	})
}

func TestHookOf(t *testing.T) {
	for annotation, want := range map[string]Hook{
		"": NoHook, "pre-install": KeptHook,
		"Post-Upgrade, pre-rollback": KeptHook, "test": TestHook, "test-success": TestHook,
		"pre-install,test": TestHook, "test,pre-install": TestHook, "crd-install": NeverHook,
		"test,crd-install": NeverHook,
	} {
		if got := HookOf(annotation); got != want {
			t.Errorf("%q: the result of HookOf is %v", annotation, got)
		}
	}
}

// packed returns an archive of a chart's files.
func packed(tb testing.TB, files map[string][]byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{
			Name: name, Typeflag: tar.TypeReg, Mode: 0o644,
			Size: int64(len(files[name])),
		}); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write(files[name]); err != nil {
			tb.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func chartYAML(name string) []byte {
	return []byte("apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n")
}

// A packed subchart passes the checks of a packed chart, at any depth, and also in a directory. All subcharts share
// one budget.
func TestPackedSubchartsAreChecked(t *testing.T) {
	eachVersion(t, func(t *testing.T, v Version) {
		limits := Limits{Entries: 50, Bytes: 1 << 20}
		nest := func(inner []byte, levels int) []byte {
			for range levels {
				inner = packed(t, map[string][]byte{"x/Chart.yaml": chartYAML("x"), "x/charts/y.tgz": inner})
			}
			return inner
		}
		link := tarball(t, tar.Header{Name: "x/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"})
		leaves := tarball(t, tar.Header{Name: "x/../../out", Typeflag: tar.TypeReg, Size: 1})
		big := packed(t, map[string][]byte{"x/Chart.yaml": chartYAML("x"), "x/big": make([]byte, 700<<10)})
		good := packed(t, map[string][]byte{"x/Chart.yaml": chartYAML("x")})
		bomb := packed(t, map[string][]byte{"x/Chart.yaml": chartYAML("x"), "x/values.yaml": aliasBomb()})
		for name, c := range map[string]struct {
			inner []byte
			want  string
		}{
			"link":        {link, "link or a device"},
			"deep link":   {nest(link, 3), "link or a device"},
			"leaves":      {nest(leaves, 1), "leaves it"},
			"too deep":    {nest(good, 12), "deep"},
			"no archive":  {[]byte("junk"), "not a packed chart"},
			"alias bomb":  {bomb, "values.yaml"},
			"good":        {nest(good, 3), ""},
			"big by half": {big, ""},
		} {
			_, err := LoadArchive(v, packed(t, map[string][]byte{
				"a/Chart.yaml":   chartYAML("a"),
				"a/charts/x.tgz": c.inner,
			}), limits)
			_, inDirectory := Load(v, []File{{"Chart.yaml", chartYAML("a")}, {"charts/x.tgz", c.inner}}, limits)
			for _, err := range []error{err, inDirectory} {
				if c.want == "" && err != nil || c.want != "" && (err == nil ||
					!strings.Contains(err.Error(), c.want)) {
					t.Errorf("%s: the error is %v", name, err)
				}
			}
		}
		_, err := Load(v, []File{{"Chart.yaml", chartYAML("a")}, {"charts/x.tgz", big}, {"charts/y.tgz", big}}, limits)
		if err == nil || !strings.Contains(err.Error(), "larger than") {
			t.Errorf("two halves: %v", err)
		}
	})
}

func aliasBomb() []byte {
	out := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 12 {
		out += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return []byte(out)
}

// Sprig's sortAlpha sorts a list of strings in place. Renderings share the chart, not the lists.
func TestSortedMetadataStaysOfOneRendering(t *testing.T) {
	eachVersion(t, func(t *testing.T, v Version) {
		c := chartOf(t, v, "Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\nkeywords: [b, a]\nsources: [d, c]\n",
			"templates/x.yaml", "first: {{ first .Chart.Keywords }}{{ first .Chart.Sources }}\nsorted: {{ sortAlpha .Chart.Keywords }}{{ sortAlpha .Chart.Sources }}")
		for i := range 3 {
			result, err := c.Render(t.Context(), options(nil))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := string(result.Documents[0].Text), "first: bd\nsorted: [a b][c d]\n"; got != want {
				t.Errorf("rendering %d: got %q, want %q", i, got, want)
			}
		}
	})
}
