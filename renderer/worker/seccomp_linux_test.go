//go:build amd64 || arm64

package worker

import (
	"encoding/binary"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// filter executes the filter of system calls of an architecture as the kernel does, on any machine.
type filter struct {
	t    *testing.T
	info *arch.Info
	vm   *bpf.VM
}

func newFilter(t *testing.T, info *arch.Info, reads bool) *filter {
	t.Helper()
	p := allowlist(info, 42, reads)
	field := reflect.ValueOf(&p).Elem().FieldByName("arch") // the library sets it to that of this machine
	*(**arch.Info)(unsafe.Pointer(field.UnsafeAddr())) = info
	program, err := p.Assemble()
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	return &filter{t, info, vm}
}

// decides returns the action for a system call. The machine reads words of packets, which have the other byte order
// than seccomp's data.
func (f *filter) decides(id, number uint32, args ...uint64) seccomp.Action {
	f.t.Helper()
	data := binary.BigEndian.AppendUint32(nil, number)
	data = binary.BigEndian.AppendUint32(data, id)
	data = binary.BigEndian.AppendUint64(data, 0) // instruction pointer
	for i := range 6 {
		var a uint64
		if i < len(args) {
			a = args[i]
		}
		data = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(data, uint32(a)), uint32(a>>32))
	}
	out, err := f.vm.Run(data)
	if err != nil {
		f.t.Fatal(err)
	}
	return seccomp.Action(out)
}

func (f *filter) allows(name string, args ...uint64) bool {
	f.t.Helper()
	number, ok := f.info.SyscallNames[name]
	if !ok {
		f.t.Fatalf("%s has no system call %s", f.info.Name, name)
	}
	return f.decides(uint32(f.info.ID), uint32(number), args...) == seccomp.ActionAllow
}

// On amd64 and arm64, the filter allows what Go's runtime needs and reading and writing of open descriptors, and
// nothing else.
func TestAllowedSystemCalls(t *testing.T) {
	t.Parallel()
	const without = "brk clock_getres clock_gettime clock_nanosleep close epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 eventfd2 exit exit_group fstat futex " +
		"getpid getrandom getrusage gettid gettimeofday lseek madvise membarrier mincore mmap mprotect mremap munmap nanosleep pread64 read restart_syscall rseq " +
		"rt_sigaction rt_sigprocmask rt_sigreturn sched_getaffinity sched_yield set_robust_list sigaltstack write writev"
	const reading = " faccessat faccessat2 fadvise64 fstatfs getdents64 openat readlinkat statx"
	for _, info := range []*arch.Info{arch.X86_64, arch.AARCH64} {
		for _, reads := range []bool{false, true} {
			f := newFilter(t, info, reads)
			want := strings.Fields(without)
			if reads {
				want = append(want, strings.Fields(reading)...)
				// as the library's tables call it
				want = append(want, map[*arch.Info]string{arch.X86_64: "newfstatat", arch.AARCH64: "fstatat"}[info])
			}
			if info == arch.X86_64 {
				want = append(want, "epoll_wait")
			}
			var got []string
			for _, name := range slices.Sorted(maps.Keys(info.SyscallNames)) {
				if f.allows(name) {
					got = append(got, name)
				}
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s, reads %t: with zero arguments it allows\n%q, want\n%q", info.Name, reads, got, want)
			}
			testArguments(t, f, reads)
			const other = 0x40000028 // AUDIT_ARCH_ARM
			if f.decides(other, uint32(info.SyscallNames["read"])) == seccomp.ActionAllow {
				t.Errorf("%s: it allows calls of another architecture", info.Name)
			}
		}
	}
}

// testArguments checks calls that are allowed with some arguments only.
func testArguments(t *testing.T, f *filter, reads bool) {
	t.Helper()
	const thread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD
	for _, c := range []struct {
		name  string
		args  []uint64
		allow bool
	}{
		{"clone", []uint64{thread}, true},
		{"clone", []uint64{unix.CLONE_VM}, false},
		{"clone", []uint64{uint64(unix.SIGCHLD)}, false},
		{"clone", []uint64{thread << 32}, false},
		{"mmap", []uint64{0, 4096, unix.PROT_READ | unix.PROT_WRITE}, true},
		{"mmap", []uint64{0, 4096, unix.PROT_READ | unix.PROT_EXEC}, false},
		{"mprotect", []uint64{0, 4096, unix.PROT_READ}, true},
		{"mprotect", []uint64{0, 4096, unix.PROT_EXEC}, false},
		{"tgkill", []uint64{42, 43, uint64(unix.SIGURG)}, true},
		{"tgkill", []uint64{1, 1, uint64(unix.SIGKILL)}, false},
		{"prctl", []uint64{unix.PR_SET_VMA}, true},
		{"prctl", []uint64{unix.PR_SET_DUMPABLE, 1}, false},
		{"fcntl", []uint64{0, unix.F_GETFL}, true},
		{"fcntl", []uint64{0, unix.F_SETOWN}, false},
		{"openat", []uint64{0, 0, unix.O_RDONLY | unix.O_CLOEXEC}, reads},
		{"openat", []uint64{0, 0, unix.O_WRONLY}, false},
		{"openat", []uint64{0, 0, unix.O_RDWR}, false},
		{"openat", []uint64{0, 0, unix.O_RDONLY | unix.O_CREAT}, false},
		{"openat", []uint64{0, 0, unix.O_RDONLY | unix.O_TRUNC}, false},
		{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, false},
		{"execve", []uint64{1, 1, 1}, false},
		{"ptrace", []uint64{unix.PTRACE_ATTACH, 1}, false},
		{"kill", []uint64{42, uint64(unix.SIGTERM)}, false},
	} {
		if got := f.allows(c.name, c.args...); got != c.allow {
			t.Errorf("%s, reads %t: %s%#x is allowed: %t, want %t", f.info.Name, reads, c.name, c.args, got, c.allow)
		}
	}
	const noSuchCall = seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)
	if got := f.decides(uint32(f.info.ID), uint32(f.info.SyscallNames["clone3"]), thread); got != noSuchCall {
		t.Errorf("%s: clone3 gets %#x, want %#x", f.info.Name, got, noSuchCall)
	}
}
