package worker

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

const (
	zeroNice = 20 // getpriority(2) returns 20 for nice value 0, and less for nicer threads
	mostNice = 19
)

// lowerPriority makes all threads of this process nicer. Where the kernel groups processes by session (autogroup), nice
// values count only within a session, and the worker has one of its own: then the session gets the nice value, too.
// Errors are ignored: a process with the usual priority is slower for others, and no less confined.
func lowerPriority(by int) {
	if by <= 0 {
		return
	}
	now, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return
	}
	nice := min(zeroNice-now+by, mostNice)
	// the thread's; psx calls it on every thread
	_, _, _ = psx.Syscall3(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, uintptr(nice))
	if f, err := os.OpenFile("/proc/self/autogroup", os.O_WRONLY, 0); err == nil {
		_, _ = f.WriteString(strconv.Itoa(nice)) // the kernel refuses frequent changes
		_ = f.Close()                            // it was written in one call
	}
}
