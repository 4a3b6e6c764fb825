package worker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hiding holds whether this process is hidden. The kernel has one flag for the whole process.
var hiding struct { //nolint:gochecknoglobals // as the kernel's flag is
	sync.Mutex
	on bool
}

// Hide keeps other processes of the same user, such as workers, from reading the environment, the memory and the
// descriptors of this one in /proc, even where the kernel refuses namespaces, Landlock and seccomp. The kernel also
// writes no core file of this process. Hide lasts as long as the process. Elsewhere than on Linux it does nothing.
func Hide() error {
	hiding.Lock()
	defer hiding.Unlock()
	if err := dumpable(0); err != nil {
		return err
	}
	hiding.on = true
	return nil
}

func dumpable(value uintptr) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, value, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_DUMPABLE %d: %w", value, err)
	}
	return nil
}

func isHidden() bool {
	hiding.Lock()
	defer hiding.Unlock()
	return hiding.on
}

// start starts a child. A child with a user namespace needs a user mapping, which only root may write for a process
// that is not dumpable. Until its exec, a child inherits this attribute from its parent. Unless this process runs as
// root, start therefore makes it dumpable for the milliseconds in which it starts such a child.
func (s separation) start(cmd *exec.Cmd) error {
	if s.flags&syscall.CLONE_NEWUSER == 0 || os.Geteuid() == 0 {
		return cmd.Start()
	}
	hiding.Lock()
	defer hiding.Unlock()
	if !hiding.on {
		return cmd.Start()
	}
	if err := dumpable(1); err != nil {
		return err
	}
	err := cmd.Start()
	if hideErr := dumpable(0); hideErr != nil && err == nil {
		return errors.Join(hideErr, cmd.Process.Kill(), cmd.Wait())
	}
	return err
}

// tryHidden tries to read the parent before the restrictions of this process forbid that. The parent may be dumpable
// for a moment because it starts another child: the restriction is missing only if the parent stays readable.
func tryHidden(parent int) Restriction {
	const tries, wait = 100, 20 * time.Millisecond
	out := Restriction{
		Name: "parent's memory", Enforced: true,
		Detail: "/proc of the parent cannot be read, even without the other restrictions",
	}
	for _, file := range []string{"environ", "mem", "maps"} {
		name := fmt.Sprintf("/proc/%d/%s", parent, file)
		for try := 1; ; try++ {
			f, err := os.Open(name) //nolint:gosec // it must fail
			if err != nil {
				break
			}
			_ = f.Close() // it was only opened
			if try == tries {
				return Restriction{Name: out.Name, Detail: name + " can be opened"}
			}
			time.Sleep(wait)
		}
	}
	return out
}
