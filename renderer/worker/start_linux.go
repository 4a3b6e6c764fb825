package worker

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	userNamespace = "user namespace"
	pidNamespace  = "PID namespace"
)

// separation is a set of namespaces for a child.
type separation struct {
	names []string
	flags uintptr
}

// separations are tried in this order; the last one always works.
func separations(mode Mode) []separation {
	if mode == Off {
		return []separation{{}}
	}
	const rest = syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	names := []string{"network namespace", "IPC namespace", "UTS namespace"}
	with := func(flags uintptr, more ...string) separation {
		return separation{append(more, names...), flags | rest}
	}
	var out []separation
	if pidNamespaces {
		out = append(out, with(syscall.CLONE_NEWUSER|syscall.CLONE_NEWPID, userNamespace, pidNamespace))
	}
	out = append(out, with(syscall.CLONE_NEWUSER, userNamespace))
	if os.Geteuid() == 0 && pidNamespaces {
		out = append(out, with(syscall.CLONE_NEWPID, pidNamespace))
	}
	if os.Geteuid() == 0 {
		out = append(out, with(0))
	}
	return append(out, separation{})
}

// nobody is the user that a child is inside its user namespace: any but 0, so that exec leaves it no capability.
const nobody = 65534

// attributes are those of a child process: it is killed with the thread that starts it.
func (s separation) attributes() *syscall.SysProcAttr {
	out := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: s.flags}
	if s.flags&syscall.CLONE_NEWUSER != 0 {
		out.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Geteuid(), Size: 1}}
		out.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getegid(), Size: 1}}
	}
	return out
}

// refusesNamespaces reports whether a start failed because of the namespaces.
func refusesNamespaces(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOSPC, syscall.EUSERS,
		syscall.ENOSYS,
	}, func(e error) bool {
		return errors.Is(err, e)
	})
}

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

// cpuTime is the CPU time that a process has used, with all its threads; false where the kernel does not tell.
func cpuTime(pid int) (time.Duration, bool) {
	const schedClock = 2 // CPUCLOCK_SCHED of a process, see clock_getcpuclockid(3)
	var now unix.Timespec
	//nolint:gosec // process ids have at most 22 bits
	if err := unix.ClockGettime(int32(^pid)<<3|schedClock, &now); err != nil {
		return 0, false
	}
	return time.Duration(now.Nano()), true
}
