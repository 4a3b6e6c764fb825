package fetch

import (
	"errors"
	"fmt"
)

// Kinds of failure, for errors.Is. The text of an error already says what to do about it.
var (
	// ErrNotFound means that the server answered and has no such repository, chart or version.
	ErrNotFound = errors.New("not found")
	// ErrDenied means that the server wants other credentials than it got, or some at all.
	ErrDenied = errors.New("access denied")
	// ErrUnavailable means that no usable answer came, after all retries: offline, a server error, a time-out.
	ErrUnavailable = errors.New("unavailable")
	// ErrDigest means that an archive is not the one that was locked. It must never be ignored.
	ErrDigest = errors.New("digest mismatch")
	// ErrInvalid means that the question or the answer is malformed, refused or too large.
	ErrInvalid = errors.New("invalid")
)

// failure is an error with a text of our own. It deliberately does not unwrap to what a library said: such texts
// carry URLs with signatures, decoded credentials and whatever the server chose to write.
type failure struct {
	text      string
	kind      error // a sentinel of this package or a context error
	temporary bool  // another attempt may succeed
}

func (e *failure) Error() string { return e.text }
func (e *failure) Unwrap() error { return e.kind }

func fail(kind error, format string, args ...any) *failure {
	return &failure{text: fmt.Sprintf(format, args...), kind: kind}
}

// UnlockedError says that a remote chart has no entry in the lock file.
type UnlockedError struct{ Ref Ref }

func (e *UnlockedError) Error() string {
	return fmt.Sprintf("chart %s is not in %s: run `sluice deps lock` and commit the file", e.Ref, LockFile)
}
