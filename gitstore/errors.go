package gitstore

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/sluice-gitops/sluice/gitstore/internal/pack"
)

// Errors to check with errors.Is.
var (
	// ErrNotFound means that an object, a revision, a remote or a repository does not exist.
	ErrNotFound = pack.ErrNotFound
	// ErrNoRef is an ErrNotFound of a remote: the remote answered and has no such branch or tag.
	ErrNoRef = fmt.Errorf("%w on the server", ErrNotFound)
	// ErrNoRemote means that the repository has no remote of that name.
	ErrNoRemote = errors.New("the repository has no such remote")
	// ErrUnrelated is an ErrNotFound of a merge base: both histories are complete and have no common commit.
	ErrUnrelated = fmt.Errorf("%w: both histories are complete", ErrNotFound)
	// ErrShallow means that the answer needs history that this repository lacks and that no remote provides.
	ErrShallow = errors.New("the local history is incomplete: run `git fetch --unshallow` and try again")
	// ErrTooManyCommits means that two histories differ by more commits than the caller wants.
	ErrTooManyCommits = errors.New("too many commits")
	// ErrDamaged matches every *DamagedError.
	ErrDamaged = pack.ErrDamaged
	// ErrRefused matches every *RefusedError.
	ErrRefused = errors.New("refused by the server")
	// ErrConflict matches every *ConflictError.
	ErrConflict = errors.New("the branch moved")
	// ErrOutcomeUnknown means that the connection broke after a push was sent, and that the server could not be asked
	// afterwards.
	ErrOutcomeUnknown = errors.New("the outcome of the push is unknown")
)

// ErrTooLarge means that an object exceeds MaxObject. It is an fs.ErrInvalid, because a retry does not help.
var ErrTooLarge = pack.ErrTooLarge

// DamagedError means that a local file or object differs from what Git wrote: it is truncated, lacks its index, or
// its content does not match its name. It never describes an answer of a server. A mirror with damaged files can be
// deleted and cloned again.
type DamagedError = pack.DamagedError

// kindError is an error that matches kind, with a text of its own.
type kindError struct {
	kind error
	text string
}

// kindf returns an error that matches kind.
func kindf(kind error, format string, args ...any) error {
	return &kindError{kind, fmt.Sprintf(format, args...)}
}

// Error returns the text.
func (e *kindError) Error() string { return e.text }

// Unwrap returns the kind.
func (e *kindError) Unwrap() error { return e.kind }

// missingError is an ErrNotFound of an object that neither this repository nor a remote has.
type missingError struct {
	object Hash
	hint   string // the next step
	cause  error  // errors of the remotes; nil if there are none
}

// Error names the object, the next step, and the errors of the remotes.
func (e *missingError) Error() string {
	return fmt.Sprintf("%s: %s is not in this repository: %s%s", ErrNotFound, e.object, e.hint, e.remotes(" (%s)"))
}

// Unwrap returns ErrNotFound and the errors of the remotes.
func (e *missingError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrNotFound}
	}
	return []error{ErrNotFound, ofRemotes{e.cause}}
}

// ofRemotes is the cause of a missingError. It matches what the errors of the remotes match, except what these say of
// files: a key file that does not exist must not make a path of the tree one that does not exist.
type ofRemotes struct{ error }

// Is implements errors.Is. There is no Unwrap.
func (e ofRemotes) Is(target error) bool {
	return target != fs.ErrNotExist && target != fs.ErrInvalid && errors.Is(e.error, target)
}

// Refusal returns why a remote did not give an object, out of an error of a Store that matches ErrNotFound. The text
// begins with the address, and has no credentials. It returns err itself if that has no error of the remote.
func Refusal(err error, address string) error {
	missing, ok := errors.AsType[*missingError](err)
	if !ok {
		return err
	}
	causes, ok := missing.cause.(interface{ Unwrap() []error }) // of errors.Join
	if !ok {
		return err
	}
	for _, cause := range causes.Unwrap() {
		if strings.HasPrefix(cause.Error(), redactURL(address)+": ") { // as endpoint.explain writes
			return ofRemotes{cause}
		}
	}
	return err
}

func (e *missingError) remotes(format string) string {
	if e.cause == nil {
		return ""
	}
	return fmt.Sprintf(format, strings.ReplaceAll(e.cause.Error(), "\n", "; "))
}

// incomplete returns an ErrShallow with its cause. It leaves out the hint of a missing object, because ErrShallow has
// one.
func incomplete(err error) error {
	if missing, ok := errors.AsType[*missingError](err); ok {
		err = kindf(err, "commit %s is missing%s", missing.object.Short(), missing.remotes(": %s"))
	}
	return fmt.Errorf("%w (%w)", ErrShallow, err)
}

// RefusedError means that the server, one of its hooks or one of its rules refused to move a branch.
type RefusedError struct {
	Branch  string
	Message string // the server's message: one line, without credentials
}

// Error returns the branch and the server's message.
func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %s", e.Branch, e.Message) }

// Is matches ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// ConflictError means that a branch was not where the caller read it.
type ConflictError struct {
	Branch  string
	Message string
}

// Error returns the branch and its current value.
func (e *ConflictError) Error() string { return fmt.Sprintf("%s: %s", e.Branch, e.Message) }

// Is matches ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }
