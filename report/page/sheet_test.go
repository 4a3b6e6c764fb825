package page

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/report"
)

func TestSheet(t *testing.T) {
	t.Parallel()
	rows := make([][]string, maxSheetRows+3)
	for i := range rows {
		rows[i] = []string{"row", "x"}
	}
	var out strings.Builder
	if err := WriteSheet(&out, &report.Sheet{
		Fleet: "acme", Title: "bundle 7 for gov", Lead: "12 KiB", Version: "v1",
		Sections: []report.SheetSection{
			{Title: "Promotions", Columns: []string{"Commit", "Subject"}, Rows: [][]string{{"abc", "<script>alert(1)</script>\u202e"}}},
			{Title: "Nothing"},
			{Title: "Many", Rows: rows},
		},
	}); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{"bundle 7 for gov", "&lt;script&gt;alert(1)", "And 3 more.", "default-src &#39;none&#39;"} {
		if !strings.Contains(page, want) && !strings.Contains(page, strings.ReplaceAll(want, "&#39;", "'")) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{"<script", "\u202e", ">Nothing<"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}
