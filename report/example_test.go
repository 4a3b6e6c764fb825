package report_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/report"
)

// nothing is the review of a change without an effect.
func nothing() *report.Review {
	return &report.Review{
		Fleet: "acme", Base: strings.Repeat("a", 40), Head: strings.Repeat("b", 40),
		Changes: &diff.ChangeSet{}, Verdict: "pass",
	}
}

// Markdown is the comment on a merge request. It stays below the limit of the forge, and says what it left out.
func ExampleMarkdown() {
	text, cut := report.Markdown(nothing(), 60_000)
	fmt.Println(strings.Contains(text, "Sluice"), cut.Any())
	// Output: true false
}

func ExampleTerminal() {
	report.Terminal(os.Stdout, nothing(), report.TerminalOptions{})
	// Output:
	// no effect — the clusters keep what they run
	// ✓ Policy passes
	//
	// aaaaaaaaaaaa → bbbbbbbbbbbb · 0 targets compared · Sluice
}

func ExampleCount() {
	fmt.Println(report.Count(1, "app"), report.Count(1200, "cluster"))
	// Output: 1 app 1,200 clusters
}
