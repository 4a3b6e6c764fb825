package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Errors to check with errors.Is.
var (
	// ErrNotFound means that an object does not exist.
	ErrNotFound = errors.New("object or revision not found")
	// ErrDamaged matches every *DamagedError.
	ErrDamaged = errors.New("damaged Git data")
)

// ErrTooLarge means that an object exceeds the size limit of the store. It is an fs.ErrInvalid, because a retry does
// not help.
var ErrTooLarge error = tooLargeError{}

type tooLargeError struct{}

func (tooLargeError) Error() string { return fmt.Sprintf("larger than %d MiB", MaxObject>>20) }

func (tooLargeError) Is(target error) bool { return target == fs.ErrInvalid }

// DamagedError means that a local file or object differs from what Git wrote: it is truncated, lacks its index, or
// its content does not match its name. It never describes an answer of a server. A mirror with damaged files can be
// deleted and cloned again.
type DamagedError struct {
	Path string // file or folder
	Err  error
}

// Error returns the file and the cause.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged: %v (run `git fsck`, or clone the repository again)", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// Is matches ErrDamaged.
func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }

// Damage classifies an error from reading path. It returns a failed system call unchanged, because that says nothing
// about the content. Any other error is a DamagedError, including a missing file.
func Damage(path string, err error) error {
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
