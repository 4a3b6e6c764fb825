package report

// Headline answers "what happens if this is merged" on one line of plain text, for a commit status.
func Headline(r *Review) string {
	text := headline(r, visible)
	if words := policyWords(&r.Findings); words != "" && len(r.Findings.Introduced) > 0 {
		text += "; " + words
	}
	return text
}
