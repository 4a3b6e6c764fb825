package worker

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The probes call the kernel with arguments that fail harmlessly where no filter stops them first.

func execMissing(name *byte) unix.Errno {
	argv := [1]*byte{}
	//nolint:gosec // a system call takes pointers
	_, _, errno := unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&argv[0])))
	return errno
}

// cloneInvalid asks for shared signal handlers without shared memory, which the kernel refuses with EINVAL.
func cloneInvalid() unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_SIGHAND, 0, 0, 0, 0, 0)
	return errno
}

func killProbe(pid int) unix.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_KILL, uintptr(pid), 0, 0)
	return errno
}

// ptraceProbe reads from a process that is not traced, which the kernel refuses with ESRCH.
func ptraceProbe(pid int) unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_PEEKTEXT, uintptr(pid), 0, 0, 0, 0)
	return errno
}
