//go:build unix && !linux

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

func (separation) attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func refusesNamespaces(error) bool { return false }

// killGroup ends a child and whatever shares its process group.
func killGroup(cmd *exec.Cmd) error {
	return errors.Join(ignoreGone(syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)), ignoreGone(cmd.Process.Kill()))
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

func cpuTime(int) (time.Duration, bool) { return 0, false }
