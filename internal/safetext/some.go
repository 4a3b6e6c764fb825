package safetext

import (
	"strconv"
	"strings"
)

// Some lists the first few names of a kind, and counts the others, as in `clusters a, b, c and 2 more`.
func Some(kind string, names []string) string {
	const most = 3
	if len(names) > 1 {
		kind += "s"
	}
	text := kind + " " + strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}
