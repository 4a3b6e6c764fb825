package report

// Prose is prose, for tests.
func Prose(s string) string { return prose(s) }
