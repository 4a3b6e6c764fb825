package helm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
)

// TestFollowLinksEqualsHelm loads the same directory from a disk with Helm.
func TestFollowLinksEqualsHelm(t *testing.T) {
	chart := files("values.yaml", "a: 1\n", "templates/a.yaml", "x: {{ .Files.Get \"config/b.txt\" }}\n",
		"shared/one.txt", "one", "shared/deep/two.txt", "two", ".helmignore", "ci/\n*.bak\n")
	links := []Link{
		{"templates/b.yaml", "a.yaml"},
		{"config", "shared"},
		{"again.txt", "config/deep/two.txt"},
		{"shared/deep/three.txt", "../one.txt"},
		{"ci/values.yaml", "../../outside.yaml"},
		{"nowhere.bak", "nowhere"},
	}
	dir := filepath.Join(t.TempDir(), "x")
	for _, f := range chart {
		name := filepath.Join(dir, f.Path)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range links[:4] { // Helm fails on broken links even if they are ignored
		if err := os.Symlink(l.Target, filepath.Join(dir, l.Path)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := loader.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := FollowLinks(chart, links, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(Helm3, got, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	var have, expected []string
	for _, f := range loaded.chart.(helm3).chart.Raw {
		have = append(have, f.Name+"="+string(f.Data))
	}
	for _, f := range want.Raw {
		expected = append(expected, f.Name+"="+string(f.Data))
	}
	slices.Sort(have)
	slices.Sort(expected)
	if len(have) != 12 || !slices.Equal(have, expected) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(expected, "\n"))
	}
}

func TestFollowLinksRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		links []Link
		want  string
	}{
		"leaves":         {[]Link{{"a", "../secret"}}, "outside the chart"},
		"leaves later":   {[]Link{{"a", "templates/../../secret"}}, "outside the chart"},
		"leaves by link": {[]Link{{"a", "b"}, {"b", ".."}}, "outside the chart"},
		"absolute":       {[]Link{{"a", "/etc/passwd"}}, "absolute path"},
		"nowhere":        {[]Link{{"a", "b"}}, "does not exist"},
		"itself":         {[]Link{{"a", "a"}}, "to itself"},
		"each other":     {[]Link{{"a", "b"}, {"b", "a"}}, "to itself"},
		"its directory":  {[]Link{{"templates/a", "."}}, "leads back to"},
		"the chart":      {[]Link{{"templates/a", ".."}}, "leads back to"},
		"two circles":    {[]Link{{"d/a", "../e"}, {"e/b", "../d"}}, "leads back to"},
	} {
		_, err := FollowLinks(files("templates/x.yaml", "x", "d/f", "1", "e/f", "1"), c.links, DefaultLimits())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// TestFollowLinksReportsTheFirstError repeats a call with two wrong links inside a directory: the order of Go's maps
// differs each time.
func TestFollowLinksReportsTheFirstError(t *testing.T) {
	links := []Link{{"a", "d"}}
	for i := range 8 {
		links = append(links, Link{fmt.Sprintf("d/%d", i), "missing"})
	}
	for range 50 {
		_, err := FollowLinks(files("d/f", "1", ".helmignore", "d/?\n"), links, DefaultLimits())
		if err == nil || !strings.HasPrefix(err.Error(), "d/0 ") {
			t.Fatal(err)
		}
	}
}

// Each directory holds two links to the one below: 2^30 files.
func TestFollowLinksBoundsMultiplication(t *testing.T) {
	var links []Link
	for i := range 30 {
		for _, name := range []string{"a", "b"} {
			links = append(links, Link{fmt.Sprintf("d%02d/%s", i, name), fmt.Sprintf("../d%02d", i+1)})
		}
	}
	for _, leaf := range []string{"d30/f", "d30/.helmignore"} {
		_, err := FollowLinks(files(leaf, "*"), links, Limits{Entries: 1000, Bytes: 1 << 20})
		if err == nil || !strings.Contains(err.Error(), "lead to more than") {
			t.Errorf("%s: the error is %v", leaf, err)
		}
	}
}
