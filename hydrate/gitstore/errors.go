package gitstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNotFound means that an object, a revision, a remote or a repository does not exist where it was looked for.
	ErrNotFound = errors.New("object or revision not found")
	// ErrNoRef is an ErrNotFound of a remote: it was asked just now and has no such branch or tag.
	ErrNoRef = fmt.Errorf("%w on the server", ErrNotFound)
	// ErrNoRemote means that the repository has no remote with a name.
	ErrNoRemote = errors.New("the repository has no such remote")
	// ErrUnrelated is an ErrNotFound of a merge base: both histories are complete and share no commit.
	ErrUnrelated = fmt.Errorf("%w: both histories are complete", ErrNotFound)
	// ErrShallow means that the question needs history that is neither here nor given by the remote.
	ErrShallow = errors.New("the local history is incomplete: run `git fetch --unshallow` and try again")
	// ErrDamaged matches every *DamagedError.
	ErrDamaged = errors.New("damaged Git data")
	// ErrRefused matches every *RefusedError.
	ErrRefused = errors.New("refused by the server")
	// ErrConflict matches every *ConflictError.
	ErrConflict = errors.New("the branch moved")
	// ErrOutcomeUnknown means that the connection broke after a push was sent and the server could not be asked again.
	ErrOutcomeUnknown = errors.New("the outcome of the push is unknown")
)

// ErrTooLarge means that an object is larger than the store reads. It is an fs.ErrInvalid: reading it again does not help.
var ErrTooLarge error = tooLargeError{}

type tooLargeError struct{}

func (tooLargeError) Error() string { return fmt.Sprintf("larger than %d MiB", maxObject>>20) }

func (tooLargeError) Is(target error) bool { return target == fs.ErrInvalid }

// DamagedError means that a local file or object is not what Git wrote: cut short, missing its index, or with other content
// than its name says. It never describes what a server said. A mirror with damaged files can be deleted and cloned again.
type DamagedError struct {
	Path string // file or folder
	Err  error
}

// Error names the file and the cause.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged: %v (run `git fsck`, or clone the repository again)", e.Path, e.Err)
}

// Unwrap gives the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// Is matches ErrDamaged.
func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }

// damage classifies an error from reading path: a failing system call is returned as it is, because it says nothing about the
// content; everything else, a missing file included, is a DamagedError.
func damage(path string, err error) error {
	if err == nil || errors.Is(err, ErrTooLarge) || errors.Is(err, os.ErrClosed) {
		return err
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if errors.Is(err, ErrDamaged) {
		return err
	}
	return &DamagedError{Path: path, Err: err}
}

// RefusedError means that the server, one of its hooks or one of its rules refused to move a branch.
type RefusedError struct {
	Branch  string
	Message string // what the server said: one line, without credentials
}

// Error gives the branch and the server's message.
func (e *RefusedError) Error() string { return fmt.Sprintf("%s: %s", e.Branch, e.Message) }

// Is matches ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// ConflictError means that a branch was not where the caller read it.
type ConflictError struct {
	Branch  string
	Message string
}

// Error gives the branch and where it is.
func (e *ConflictError) Error() string { return fmt.Sprintf("%s: %s", e.Branch, e.Message) }

// Is matches ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }
