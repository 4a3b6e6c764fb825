package upgrade

import (
	"errors"
	"strings"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/report"
)

// OfTool returns what another version of a tool that renders means for the covered clusters of a fleet. r is the review
// of the commit against itself with that version.
func OfTool(to string, f *fleet.Fleet, r *report.Review, covers func(*fleet.Cluster) bool) (*report.Upgrade, error) {
	if r.Changes == nil || len(r.Errors) > 0 {
		return nil, errors.New(strings.Join(r.Errors, "\n"))
	}
	out := &report.Upgrade{To: to, Issues: []report.UpgradeIssue{}, Notes: r.Findings.Notes, Changes: r.Changes}
	j := newJudge(f, nil, nil)
	for _, c := range f.Clusters {
		if !c.Retired() && !c.Frozen() && covers(c) {
			out.Clusters = append(out.Clusters, report.UpgradeCluster{Name: c.Name, Environment: c.Environment, To: to})
		}
	}
	order(f, out.Clusters)
	for _, w := range r.Changes.Withheld {
		c, ok := f.Cluster(w.Cluster)
		if !ok {
			continue
		}
		file := w.File
		if file == "" {
			file = j.files[w.App]
		}
		j.add(c, report.UpgradeIssue{At: to, Unknown: w.Before, Finding: report.Finding{
			Rule: RuleRender, Severity: report.SeverityError, Message: w.Message, App: w.App, File: file, Line: w.Line,
		}})
	}
	out.Issues = j.issues
	out.Settle(r.Changes)
	return out, nil
}
