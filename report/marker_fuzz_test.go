package report_test

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/report"
)

// FuzzParseMarker reads the first line of comments that anybody may write. What it accepts writes a line that reads the
// same, and that ends no HTML comment early.
func FuzzParseMarker(f *testing.F) {
	f.Add(report.Marker(report.MarkerInfo{
		ID: "fleet --> a,b", Head: "01ab", Digest: "ff",
		Groups: report.Groups{Head: "01ab", IDs: []string{"p:i:a", "q:j:b"}},
	}) + "\n## Sluice")
	f.Add("<!-- sluice-review v1 head=%00 groups=,, of=x%2D%2D -->\r\nbody")
	f.Add("<!-- sluice-review v1 -- head=a -->")
	f.Fuzz(func(t *testing.T, body string) {
		m, ok := report.ParseMarker(body)
		if !ok {
			return
		}
		line := report.Marker(m)
		if strings.Count(line, "--") != 2 || strings.ContainsAny(line, "\n\r") {
			t.Fatalf("the line is %q", line)
		}
		if len(line) >= 16<<10 { // longer than ParseMarker reads
			return
		}
		again, ok := report.ParseMarker(line)
		if !ok || report.Marker(again) != line {
			t.Errorf("%q reads as %+v", line, again)
		}
	})
}
