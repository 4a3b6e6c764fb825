package page

import (
	"fmt"
	"html/template"
	"io"

	"github.com/sluice-gitops/sluice/internal/design"
	"github.com/sluice-gitops/sluice/report"
)

// maxSheetRows limits the rows of each section.
const maxSheetRows = 1000

// sheetView is what the template of a sheet fills in.
type sheetView struct {
	Sheet  *report.Sheet
	CSS    template.CSS
	Policy string
}

// WriteSheet writes a sheet as one HTML page that needs nothing else. The page has no script. Long sections are cut.
func WriteSheet(w io.Writer, s *report.Sheet) error {
	a, err := shared()
	if err != nil {
		return err
	}
	out := *s
	out.Sections = nil
	for _, one := range s.Sections {
		if n := len(one.Rows) - maxSheetRows; n > 0 {
			one.Rows, one.More = one.Rows[:maxSheetRows], one.More+n
		}
		if len(one.Rows) > 0 {
			out.Sections = append(out.Sections, one)
		}
	}
	css := design.CSS() + pageCSS + trialCSS
	v := sheetView{Sheet: &out, CSS: template.CSS(css)} //nolint:gosec // our own files
	v.Policy = fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action 'none'", digest(css))
	if err := a.template.ExecuteTemplate(w, "sheet.html", v); err != nil {
		return fmt.Errorf("HTML page: %w", err)
	}
	return nil
}
