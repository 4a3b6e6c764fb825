package page_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/internal/browsertest"
)

// The goals of large reports, in milliseconds.
const (
	paintGoal  = 1000 // wall time until the first paint, with a processor that is four times slower
	slowGoal   = 100  // wall time until the frame of a key, with a processor that is four times slower
	effortGoal = 25   // processor time of a key until its frame
)

// TestPageTimes measures pages of 10,000 changes in Chromium and prints each time beside its goal. It fails for no
// time, because the machine may be busy. `make bench ONLY=pages` runs it; SLUICE_PAGE_TRIES is how often each time is
// taken, of which the least counts.
func TestPageTimes(t *testing.T) {
	tries := os.Getenv("SLUICE_PAGE_TRIES")
	if tries == "" {
		t.Skip("make bench ONLY=pages")
	}
	dir := t.TempDir()
	writePages(t, dir)
	var got struct{ Slow, Effort map[string]map[string]float64 }
	if err := json.Unmarshal(browsertest.Run(t, "testdata/browser/keys.js", dir, tries), &got); err != nil {
		t.Fatal(err)
	}
	const keys = 20
	if len(got.Slow) != 2 || len(got.Effort) != 3 || len(got.Effort["many"]) < keys {
		t.Fatalf("the result is %+v", got)
	}
	over := 0
	row := func(what, page, name string, ms, goal float64) {
		note := ""
		if ms > goal {
			note, over = "  MISSED", over+1
		}
		t.Logf("%-24s %-6s %-26s %7.1f ms (goal %4.0f)%s", what, page, name, ms, goal, note)
	}
	for _, page := range slices.Sorted(maps.Keys(got.Slow)) {
		for _, name := range slices.Sorted(maps.Keys(got.Slow[page])) {
			goal := float64(slowGoal)
			if name == "paint" || name == "found" { // found is the whole search: four letters and what they find
				goal = paintGoal
			}
			row("four times slower", page, name, got.Slow[page][name], goal)
		}
	}
	for _, page := range slices.Sorted(maps.Keys(got.Effort)) {
		for _, name := range slices.Sorted(maps.Keys(got.Effort[page])) {
			row("processor time of a key", page, name, got.Effort[page][name], effortGoal)
		}
	}
	t.Logf("%d goals missed", over)
}
