package helm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"testing"
)

// FuzzLoadArchive packs a file of any name and content into a chart beside a valid Chart.yaml: loading it ends, keeps
// within the limits, and refuses whatever leaves the chart.
func FuzzLoadArchive(f *testing.F) {
	for _, one := range [][2]string{
		{"web/values.yaml", "a: &a [1, 2]\nb: *a\n"},
		{"web/templates/x.yaml", "{{ .Values.a }}"},
		{"web/charts/y.tgz", string(packed(f, map[string][]byte{"y/Chart.yaml": chartYAML("y")}))},
		{"web/../x", ""},
		{"web/Chart.lock", "digest: x\ngenerated: 2020-01-01T00:00:00Z\n"},
		{"web/requirements.yaml", "dependencies: [{name: x, version: 1.0.0, repository: https://x}]\n"},
		{"web/values.schema.json", "{}"},
		{"", "\x00"},
	} {
		f.Add(one[0], one[1])
	}
	limits := Limits{Entries: 20, Bytes: 1 << 20}
	f.Fuzz(func(t *testing.T, name, text string) {
		var out bytes.Buffer
		zipped := gzip.NewWriter(&out)
		archive := tar.NewWriter(zipped)
		for _, file := range [][2]string{{"web/Chart.yaml", string(chartYAML("web"))}, {name, text}} {
			if archive.WriteHeader(&tar.Header{
				Name: file[0], Typeflag: tar.TypeReg, Mode: 0o644,
				Size: int64(len(file[1])),
			}) != nil {
				return // a name that no archive can hold
			}
			if _, err := archive.Write([]byte(file[1])); err != nil {
				t.Fatal(err)
			}
		}
		if archive.Close() != nil || zipped.Close() != nil {
			t.Fatal("writing to memory fails")
		}
		chart, err := LoadArchive(Helm3, out.Bytes(), limits)
		if err == nil && chart.Name() == "" {
			t.Error("a chart without a name")
		}
	})
}
