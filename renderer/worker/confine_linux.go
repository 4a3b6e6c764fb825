package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/cap"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// confine applies the restrictions to this process, and tries each forbidden operation. It never fails: a restriction
// that cannot be applied is missing in the report, and the parent decides.
func confine(cfg config) Report {
	out := Report{Mode: cfg.Mode, System: runtime.GOOS + " " + runtime.GOARCH, Means: append([]string{}, cfg.Apart...)}
	facts := []Restriction{closeInherited(), limit(cfg)}
	// neither core files nor ptrace by the same user
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err == nil {
		out.Means = append(out.Means, "not dumpable")
	}
	if cfg.Mode == Off {
		out.Restrictions = facts
		return out
	}
	facts = append(facts, dropCapabilities(), noNewPrivileges())
	if cfg.Hidden {
		// after dropCapabilities, so that the kernel refuses root like any other user
		facts = append(facts, tryHidden(cfg.Parent))
	}
	for _, raise := range []func() (string, error){
		func() (string, error) { return restrictFiles(cfg.Paths) },
		func() (string, error) { return "seccomp", filterSyscalls(len(cfg.Paths) > 0) },
	} {
		switch means, err := raise(); {
		case err == nil:
			out.Means = append(out.Means, means)
		case !errors.Is(err, errors.ErrUnsupported):
			out.Problem = err.Error()
		}
	}
	out.Restrictions = append(tryForbidden(cfg), facts...)
	return out
}

// closeInherited closes descriptors that the parent did not mean for the child. Those that Go opens are close-on-exec.
func closeInherited() Restriction {
	out := Restriction{Name: "descriptors"}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		out.Detail = err.Error()
		return out
	}
	closed := 0
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 { // closed since, or Go's own
			continue
		}
		if err := unix.Close(fd); err != nil {
			out.Detail = err.Error()
			return out
		}
		closed++
	}
	out.Enforced, out.Detail = true, fmt.Sprintf("%d closed", closed)
	return out
}

// Address space beside the heap: the Go runtime reserves far more than it uses.
const (
	dataRoom    = 512 << 20
	addressRoom = 6 << 30
)

// limit sets the limits of the process, soft and hard.
func limit(cfg config) Restriction {
	out := Restriction{Name: "limits"}
	l := cfg.Limits
	type bound struct {
		name     string
		resource int
		value    uint64
	}
	bounds := []bound{
		{"core files", unix.RLIMIT_CORE, 0},
		{"file size", unix.RLIMIT_FSIZE, 0},
		{"message queues", unix.RLIMIT_MSGQUEUE, 0},
		{"descriptors", unix.RLIMIT_NOFILE, uint64(l.Files)}, //nolint:gosec // positive
	}
	if l.Memory > 0 {
		bounds = append(bounds, bound{"memory", unix.RLIMIT_DATA, uint64(l.Memory) + dataRoom})
		// the race detector reserves terabytes
		if reserved, err := addressSpace(); err == nil && reserved < addressRoom {
			bounds = append(bounds, bound{"address space", unix.RLIMIT_AS, uint64(l.Memory) + addressRoom})
		}
	}
	if l.CPU > 0 {
		bounds = append(bounds, bound{"CPU time", unix.RLIMIT_CPU, uint64(l.CPU.Seconds()) + 1})
	}
	if slices.Contains(cfg.Apart, userNamespace) { // elsewhere the limit counts the user's other processes, too
		bounds = append(bounds, bound{"processes", unix.RLIMIT_NPROC, uint64(l.Processes)}) //nolint:gosec // positive
	}
	var names []string
	for _, b := range bounds {
		var now unix.Rlimit
		if err := unix.Getrlimit(b.resource, &now); err != nil {
			out.Detail = b.name + ": " + err.Error()
			return out
		}
		value := min(b.value, now.Max)
		if err := unix.Setrlimit(b.resource, &unix.Rlimit{Cur: value, Max: value}); err != nil {
			out.Detail = b.name + ": " + err.Error()
			return out
		}
		names = append(names, b.name)
	}
	out.Enforced, out.Detail = true, strings.Join(names, ", ")
	return out
}

func addressSpace() (uint64, error) {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	pages, _, _ := strings.Cut(string(data), " ")
	n, err := strconv.ParseUint(pages, 10, 64)
	return n * uint64(os.Getpagesize()), err //nolint:gosec // positive
}

// dropCapabilities takes every capability from every thread, and from the bounding set where that is permitted.
func dropCapabilities() Restriction {
	out := Restriction{Name: "capabilities"}
	if all := cap.GetProc(); all != nil {
		if may, err := all.GetFlag(cap.Effective, cap.SETPCAP); err == nil && may {
			for v := range cap.MaxBits() {
				if err := cap.DropBound(v); err != nil {
					out.Detail = "bounding set: " + err.Error()
					return out
				}
			}
		}
	}
	if err := cap.NewSet().SetProc(); err != nil {
		out.Detail = err.Error()
		return out
	}
	if left := cap.GetProc().String(); left != "=" {
		out.Detail = "the process holds " + left
		return out
	}
	out.Enforced, out.Detail = true, "none"
	return out
}

func noNewPrivileges() Restriction {
	out := Restriction{Name: "privileges"}
	if _, _, errno := psx.Syscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		out.Detail = errno.Error()
		return out
	}
	got, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	out.Enforced, out.Detail = err == nil && got == 1, "no_new_privs"
	return out
}

// restrictFiles uses Landlock to make only paths readable. If the kernel's Landlock version supports it, restrictFiles
// also denies TCP ports, abstract sockets and signals to other processes. Without Landlock, it returns
// errors.ErrUnsupported.
func restrictFiles(paths []string) (string, error) {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return "", fmt.Errorf("landlock: %w: %w", errors.ErrUnsupported, err)
	}
	var rules []landlock.Rule
	for _, p := range paths {
		found, err := os.Stat(p)
		if err != nil {
			return "", fmt.Errorf("landlock: %w", err)
		}
		if found.IsDir() {
			rules = append(rules, landlock.RODirs(p))
		} else {
			rules = append(rules, landlock.ROFiles(p))
		}
	}
	if err := landlock.V8.BestEffort().Restrict(rules...); err != nil {
		return "", fmt.Errorf("landlock: %w", err)
	}
	return "landlock " + strconv.Itoa(abi), nil
}

// tryForbidden tries the operations that the restrictions forbid.
func tryForbidden(cfg config) []Restriction {
	return []Restriction{
		tryFiles(cfg), tryWrites(), tryNetwork(), tryExec(), tryProcesses(), trySignals(cfg),
		tryPtrace(cfg), tryParent(cfg),
	}
}

func tryFiles(cfg config) Restriction {
	out := Restriction{Name: "files", Enforced: true, Detail: "no file outside of the granted paths can be opened"}
	for _, name := range []string{
		"/", "/etc/passwd", "/etc/hostname", "/proc/self/environ", "/proc/self/exe",
		"/bin/sh",
	} {
		if within(name, cfg.Paths) {
			continue
		}
		if f, err := os.Open(name); err == nil { //nolint:gosec // it must fail
			_ = f.Close() // it was only read
			return Restriction{Name: out.Name, Detail: name + " can be opened"}
		}
	}
	return out
}

func within(name string, paths []string) bool {
	for _, p := range paths {
		rel, err := filepath.Rel(p, name)
		if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return true
		}
	}
	return false
}

func tryWrites() Restriction {
	out := Restriction{Name: "writes", Enforced: true, Detail: "no file can be created"}
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", "/"} {
		name := filepath.Join(dir, ".sluice-worker-"+strconv.Itoa(os.Getpid()))
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // it must fail
		if err != nil {
			continue
		}
		_ = f.Close() // nothing was written
		detail := dir + " can be written"
		if err := os.Remove(name); err != nil {
			detail += "; " + err.Error()
		}
		return Restriction{Name: out.Name, Detail: detail}
	}
	return out
}

func tryNetwork() Restriction {
	out := Restriction{Name: "network", Enforced: true, Detail: "no socket can be made"}
	for name, family := range map[string]int{
		"IPv4": unix.AF_INET, "IPv6": unix.AF_INET6, "Unix": unix.AF_UNIX,
		"netlink": unix.AF_NETLINK,
	} {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM} {
			fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
			if err == nil {
				_ = unix.Close(fd) // never connected
				return Restriction{Name: out.Name, Detail: "a socket of the family " + name + " can be made"}
			}
		}
	}
	return out
}

// denied reports whether the seccomp filter stopped an attempt. Without the filter, the arguments cause another error.
func denied(name string, errno unix.Errno, detail string) Restriction {
	if errors.Is(errno, unix.EPERM) || errors.Is(errno, unix.EACCES) {
		return Restriction{Name: name, Enforced: true, Detail: detail}
	}
	if errno == 0 {
		return Restriction{Name: name, Detail: "the attempt succeeded"}
	}
	return Restriction{Name: name, Detail: "the system call is not filtered (" + errno.Error() + ")"}
}

func tryExec() Restriction {
	name, err := unix.BytePtrFromString("/nonexistent/sluice-worker")
	if err != nil {
		return Restriction{Name: "exec", Detail: err.Error()}
	}
	return denied("exec", execMissing(name), "no program can be started")
}

func tryProcesses() Restriction {
	return denied("processes", cloneInvalid(), "no process can be made")
}

func trySignals(cfg config) Restriction {
	errno := killProbe(cfg.Parent)
	if errors.Is(errno, unix.ESRCH) && slices.Contains(cfg.Apart, pidNamespace) {
		return Restriction{Name: "signals", Enforced: true, Detail: "no other process is visible"}
	}
	return denied("signals", errno, "no signal can be sent")
}

func tryPtrace(cfg config) Restriction {
	return denied("ptrace", ptraceProbe(cfg.Parent), "no process can be traced")
}

func tryParent(cfg config) Restriction {
	for _, file := range []string{"environ", "mem", "maps", "fd"} {
		name := fmt.Sprintf("/proc/%d/%s", cfg.Parent, file)
		if f, err := os.Open(name); err == nil { //nolint:gosec // it must fail
			_ = f.Close() // it was only opened
			return Restriction{Name: "parent", Detail: name + " can be opened"}
		}
	}
	return Restriction{Name: "parent", Enforced: true, Detail: "/proc of the parent cannot be read"}
}
