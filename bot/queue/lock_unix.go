//go:build unix

package queue

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile locks a file against other processes until the returned function is called or the process ends.
func lockFile(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the path is the operator's own setting
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() {
		// Closing alone would not unlock while a child that is just being started still has a copy of the descriptor.
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // closing unlocks too, as soon as no copy is left
		_ = f.Close()                                   // the file has no content to lose
	}, nil
}
