package page_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/internal/browsertest"
	"github.com/sluice-gitops/sluice/report"
)

// found is what testdata/browser/run.js prints.
type found struct {
	Errors, Requests, Axe []string
	Facts                 struct {
		FirstSection, J, JJ, K, N, Caution, Copied, Search, Address, Theme, Restored, Noscript, Jump string
		Far, Around, P, FirstOfFar, LastBefore, Window, AfterEscape, Order, Printed                  string
		Numbers                                                                                      int
		Marks                                                                                        []string
		Closed, Expanded, Sheet, NoscriptTools, Hostile, Stays                                       bool
		DrawnBefore                                                                                  int
		Wide                                                                                         int `json:"overflow-1440"`
		Medium                                                                                       int `json:"overflow-900"`
		Narrow                                                                                       int `json:"overflow-390"`
	}
	Times  map[string]map[string]float64
	Counts map[string]map[string]counts
}

// counts is what a page does on a key until after the next frame.
type counts struct {
	Added  int // elements that the script adds
	Styled int // elements whose style the browser computes
	Laid   int // boxes that the browser lays out
	Script int // runs of blocks of the script
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
			t.Errorf("%s: the state is %s", what, s)
		}
	}
	got.checkUse(t)
	got.checkTimes(t)
	got.checkCounts(t)
}

// checkUse compares what the keyboard, the search and the address did.
func (got *found) checkUse(t *testing.T) {
	t.Helper()
	f := got.Facts
	if f.Wide > 0 || f.Medium > 0 || f.Narrow > 0 {
		t.Errorf("the page is wider than its window by %d, %d, %d pixels", f.Wide, f.Medium, f.Narrow)
	}
	for what, pair := range map[string][2]string{
		"first section": {f.FirstSection, "Cautions"}, "j": {f.J, "PersistentVolumeClaim backup/archive"},
		"j j": {f.JJ, "StatefulSet backup/backup-store"},
		"k":   {f.K, "PersistentVolumeClaim backup/archive"}, "n": {f.N, "Deployment shop/web"},
		"]": {f.Caution, "StatefulSet backup/backup-store"},
		"x": {f.Copied, "Command copied"}, "search": {f.Search, "1 object in 1 group of 3"},
		"address": {f.Address, "?q=checkout"}, "d": {f.Theme, "light"},
		"restored filters": {f.Restored, "replicas 1 true"}, "jump": {f.Jump, "Deployment shop/web-9000"},
		"groups above the window":                           {f.Window, "Deployment shop/web-8224"},
		"the object after Escape":                           {f.AfterEscape, f.Window},
		"print: side, tools, acts, all hunks as rows, fits": {f.Printed, "false false false true true"},
		"order of the groups":                               {f.Order, "ascending in each app"},
		"an object far down":                                {f.Far, "Service shop/web-5700"}, "objects around it": {f.Around, "false true"},
		"p from there":                             {f.P, "Deployment shop/web-4000"},
		"n to the group that is drawn far down":    {f.FirstOfFar, "Service shop/web-5000"},
		"k to the last object of the group before": {f.LastBefore, "Service shop/web-4999"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: the pair is %q, want %q", what, pair[0], pair[1])
		}
	}
	if f.Numbers == 0 || !strings.Contains(strings.Join(f.Marks, " "), "200Gi 100Gi") || !f.Closed || !f.Expanded ||
		!f.Sheet || f.NoscriptTools || !f.Hostile || !f.Stays || f.DrawnBefore > 100 ||
		!strings.Contains(f.Noscript, "storage: 200Gi") {
		t.Errorf("the facts are %+v", f)
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

// checkCounts bounds what each key does in reports of 10,000 changes: a few times what it does now. To draw or to lay
// out everything takes ten to a hundred times as much. `make bench ONLY=pages` measures the processor time of the keys.
func (got *found) checkCounts(t *testing.T) {
	t.Helper()
	for _, name := range []string{"fleet.html", "many.html", "deep.html"} {
		var all counts
		for key, c := range got.Counts[name] {
			most := counts{Added: 1000, Styled: 1000, Laid: 1500, Script: 5000}
			if key == "?" {
				// an open dialog makes everything else inert, which is a style of all elements that are drawn
				most.Styled = 6000
			}
			if c.Added > most.Added || c.Styled > most.Styled || c.Laid > most.Laid || c.Script > most.Script {
				t.Errorf("%s: %s: %+v, want at most %+v", name, key, c, most)
			}
			all.Added, all.Styled, all.Laid, all.Script = all.Added+c.Added, all.Styled+c.Styled, all.Laid+c.Laid,
				all.Script+c.Script
		}
		t.Logf("%s: %+v", name, got.Counts[name])
		if len(got.Counts[name]) < 20 || min(all.Added, all.Styled, all.Laid, all.Script) < 100 {
			t.Errorf("%s: %d keys, %+v", name, len(got.Counts[name]), all)
		}
	}
}

func writePages(t *testing.T, dir string) {
	t.Helper()
	const changes, large = 10_000, 1000
	for name, r := range map[string]*report.Review{
		"fleet": fleetReview(t), "hostile": hostileReview(t, "\"><img src=x onerror=pwned=1>"),
		"many": many(changes, 1, ""), "deep": many(changes, large, ""),
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".html"), render(t, r), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
