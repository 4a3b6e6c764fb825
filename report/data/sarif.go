package data

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/report"
)

// ruleRendering is the rule of targets that cannot be rendered and of reviews that fail.
const ruleRendering = "rendering"

const sarifSchema = "https://json.schemastore.org/sarif-2.1.0.json"

// SARIF writes the findings as SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/): one run, one rule for
// each rule with findings, one result for each finding. A finding on a rendered object points to the app's file in the
// source repository.
func SARIF(w io.Writer, r *report.Review) error {
	run := sarif.NewRunWithInformationURI("Sluice", "https://github.com/sluice-gitops/sluice")
	run.Tool.Driver.WithVersion(clean(r.Version))
	for _, e := range r.Errors {
		addResult(run, r, report.Finding{
			Rule: ruleRendering, Severity: report.SeverityError, Message: e,
			File: "sluice.yaml",
		})
	}
	if r.Changes != nil {
		for _, one := range r.Changes.Withheld {
			addResult(run, r, withheld(one))
		}
	}
	for _, f := range r.Findings.Introduced {
		addResult(run, r, f)
	}
	if run.Results == nil {
		run.Results = []*sarif.Result{}
	}
	doc := map[string]any{"version": "2.1.0", "$schema": sarifSchema, "runs": []any{run}}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

func withheld(one diff.Withheld) report.Finding {
	severity, side := report.SeverityError, ""
	if one.Before {
		severity, side = report.SeverityWarning, " at the base"
	}
	return report.Finding{
		Rule: ruleRendering, Severity: severity, Message: "could not be rendered" + side + ": " + one.Message,
		App: one.App, Environment: one.Environment,
		Clusters: []string{one.Cluster}, File: cmp.Or(one.File, "apps/"+one.App+"/app.yaml"), Line: one.Line,
	}
}

func addResult(run *sarif.Run, r *report.Review, f report.Finding) {
	rule := run.AddRule(clean(f.Rule))
	if docs := docsOf(r, &f); docs != "" && rule.HelpURI == nil {
		rule.WithHelpURI(docs)
	}
	result := run.CreateResultForRule(clean(f.Rule)).WithLevel(level(f.Severity)).
		WithMessage(sarif.NewTextMessage(sentence(&f)))
	physical := sarif.NewPhysicalLocation().WithArtifactLocation(sarif.NewSimpleArtifactLocation(uri(cmp.Or(f.File,
		"sluice.yaml")))).
		WithRegion(sarif.NewSimpleRegion(max(f.Line, 1), max(f.Line, 1)))
	location := sarif.NewLocationWithPhysicalLocation(physical)
	if name := logical(&f); name != "" {
		location.AddLogicalLocation(sarif.NewLogicalLocation().WithFullyQualifiedName(clean(name)).WithKind("resource"))
	}
	result.AddLocation(location)
	result.WithPartialFingerprints(map[string]string{"sluice/v1": fingerprint(&f)})
	if f.Exemption != nil {
		result.AddSuppression(sarif.NewSuppression().WithKind("external").WithJustification(clean(f.Exemption.Reason)))
	}
}

func level(s report.Severity) string {
	switch s {
	case report.SeverityError:
		return "error"
	case report.SeverityWarning:
		return "warning"
	}
	return "note"
}

// sentence describes a finding: object, field, app and clusters, message, next step.
func sentence(f *report.Finding) string {
	var b strings.Builder
	if f.Object.Kind != "" {
		b.WriteString(diff.Title(f.Object))
	}
	if f.Path != "" {
		b.WriteString(" " + f.Path)
	}
	if f.App != "" {
		b.WriteString(" (app " + f.App + " on " + where(f) + ")")
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(f.Message)
	if f.Hint != "" {
		b.WriteString(". Next: " + f.Hint)
	}
	return clean(strings.TrimSpace(b.String()))
}

func where(f *report.Finding) string {
	const most = 5
	if len(f.Clusters) <= most {
		return strings.Join(f.Clusters, ", ")
	}
	return fmt.Sprintf("%s and %d more clusters", strings.Join(f.Clusters[:most], ", "), len(f.Clusters)-most)
}

func logical(f *report.Finding) string {
	if f.Object.Kind == "" {
		return ""
	}
	return strings.Join([]string{f.Environment, f.App, f.Object.String()}, "/")
}

// fingerprint identifies a finding over several runs.
func fingerprint(f *report.Finding) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		f.Rule, f.App, f.Environment, f.Object.String(),
		cmp.Or(f.Path, f.Message),
	}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

func docsOf(r *report.Review, f *report.Finding) string {
	if f.Docs != "" || r.Links.Docs == "" {
		return f.Docs
	}
	return strings.TrimSuffix(r.Links.Docs, "/") + "/" + url.PathEscape(f.Rule)
}

// uri returns a path of the repository as a relative URI.
func uri(file string) string {
	return (&url.URL{Path: strings.TrimPrefix(clean(file), "/")}).EscapedPath()
}
