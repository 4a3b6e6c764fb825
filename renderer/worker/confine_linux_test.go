package worker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// report checks a host's restrictions, or skips with what this machine lacks.
func report(t *testing.T, h *Host) Report {
	t.Helper()
	r, err := h.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRestrictions(t *testing.T) {
	r := report(t, host(t, nil))
	t.Log(r)
	for _, w := range r.Restrictions {
		t.Logf("%-14s %-5t %s", w.Name, w.Enforced, w.Detail)
	}
	for _, name := range []string{
		"files", "writes", "network", "exec", "processes", "signals", "ptrace", "parent",
		"descriptors", "limits", "capabilities", "privileges",
	} {
		if !slices.ContainsFunc(r.Restrictions, func(w Restriction) bool { return w.Name == name }) {
			t.Errorf("the restriction %q was not tried", name)
		}
	}
	if len(r.Missing()) > 0 && slices.Contains(r.Means, "seccomp") {
		t.Errorf("with seccomp, every restriction must be in force: %v", r.Missing())
	}
	_, err := host(t, func(o *Options) { o.Mode = Required }).Check(t.Context())
	if _, refused := errors.AsType[*ConfinementError](err); refused == r.Complete() {
		t.Errorf("required: %v, though the report is %s", err, r)
	}
	if off := report(t, host(t, func(o *Options) { o.Mode = Off })); len(off.Missing()) > 0 {
		t.Errorf("off: %v", off.Missing())
	}
}

// A kernel that stops to grant namespaces while the service runs is reported, and so is one that grants them again.
func TestLostNamespacesAreReported(t *testing.T) {
	var changes []string
	h := host(t, func(o *Options) {
		o.Changed = func(before, now Report) {
			changes = append(changes, fmt.Sprintf("lost %q, back %q", now.Lost(before), before.Lost(now)))
		}
	})
	first := report(t, h)
	report(t, h)
	if len(changes) > 0 {
		t.Fatalf("equal children are reported: %q", changes)
	}
	fewer := separations(Degraded)
	lost := fewer[0].names
	for _, name := range lost {
		if !slices.Contains(first.Means, name) {
			t.Skipf("this machine's kernel grants no %s to begin with", name)
		}
	}
	choose := h.choose
	h.mu.Lock()
	h.choose = func(Mode) []separation { return fewer[len(fewer)-1:] }
	h.mu.Unlock()
	if now := report(t, h); !slices.Equal(now.Lost(first), lost) {
		t.Errorf("lost: %q, want %q", now.Lost(first), lost)
	}
	h.mu.Lock()
	h.choose = choose
	h.mu.Unlock()
	if now := report(t, h); len(now.Lost(first)) > 0 {
		t.Errorf("still lost: %q", now.Lost(first))
	}
	if want := []string{
		fmt.Sprintf("lost %q, back []", lost),
		fmt.Sprintf("lost [], back %q", lost),
	}; !slices.Equal(changes, want) {
		t.Errorf("changes %q, want %q", changes, want)
	}
}

// Jobs meet the restrictions themselves, not only the self-test.
func TestJobsMeetTheRestrictions(t *testing.T) {
	h := host(t, nil)
	if r := report(t, h); !r.Complete() {
		t.Skipf("this machine's kernel cannot apply every restriction: %s", r)
	}
	dir := t.TempDir()
	granted, secret := filepath.Join(dir, "granted"), filepath.Join(dir, "secret")
	for _, name := range []string{granted, secret} {
		if err := os.WriteFile(name, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "folder", "inside"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	none, one := h.For(Owner{Repository: "none"}), h.For(Owner{Repository: "one"}, granted,
		filepath.Join(dir, "folder"))
	if _, err := call(t, h.For(Owner{Repository: "typo"}, filepath.Join(dir, "nowhere")), "echo", ""); err == nil {
		t.Error("a granted path that does not exist is no error")
	}
	for name, c := range map[string]struct {
		workers *Workers
		job     string
		input   string
		works   bool
	}{
		"granted":         {one, "read", granted, true},
		"in a folder":     {one, "read", filepath.Join(dir, "folder", "inside"), true},
		"not granted":     {one, "read", secret, false},
		"nothing granted": {none, "read", granted, false},
		"parent":          {one, "read", fmt.Sprintf("/proc/%d/environ", os.Getpid()), false},
		"exec":            {one, "exec", "", false},
		"exec none":       {none, "exec", "", false},
	} {
		if _, err := call(t, c.workers, c.job, c.input); (err == nil) != c.works {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// A descriptor without close-on-exec, as a shell or a supervisor leaves it, must not reach a child.
func TestDescriptorsDoNotLeak(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	leaked, err := unix.Dup(int(f.Fd())) // without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(leaked) }()
	for _, mode := range []Mode{Off, Degraded} {
		h := host(t, func(o *Options) { o.Mode = mode })
		w := h.For(Owner{})
		if _, err := call(t, w, "echo", ""); err != nil {
			t.Fatal(err)
		}
		h.mu.Lock()
		pid := h.idle[0].process.cmd.Process.Pid
		h.mu.Unlock()
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if errors.Is(err, fs.ErrPermission) {
			t.Skip("only root may look at the descriptors of a process that is not dumpable")
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(target, "pipe:") && !strings.HasPrefix(target, "anon_inode:") &&
				!strings.HasPrefix(target, "/sys/fs/cgroup/") {
				t.Errorf("%s: the child holds descriptor %s: %s", mode, e.Name(), target)
			}
		}
	}
}

// parentToBeKilled starts children, one at work and one idle, names their process ids and waits.
func parentToBeKilled() {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	h := NewHost(Options{Command: []string{path, "worker-child"}, Mode: Mode(os.Args[2]), Size: 2})
	for _, job := range []string{"spin", "echo"} {
		go func() {
			_, _ = h.For(Owner{Repository: job}).Call(context.Background(), Call{Job: job, Timeout: time.Hour})
		}()
	}
	for {
		h.mu.Lock()
		if len(h.live) == 2 && len(h.idle) == 1 {
			for p := range h.live {
				fmt.Println(p.cmd.Process.Pid)
			}
			h.mu.Unlock()
			break
		}
		h.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
	}
	select {}
}

func TestChildrenDieWithTheirParent(t *testing.T) {
	for _, mode := range []Mode{Off, Degraded} {
		cmd := exec.CommandContext(t.Context(), self(t)[0], "worker-parent", string(mode))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		var pids []int
		for len(pids) < 2 && lines.Scan() {
			pid, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		if len(pids) != 2 {
			t.Fatalf("%s: %d children: %s", mode, len(pids), stderr.Bytes())
		}
		for _, pid := range pids {
			gone := false
			for range 600 {
				if gone = ended(pid); gone {
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
			if !gone {
				t.Errorf("%s: child %d outlives its parent", mode, pid)
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
}

// ended reports whether a process is gone or only waits to be reaped by whoever inherited it.
func ended(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(status), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

// Every thread of a process for untrusted input is nicer than the parent. Those of trusted owners are not.
func TestUntrustedAreNice(t *testing.T) {
	const nicer = 7
	own := niceOf(t, os.Getpid())[0]
	for trust, want := range map[Trust]int{Untrusted: min(own+nicer, 19), Trusted: own} {
		h := host(t, func(o *Options) { o.Nice = nicer })
		if _, err := h.For(Owner{"r", trust}).Call(t.Context(), Call{Job: "echo"}); err != nil {
			t.Fatal(err)
		}
		h.mu.Lock()
		var pids []int
		for p := range h.live {
			pids = append(pids, p.cmd.Process.Pid)
		}
		h.mu.Unlock()
		if len(pids) != 1 {
			t.Fatalf("%s: processes %v", trust, pids)
		}
		if got := niceOf(t, pids[0]); slices.ContainsFunc(got, func(n int) bool { return n != want }) {
			t.Errorf("%s: the threads have the nice values %v, want %d", trust, got, want)
		}
	}
}

// niceOf returns the nice values of a process's threads.
func niceOf(t *testing.T, pid int) []int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("threads of %d: %q, %v", pid, files, err)
	}
	var out []int
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		const field = 16 // of those after the name, see proc_pid_stat(5)
		n, err := strconv.Atoi(strings.Fields(rest)[field])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}
