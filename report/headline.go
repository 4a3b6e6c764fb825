package report

import (
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

// Scope returns what a merge changes on one line of plain text, without the verdict.
func Scope(r *Review) string { return headline(r, safetext.Line) }

// Headline returns what a merge changes on one line of plain text, for a commit status. An error comes first, because
// it decides the status.
func Headline(r *Review) string {
	text := headline(r, safetext.Line)
	if e := firstError(r, safetext.Line); e != "" && e != text {
		text = e + "; " + text
	}
	if n := criticals(r.Changes); n > 0 {
		text = Count(n, "critical change") + ": " + text
	}
	if words := policyWords(&r.Findings); words != "" && len(r.Findings.Introduced) > 0 {
		text += "; " + words
	}
	return text
}

// Refusal says on one line why a review does not allow its change: errors, targets that cannot be rendered after it,
// and findings of severity error. The review needs no groups of changes. It is "" if nothing forbids the change.
func Refusal(r *Review) string {
	parts := []string{firstError(r, safetext.Line)}
	if r.Changes != nil {
		if n := withheldCount(r.Changes); n > 0 {
			parts = append(parts, Count(n, "target")+" cannot be rendered")
		}
		parts = append(parts, uncertain(r.Changes))
	}
	if n := r.Findings.Count(SeverityError); n > 0 {
		text := Count(n, "new error") + " of the policy"
		if n > 1 {
			text += ", the first"
		}
		i := slices.IndexFunc(r.Findings.Introduced, func(f Finding) bool { return f.Severity == SeverityError })
		parts = append(parts, text+": "+safetext.Brief(offence(&r.Findings.Introduced[i]), maxHeadError))
	}
	return joined(parts...)
}

// offence names a rule and what breaks it. A finding about a whole cluster has no app.
func offence(f *Finding) string {
	switch {
	case f.App == "":
		return f.Rule + " on " + places(f.Environment, f.Clusters)
	case f.Object.Kind == "":
		return f.Rule + " in " + f.App
	}
	return f.Rule + " in " + f.App + ", " + diff.Title(f.Object)
}

const noLimit = 1 << 20 // characters: a block that is not cut

// RolloutBlock returns only the rollout, to update a comment after its review. warning is what its reader has to know
// about all of it; "" if there is nothing.
func RolloutBlock(rows []RolloutRow, warning string) string {
	m := &markdown{r: &Review{Rollout: rows}}
	text, _ := m.rollout().fit(noLimit)
	if warning != "" {
		text += "⚠️ " + prose(warning) + "\n"
	}
	return text
}

// LogBlock returns only the command log. earlier are the rows of the existing block, as LogRows returns them; most is
// the number of rows to keep.
func LogBlock(entries []CommandEntry, earlier []string, most int) string {
	frame := entries
	if len(frame) == 0 {
		frame = []CommandEntry{{}} // for the header only
	}
	m := &markdown{r: &Review{Log: frame}}
	text, _ := m.log().fit(noLimit)
	fresh := LogRows(text)
	rows := append(slices.Clone(fresh[:len(entries)]), earlier...)
	rows = rows[:min(len(rows), most)]
	before, _, _ := strings.Cut(text, "<summary>")
	end := strings.Index(text, "</summary>")
	head, _, _ := strings.Cut(text[end:], fresh[0])
	return before + "<summary>" + Count(len(rows), "command") + head + strings.Join(rows, "\n") + "\n\n</details>\n"
}

// LogRows returns the rows of a command log.
func LogRows(block string) []string {
	var out []string
	body := false
	for line := range strings.SplitSeq(block, "\n") {
		switch {
		case strings.HasPrefix(line, "|---"):
			body = true
		case body && strings.HasPrefix(line, "|"):
			out = append(out, line)
		}
	}
	return out
}
