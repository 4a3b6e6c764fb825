package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// None is the disk of a store without files: every operation on one fails.
type None struct{}

// ErrNone is the error of None.
var ErrNone = fmt.Errorf("the store keeps no files: %w", errors.ErrUnsupported)

// MkdirAll fails.
func (None) MkdirAll(string) error { return ErrNone }

// CreateTemp fails.
func (None) CreateTemp(string, string) (*os.File, error) { return nil, ErrNone }

// Sync fails.
func (None) Sync(*os.File) error { return ErrNone }

// Rename fails.
func (None) Rename(string, string) error { return ErrNone }

// RemoveAll fails for a name that is not empty.
func (None) RemoveAll(name string) error {
	if name == "" {
		return nil // a file in memory
	}
	return &fs.PathError{Op: "remove", Path: name, Err: ErrNone}
}
