//go:build !linux

package bedtest

import "syscall"

// attributes are those of every process: the bed runs on Linux only.
func attributes() *syscall.SysProcAttr { return nil }
