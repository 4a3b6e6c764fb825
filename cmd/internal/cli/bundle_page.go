package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bundle"
	"github.com/sluice-gitops/sluice/bundle/envelope"
	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/report/page"
)

// bundlePage writes what crosses the gap as a page, for the person who approves it.
func bundlePage(file string, m envelope.Manifest, digest string, size int64, c *bundle.Contents, images []string) error {
	fact := func(name, format string, args ...any) []string { return []string{name, fmt.Sprintf(format, args...)} }
	facts := [][]string{
		fact("Digest", "%s", digest), fact("Size", "%s", mebibytes(size)), fact("Source commit", "%s", c.Source),
		fact("Made of commits until", "%s", m.Created.Format(time.DateTime)), fact("Clusters", "%d", c.Clusters),
		fact("Manifests", "%d", c.Manifests), fact("Git objects in the bundle", "%d", c.Objects),
	}
	if c.Full() {
		facts = append(facts, fact("Builds on", "nothing"))
	} else {
		facts = append(facts, fact("Builds on", "bundle %d (%s)", c.Base.Sequence, c.Base.Digest))
	}
	if c.Rollback != "" {
		facts = append(facts, fact("Rollback", "%s", c.Rollback))
	}
	if c.Policy != nil {
		facts = append(facts, fact("Home's policy said", "%s", c.Policy))
	}
	sheet := &report.Sheet{
		Fleet: m.Fleet, Title: fmt.Sprintf("Bundle %d for %s", m.Sequence, m.Environment), Version: app.Version(),
		Lead: mebibytes(size) + " in one file", Sections: []report.SheetSection{{Title: "Bundle", Rows: facts}},
	}
	var refs, promotions, list, parts [][]string
	for _, r := range c.Refs {
		refs = append(refs, []string{r.Branch, r.From, r.To})
	}
	for _, p := range c.Promotions {
		why := strings.Join(append([]string{p.Reason, p.Rollback}, p.Exceptions...), "\n")
		promotions = append(promotions, []string{
			p.Subject, p.At.UTC().Format(time.DateTime), p.Commit, p.By, strings.Join(p.ApprovedBy, ", "), strings.TrimSpace(why),
		})
	}
	for _, i := range images {
		list = append(list, []string{i})
	}
	var charts, commits [][]string
	for _, k := range c.Charts {
		charts = append(charts, []string{k.Chart, k.Version, k.Repo, k.SHA256})
	}
	for _, k := range c.Commits {
		commits = append(commits, []string{k.URL, k.From, k.Commit})
	}
	for _, p := range m.Parts {
		parts = append(parts, []string{p.Name, mebibytes(p.Size), p.SHA256})
	}
	sheet.Sections = append(sheet.Sections,
		report.SheetSection{Title: "Branches", Columns: []string{"Branch", "From", "To"}, Rows: refs},
		report.SheetSection{
			Title:   "Promotions",
			Columns: []string{"Promotion", "Time", "Commit", "Requested by", "Approved by", "Reason and exceptions"}, Rows: promotions,
		},
		report.SheetSection{Title: "Images of the manifests that it brings", Rows: list},
		report.SheetSection{Title: "Charts", Columns: []string{"Chart", "Version", "Repository", "SHA-256"}, Rows: charts},
		report.SheetSection{Title: "Other repositories", Columns: []string{"Repository", "From", "Commit"}, Rows: commits},
		report.SheetSection{Title: "Parts", Columns: []string{"Part", "Size", "SHA-256"}, Rows: parts})
	return createFile(file, func(w io.Writer) error { return page.WriteSheet(w, sheet) })
}
