package report_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/report"
)

// A pin of a hostile lock file is shown as text; a count that is not known is left out.
func TestPins(t *testing.T) {
	t.Parallel()
	n := 1200
	r := &report.Review{Verdict: report.VerdictPass, Pins: []report.Pin{
		{Name: "base", From: strings.Repeat("a", 40), To: strings.Repeat("b", 40), Targets: &n},
		{Name: "x`| <img src=x> @all\x1b[31m", From: "1\n## Sluice: fine", To: "2"},
	}}
	text, _ := report.Markdown(r, 60_000)
	for _, want := range []string{"### Repositories", "| `base` | `aaaaaaaaaaaa` | `bbbbbbbbbbbb` | 1,200 targets |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	var terminal strings.Builder
	report.Terminal(&terminal, r, report.TerminalOptions{})
	if want := "repository base aaaaaaaaaaaa → bbbbbbbbbbbb: changes the inputs of 1,200 targets\n"; !strings.Contains(terminal.String(), want) {
		t.Errorf("no %q in\n%s", want, terminal.String())
	}
	for _, out := range []string{text, terminal.String()} {
		if strings.Contains(out, "\x1b") || strings.Contains(out, "\n## Sluice: fine") {
			t.Errorf("what the lock file names is not inert:\n%q", out)
		}
	}
}
