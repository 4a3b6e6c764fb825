//go:build !linux

package worker

import "os/exec"

// Hide does nothing on this system.
func Hide() error { return nil }

func isHidden() bool { return false }

func (separation) start(cmd *exec.Cmd) error { return cmd.Start() }
