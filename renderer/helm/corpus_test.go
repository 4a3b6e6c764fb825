package helm

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// corpus has real charts.
var corpus = cmp.Or(os.Getenv("CORPUS"), "../../../shared/corpus")

// onCorpus runs a test on each real chart, if there are some. values are some that the chart needs.
func onCorpus(t *testing.T, test func(t *testing.T, c *Chart, values map[string]any)) {
	t.Helper()
	archives, err := filepath.Glob(corpus + "/charts/*.tgz")
	if err != nil {
		t.Fatal(err)
	}
	if len(archives) == 0 {
		t.Skipf("no charts in %s", corpus)
	}
	for _, file := range archives {
		t.Run(filepath.Base(file), func(t *testing.T) {
			packed, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := LoadArchive(packed, DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			var values map[string]any
			if c.chart.Name() == "app-template" {
				values = map[string]any{
					"controllers": map[string]any{"main": map[string]any{"containers": map[string]any{"main": map[string]any{"image": map[string]any{"repository": "r", "tag": "1"}}}}},
					"service":     map[string]any{"main": map[string]any{"controller": "main", "ports": map[string]any{"http": map[string]any{"port": int64(80)}}}},
				}
			}
			test(t, c, values)
		})
	}
}

// chosenSeeds returns SLUICE_REUSE_SEEDS, the first seed of random charts and their number, or else n seeds from 1.
func chosenSeeds(t *testing.T, n uint64) (first, number uint64) {
	t.Helper()
	text := os.Getenv("SLUICE_REUSE_SEEDS")
	if text == "" {
		return 1, n
	}
	if _, err := fmt.Sscan(text, &first, &number); err != nil {
		t.Fatalf("SLUICE_REUSE_SEEDS=%q: give the first seed and the number of seeds: %v", text, err)
	}
	return first, number
}

// countOf returns an environment variable that is a number.
func countOf(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	var n int
	if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
		t.Fatalf("%s=%q is no number above 0", name, text)
	}
	return n
}
