//go:build amd64 || arm64

package worker

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// filterSyscalls permanently limits all threads of this process to the system calls that Go's runtime needs, and to
// reading and writing open descriptors. All other calls fail with EPERM. If reads is true, the process can also open
// files for reading; Landlock restricts which ones.
func filterSyscalls(reads bool) error {
	if !seccomp.Supported() {
		return fmt.Errorf("seccomp: %w", errors.ErrUnsupported)
	}
	info, err := arch.GetInfo("")
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true, Flag: seccomp.FilterFlagTSync,
		Policy: allowlist(info, os.Getpid(), reads),
	})
}

// allowlist returns the policy of filterSyscalls for a process on an architecture.
func allowlist(info *arch.Info, pid int, reads bool) seccomp.Policy {
	known := func(names ...string) []string { // arm64 lacks the older names, and newfstatat is fstatat there
		var out []string
		for _, n := range names {
			if _, ok := info.SyscallNames[n]; ok {
				out = append(out, n)
			}
		}
		return out
	}
	plain := known(
		"read", "write", "writev", "close", "fstat", "pread64", "lseek",
		"munmap", "madvise", "mincore", "mremap", "brk", "membarrier",
		"futex", "sched_yield", "sched_getaffinity", "nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres",
		"gettimeofday",
		"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall",
		"getpid", "gettid", "getrandom", "getrusage", "set_robust_list", "rseq", "exit", "exit_group",
		"epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd2",
	)
	conditions := []seccomp.NameWithConditions{
		{Name: "mmap", Conditions: without(2, unix.PROT_EXEC)},
		{Name: "mprotect", Conditions: without(2, unix.PROT_EXEC)},
		{Name: "clone", Conditions: seccomp.ArgumentConditions{{
			Argument: 0, Operation: seccomp.BitsSet,
			Value: unix.CLONE_THREAD,
		}}},
		//nolint:gosec // positive; the runtime preempts its own threads
		{Name: "tgkill", Conditions: equal(0, uint64(pid))},
		{Name: "prctl", Conditions: equal(0, unix.PR_SET_VMA)},
	}
	for _, command := range []uint64{unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL, unix.F_DUPFD_CLOEXEC} {
		conditions = append(conditions, seccomp.NameWithConditions{Name: "fcntl", Conditions: equal(1, command)})
	}
	if reads {
		plain = append(plain, known("newfstatat", "fstatat", "statx", "readlinkat", "getdents64", "faccessat",
			"faccessat2", "fstatfs", "fadvise64")...)
		conditions = append(conditions, seccomp.NameWithConditions{
			Name:       "openat",
			Conditions: without(2, unix.O_WRONLY|unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC|unix.O_APPEND),
		})
	}
	const noSuchCall = seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)
	return seccomp.Policy{
		DefaultAction: seccomp.ActionErrno,
		Syscalls: []seccomp.SyscallGroup{
			{Names: plain, NamesWithCondtions: conditions, Action: seccomp.ActionAllow},
			// its flags are behind a pointer; callers fall back on clone
			{Names: []string{"clone3"}, Action: noSuchCall},
		},
	}
}

func equal(argument uint32, value uint64) seccomp.ArgumentConditions {
	return seccomp.ArgumentConditions{{Argument: argument, Operation: seccomp.Equal, Value: value}}
}

func without(argument uint32, bits uint64) seccomp.ArgumentConditions {
	return seccomp.ArgumentConditions{{Argument: argument, Operation: seccomp.BitsNotSet, Value: bits}}
}
