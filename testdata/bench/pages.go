package main

import (
	"fmt"
	"strings"
)

// pages measures reports of 10,000 changes and the pages of a fleet of 5,000 × 50 in Chromium, beside their goals. The
// measurements are tests that wait for a variable, because they need the samples of the tests.
func pages(b *bench) error {
	for _, one := range []struct{ what, set, test, pkg string }{
		{"reports of 10,000 changes in Chromium, the least of 6 tries", "SLUICE_PAGE_TRIES=6", "TestPageTimes",
			"./report/page"},
		{"pages of 5,000 clusters × 50 apps (goals: index 2 × git clone, overview 300,000 bytes and 1,000 ms to the first paint, 1,024 MiB)", "SLUICE_SCALE=5000x50", "TestScale", "./site"},
	} {
		fmt.Printf("\n== %s\n", one.what)
		out, err := b.output("", "env", one.set, "SLUICE_BROWSER=required", "go", "test", "-count=1", "-v", "-timeout",
			"30m", "-run", "^"+one.test+"$", one.pkg)
		for line := range strings.Lines(out) {
			if _, logged, ok := strings.Cut(line, "_test.go:"); ok {
				_, text, _ := strings.Cut(logged, ": ")
				fmt.Print(text)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
