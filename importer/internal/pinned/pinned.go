// Package pinned names commits of other repositories that an object pins by their whole id.
package pinned

import "regexp"

var commitID = regexp.MustCompile(`^[0-9a-f]{40}$`)

// Whole reports whether a revision is the whole id of a commit, which is a digest of its content.
func Whole(revision string) bool { return commitID.MatchString(revision) }

// LackError means that an object needs a commit that the import does not have, and pins it by its whole id.
type LackError struct {
	URL, Commit string
	Err         error // that of an object that pins no commit; it tells how to declare the repository
}

// Error returns the text of Err.
func (e *LackError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *LackError) Unwrap() error { return e.Err }
