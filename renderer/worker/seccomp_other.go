//go:build linux && !amd64 && !arm64

package worker

import (
	"errors"
	"fmt"
)

func filterSyscalls(bool) error {
	return fmt.Errorf("the list of system calls is for amd64 and arm64: %w", errors.ErrUnsupported)
}
