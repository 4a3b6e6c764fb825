package page_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/internal/browsertest"
)

// found is what testdata/browser/run.js prints.
type found struct {
	Errors, Requests, Axe []string
	Facts                 struct {
		FirstSection, J, JJ, K, N, Caution, Copied, Search, Address, Theme, Restored, Noscript, Jump string
		Numbers                                                                                      int
		Marks                                                                                        []string
		Closed, Expanded, Sheet, NoscriptTools, Hostile                                              bool
		Wide                                                                                         int `json:"overflow-1440"`
		Medium                                                                                       int `json:"overflow-900"`
		Narrow                                                                                       int `json:"overflow-390"`
	}
	Times  map[string]map[string]float64
	Effort map[string]map[string]float64
}

// TestPageInChromium reads, drives and measures the page in Chromium: three widths, light and dark, axe, the keyboard,
// without a script, 10,000 changes with a processor that is four times slower. Errors of the page, among them
// violations of its content security policy, fail it. Screenshots stay in SLUICE_PAGES if that is set.
func TestPageInChromium(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: make test-e2e")
	}
	dir := os.Getenv("SLUICE_PAGES")
	if dir == "" {
		dir = t.TempDir()
	}
	writePages(t, dir)
	out := browsertest.Run(t, "testdata/browser/run.js", dir)
	var got found
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for what, list := range map[string][]string{"error": got.Errors, "request": got.Requests, "axe": got.Axe} {
		for _, s := range list {
			t.Errorf("%s: %s", what, s)
		}
	}
	got.checkUse(t)
	got.checkTimes(t)
	got.checkEffort(t)
}

// checkUse compares what the keyboard, the search and the address did.
func (got *found) checkUse(t *testing.T) {
	t.Helper()
	f := got.Facts
	if f.Wide > 0 || f.Medium > 0 || f.Narrow > 0 {
		t.Errorf("the page is wider than its window by %d, %d, %d pixels", f.Wide, f.Medium, f.Narrow)
	}
	for what, pair := range map[string][2]string{
		"first section": {f.FirstSection, "Cautions"}, "j": {f.J, "PersistentVolumeClaim backup/archive"}, "j j": {f.JJ, "StatefulSet backup/backup-store"},
		"k": {f.K, "PersistentVolumeClaim backup/archive"}, "n": {f.N, "NetworkPolicy edge/gateway"}, "]": {f.Caution, "StatefulSet backup/backup-store"},
		"x": {f.Copied, "Command copied"}, "search": {f.Search, "1 object in 1 group of 3"}, "address": {f.Address, "?q=checkout"}, "d": {f.Theme, "light"},
		"restored filters": {f.Restored, "replicas 1 true"}, "jump": {f.Jump, "Deployment shop/web-9000"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %q, want %q", what, pair[0], pair[1])
		}
	}
	if f.Numbers == 0 || !strings.Contains(strings.Join(f.Marks, " "), "200Gi 100Gi") || !f.Closed || !f.Expanded || !f.Sheet || f.NoscriptTools || !f.Hostile || !strings.Contains(f.Noscript, "storage: 200Gi") {
		t.Errorf("%+v", f)
	}
}

// checkTimes logs the times and fails only for a page that hangs: the machine may be busy.
func (got *found) checkTimes(t *testing.T) {
	t.Helper()
	const hang = 60_000
	for name, times := range got.Times {
		t.Logf("%s, processor four times slower, milliseconds: %v", name, times)
		for what, ms := range times {
			if ms > hang {
				t.Errorf("%s: %s takes %.0f ms", name, what, ms)
			}
		}
	}
	if len(got.Times) != 2 {
		t.Errorf("%d pages measured", len(got.Times))
	}
}

// checkEffort compares the processor time of keys in reports of 10,000 changes with that in a report of a few: it must not grow with the
// number of changes.
func (got *found) checkEffort(t *testing.T) {
	t.Helper()
	const growth, least = 6, 20.0 // milliseconds: other work of the machine makes the caches of a processor cold
	small := got.Effort["fleet.html"]
	for _, name := range []string{"many.html", "deep.html"} {
		t.Logf("%s, processor time in milliseconds: %v; of a small report: %v", name, got.Effort[name], small)
		for key, like := range map[string]string{"j": "j", "n": "n", "Escape": "Escape", "jAfterEscape": "j"} {
			if ms := got.Effort[name][key]; ms == 0 || ms > growth*max(least, small[like]) {
				t.Errorf("%s: %s takes %.1f ms, in a small report %.1f", name, key, ms, small[like])
			}
		}
	}
}

func writePages(t *testing.T, dir string) {
	t.Helper()
	const changes, large = 10_000, 1000
	for name, r := range map[string]*report.Review{
		"fleet": fleetReview(t), "hostile": hostileReview(t, "\"><img src=x onerror=pwned=1>"), "many": many(changes, 1, ""), "deep": many(changes, large, ""),
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".html"), render(t, r), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
