package fetch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/repo"
	"sigs.k8s.io/yaml"
)

func versionsOf(entries []*indexEntry) string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Version+" "+strings.Join(e.URLs, ","))
	}
	return strings.Join(all, ";")
}

func TestFindChartInAllSpellings(t *testing.T) {
	t.Parallel()
	const want = "1.2.3 a.tgz;1.10 b.tgz"
	for name, text := range map[string]string{
		"Helm's":          "apiVersion: v1\nentries:\n  api:\n  - version: 9.9.9\n  web:\n  - version: 1.2.3\n    urls:\n    - a.tgz\n  - urls: [b.tgz]\n    version: 1.10\n  zoo:\n  - version: 8.0.0\ngenerated: x\n",
		"deeper":          "entries:\n    web:\n        - version: 1.2.3\n          urls: [a.tgz]\n        - {version: 1.10, urls: [b.tgz]}\n",
		"last, no end":    "entries:\n  web:\n  - version: 1.2.3\n    urls: [a.tgz]\n  - {version: 1.10, urls: [b.tgz]}",
		"quoted keys":     "\"entries\":\n  'web' : # the web\n  - version: \"1.2.3\"\n    urls: [a.tgz]\n  - {version: '1.10', urls: [b.tgz]}\n",
		"comments, CRLF":  "# x\r\nentries: # all\r\n\r\n# y\r\n  # z\r\n  web:\r\n# w\r\n  - version: 1.2.3\r\n    urls: [a.tgz]\r\n  - {version: 1.10, urls: [b.tgz]}\r\n",
		"block scalars":   "entries:\n  api:\n  - description: |\n      web:\n        entries:\n    version: 1.0.0\n  web:\n  - description: >-\n      api:\n\n      x\n    version: 1.2.3\n    urls: [a.tgz]\n  - {version: 1.10, urls: [b.tgz]}\n",
		"documents":       "---\nentries:\n  web:\n  - version: 1.2.3\n    urls: [a.tgz]\n  - {version: 1.10, urls: [b.tgz]}\n...\n",
		"byte order mark": "\ufeffentries:\n  web:\n  - version: 1.2.3\n    urls: [a.tgz]\n  - {version: 1.10, urls: [b.tgz]}\n",
		"flow":            "{entries: {web: [{version: 1.2.3, urls: [a.tgz]}, {version: 1.10, urls: [b.tgz]}]}}",
		"half flow":       "entries: {web: [{version: 1.2.3, urls: [a.tgz]}, {version: 1.10, urls: [b.tgz]}]}\n",
		"anchors":         "x: &u [b.tgz]\nentries:\n  web:\n  - version: 1.2.3\n    urls: [a.tgz]\n  - version: 1.10\n    urls: *u\n",
		"explicit key":    "entries:\n  ? web\n  : - version: 1.2.3\n      urls: [a.tgz]\n    - {version: 1.10, urls: [b.tgz]}\n",
		"alias":           "x: &w\n- version: 1.2.3\n  urls: [a.tgz]\n- {version: 1.10, urls: [b.tgz]}\nentries:\n  web: *w\n",
		"JSON":            `{"apiVersion":"v1","entries":{"api":[{"version":"9.9.9"}],"web":[{"version":"1.2.3","urls":["a.tgz"],"digest":"x"},{"version":"1.10","urls":["b.tgz"]}]},"generated":"x"}`,
	} {
		got, err := findChart([]byte(text), "web")
		if err != nil || versionsOf(got) != want {
			t.Errorf("%s: versionsOf is %q, the error is %v", name, versionsOf(got), err)
		}
		if got, err := findChart([]byte(text), "nope"); err != nil || got != nil {
			t.Errorf("%s: a chart that is not there: %v, %v", name, got, err)
		}
	}
}

func TestBadIndexes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]*failure{
		"":                                      errBadIndex,
		"entries:\n\tweb: x\n":                  errBadIndex,
		"entries:\n  web: 12\n":                 errBadIndex,
		"entries:\n  web:\n  - version: [1]\n":  errBadIndex,
		`{"entries":{"web":[{"version":1}]}}`:   errBadIndex,
		`{"entries":{"web":[`:                   errBadIndex,
		`{"entries":[]}`:                        errBadIndex,
		`{"entries":{"web":[],"x":1,"web":[]}}`: errTwiceIndex,
		"entries:\n  web:\n  - version: 1.0.0\n  web:\n  - version: 1.0.0\n":    errTwiceIndex,
		"entries: {" + strings.Repeat("a: [],", 400_000) + "}":                  errHugeIndex,
		"entries:\n  web:\n" + strings.Repeat("  - []\n", 600_000):              errHugeIndex,
		"entries:\n  web:\n  - x: '" + strings.Repeat("x", maxYAML) + "'\n":     errHugeIndex,
		"entries:\n  web:\n  - x: " + strings.Repeat("[", 50_000):               errBadIndex,
		"entries:\n  web: &a [*a]\n":                                            errBadIndex,
		`{"entries":{"web":` + strings.Repeat("[", 50_000):                      errBadIndex,
		"a: &a [x,x]\nb: &b [*a,*a]\nentries:\n  web: [*b,*b,*b]\n":             errBadIndex,
		"entries:\n  web:\n  - version: 1.0.0\n    urls: {a: b}\n    x: &x y\n": errBadIndex,
	} {
		if _, err := findChart([]byte(text), "web"); !errors.Is(err, want) {
			t.Errorf("%.60q: the error is %v, want %v", text, err, want)
		}
	}
	for _, text := range []string{
		"apiVersion: v1\n", "<html>\n<body>Sign in</body></html>",
		"- entries:\n  - web: []\n",
	} {
		if _, err := findChart([]byte(text), "web"); err == nil ||
			!strings.Contains(err.Error(), "no `entries`: is the URL that of a chart repository?") {
			t.Errorf("%q: the error is %v", text, err)
		}
	}
}

// The cut must find what a whole decode finds.
func FuzzFindChart(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nentries:\n  api:\n  - version: 9.9.9\n  web:\n  - version: 1.2.3\n    urls:\n    - a.tgz\ngenerated: x\n"))
	f.Add([]byte("entries:\n  web:\n  - description: |\n      web:\n    version: 1.10\n"))
	f.Add([]byte(`{"entries":{"web":[{"version":"1.2.3","urls":["a.tgz"]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 10_000 {
			return
		}
		got, err := findChart(data, "web")
		if err != nil || bytes.ContainsAny(data, "'\"{[&*|>?") {
			return // quoted and flow text may hang out of its indentation; reading it apart is best effort
		}
		want, wholeErr := decodeIndex(data, "web")
		if wholeErr == nil && !reflect.DeepEqual(got, want) && (len(got) > 0 || len(want) > 0) {
			t.Fatalf("cut %q, whole %q", versionsOf(got), versionsOf(want))
		}
	})
}

// bigIndex writes an index the way Helm does.
func bigIndex(tb testing.TB, charts, versions int, asJSON bool) []byte {
	tb.Helper()
	index := repo.NewIndexFile()
	for c := range charts {
		name := fmt.Sprintf("chart-%03d", c)
		for v := range versions {
			md := &chart.Metadata{
				APIVersion: "v2", Name: name, Version: fmt.Sprintf("1.%d.0", v), AppVersion: "1.2.3",
				KubeVersion: ">= 1.23.0-0",
				Description: strings.Repeat("What this chart installs, in a sentence: with punctuation. ", 3),
				Keywords:    []string{"one", "two", "three"}, Home: "https://example.com/" + name,
				Sources:     []string{"https://example.com/src", "https://example.com/img"},
				Maintainers: []*chart.Maintainer{{Name: "Somebody", Email: "somebody@example.com"}},
				Annotations: map[string]string{"images": "- name: a\n  image: b:1.2.3\n- name: c\n  image: d:1.2.3\n"},
			}
			if err := index.MustAdd(md, fmt.Sprintf("%s-1.%d.0.tgz", name, v), "https://charts.example.com",
				strings.Repeat("0", 64)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	var data []byte
	var err error
	if asJSON {
		data, err = json.Marshal(index)
	} else {
		data, err = yaml.Marshal(index)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestIndexAsHelmWritesIt(t *testing.T) {
	t.Parallel()
	for _, asJSON := range []bool{false, true} {
		data := bigIndex(t, 5, 7, asJSON)
		for _, name := range []string{"chart-000", "chart-002", "chart-004"} {
			got, err := findChart(data, name)
			if err != nil || len(got) != 7 || got[6].Version != "1.6.0" ||
				got[6].URLs[0] != "https://charts.example.com/"+name+"-1.6.0.tgz" || indexDigest(got[6].Digest) == "" {
				t.Errorf("%s: versionsOf is %s, the error is %v", name, versionsOf(got), err)
			}
		}
	}
}

func BenchmarkResolveBigIndex(b *testing.B) {
	for _, asJSON := range []bool{false, true} {
		data := bigIndex(b, 150, 150, asJSON)
		b.Run(fmt.Sprintf("json=%v/%dMB", asJSON, len(data)>>20), func(b *testing.B) {
			r := newChartRepo(b, httptest.NewServer)
			archive := packChart(b, "chart-100", "1.149.0", "")
			r.files["a.tgz"] = archive
			text := strings.ReplaceAll(string(data), "https://charts.example.com/chart-100-1.149.0.tgz", "a.tgz")
			r.index = strings.ReplaceAll(text, strings.Repeat("0", 64),
				strings.TrimPrefix(digestOf(archive), digestPrefix))
			b.ReportAllocs()
			for b.Loop() {
				locked, err := newFetcher(b).Resolve(b.Context(), Ref{r.repo(), "chart-100", "^1"})
				if err != nil || locked.Version != "1.149.0" {
					b.Fatal(locked, err)
				}
			}
		})
		b.Run(fmt.Sprintf("rival: whole decode, json=%v", asJSON), func(b *testing.B) {
			for b.Loop() {
				var index repo.IndexFile
				if err := yaml.UnmarshalStrict(data, &index); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
