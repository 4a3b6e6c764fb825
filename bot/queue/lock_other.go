//go:build !unix

package queue

import (
	"fmt"
	"os"
)

// lockFile opens the file, to check that the directory is writable. It does not lock: servers do not run on these
// systems.
func lockFile(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	return func() { _ = f.Close() }, nil
}
