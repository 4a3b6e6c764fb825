//go:build !unix

package worker

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

type separation struct{ names []string }

func separations(Mode) []separation { return []separation{{}} }

func (separation) attributes() *syscall.SysProcAttr { return nil }

func refusesNamespaces(error) bool { return false }

func killGroup(cmd *exec.Cmd) error {
	if err := cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func cpuTime(int) (time.Duration, bool) { return 0, false }
