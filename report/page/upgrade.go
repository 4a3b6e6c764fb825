package page

import (
	"fmt"
	"html/template"
	"io"

	"github.com/sluice-gitops/sluice/internal/design"
	"github.com/sluice-gitops/sluice/report"
)

// upgradeView is what the template of a plan fills in.
type upgradeView struct {
	Plan   *report.Upgrade
	Groups []*report.UpgradeGroup
	Issues []upgradeIssues
	Report *view // nil if nothing changes
	Took   string
	CSS    template.CSS
	Policy string
}

type upgradeIssues struct {
	report.UpgradeIssues
	Findings []findingView
}

// WriteUpgrade writes a plan as one HTML page that needs nothing else. The page has no script. Changes of many objects
// are cut.
func WriteUpgrade(w io.Writer, u *report.Upgrade) error {
	a, err := shared()
	if err != nil {
		return err
	}
	css := design.CSS() + pageCSS + trialCSS
	v := &upgradeView{Plan: u, Groups: u.Groups(), Took: seconds(u.Took), CSS: template.CSS(css)} //nolint:gosec // our own files
	v.Policy = fmt.Sprintf("default-src 'none'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action 'none'", digest(css))
	for _, s := range u.Sections() {
		one := upgradeIssues{UpgradeIssues: s}
		for _, g := range s.Groups[:min(len(s.Groups), maxFindings)] {
			f := findingView{FindingGroup: g}
			for i := range g.Breaches[:min(len(g.Breaches), maxCautions)] {
				f.Places = append(f.Places, g.Breaches[i].Words())
			}
			f.More = len(g.Breaches) - len(f.Places)
			one.Findings = append(one.Findings, f)
		}
		v.Issues = append(v.Issues, one)
	}
	if u.Changes != nil && len(u.Changes.Groups) > 0 {
		v.Report = newViewIn(&report.Review{Changes: u.Changes}, "u")
		v.Report.shorten()
	}
	if err := a.template.ExecuteTemplate(w, "upgrade.html", v); err != nil {
		return fmt.Errorf("HTML page: %w", err)
	}
	return nil
}
