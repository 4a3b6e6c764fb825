// Package nearest finds the known name that a user probably meant. It decides what counts as similar, for files of the
// fleet, the command line and comments alike.
package nearest

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

const (
	mostEdits     = 3 // of a long name
	mostEditsElse = 2
	longName      = 9
	// mostBytes bounds the work for a name of a merge request or a comment: comparing takes the product of both
	// lengths.
	mostBytes = 256
)

// Name returns the known name that is most similar to a wrong one, whatever the case, and the first of several. It
// returns "" if none is similar: if more than 2 characters differ (3 of a long name), or more than half of a short one.
// Dashes at the beginning do not count as characters.
func Name(wrong string, known []string) string {
	if len(wrong) > mostBytes {
		return ""
	}
	got := strings.ToLower(wrong)
	most := min(mostEditsElse, (length(got)+1)/2)
	if length(got) >= longName {
		most = mostEdits
	}
	best, edits := "", most+1
	for _, name := range known {
		if len(name) > len(got)+mostEdits || len(got) > len(name)+mostEdits {
			continue
		}
		if n := levenshtein.ComputeDistance(got, strings.ToLower(name)); n < edits && n < length(name) {
			best, edits = name, n
		}
	}
	return best
}

// DidYouMean returns ", did you mean NAME?" for the most similar known name, to end an error; "" if none is similar.
func DidYouMean(wrong string, known []string) string {
	if name := Name(wrong, known); name != "" {
		return ", did you mean " + name + "?"
	}
	return ""
}

// length returns the number of bytes after leading dashes.
func length(name string) int { return len(strings.TrimLeft(name, "-")) }
