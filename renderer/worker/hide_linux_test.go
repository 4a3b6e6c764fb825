package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// hiddenParent hides when a line comes, then starts two workers, prints the report of the second one, and waits for the
// end of its input.
func hiddenParent() {
	in := bufio.NewScanner(os.Stdin)
	fmt.Println("visible")
	in.Scan()
	fail := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fail(Hide())
	h := NewHost(Options{Command: []string{os.Args[0], "worker-child"}, Mode: Degraded})
	_, err := h.Check(context.Background())
	fail(err)
	r, err := h.Check(context.Background())
	fail(err)
	text, err := json.Marshal(r)
	fail(err)
	fmt.Println(string(text))
	in.Scan()
	os.Exit(0)
}

// TestHiddenParent starts a parent as an unprivileged user, and as root if the test is root. A process of the same
// user, which has no restrictions at all, reads its environment before Hide and not afterwards. Its workers have the
// same namespaces as those of this process.
func TestHiddenParent(t *testing.T) {
	users := []int{os.Geteuid()}
	if os.Geteuid() == 0 {
		users = append(users, nobody)
	}
	dir := t.TempDir()
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) { // for the other user
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "parent")
	if err := os.WriteFile(binary, program, 0o755); err != nil {
		t.Fatal(err)
	}
	usual := report(t, host(t, nil))
	for _, user := range users {
		t.Run(strconv.Itoa(user), func(t *testing.T) { hiddenFrom(t, binary, user, usual) })
	}
}

func hiddenFrom(t *testing.T, binary string, user int, usual Report) {
	t.Helper()
	as := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), name, args...)
		if user != os.Geteuid() {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{
				Uid: uint32(user),
				Gid: uint32(user),
			}}
		}
		return cmd
	}
	parent := as(binary, "worker-hidden")
	parent.Env = []string{"TOKEN=canary"}
	in, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatal("the parent ended")
		}
		return lines.Text()
	}
	read := func() string {
		data, _ := as("cat", fmt.Sprintf("/proc/%d/environ", parent.Process.Pid)).Output() // an error is no data
		return string(data)
	}
	next()
	if !strings.Contains(read(), "canary") {
		t.Error("the environment cannot be read before Hide: the test shows nothing")
	}
	if _, err := fmt.Fprintln(in); err != nil {
		t.Fatal(err)
	}
	var r Report
	if text := next(); json.Unmarshal([]byte(text), &r) != nil {
		t.Fatal(text)
	}
	if user != 0 && read() != "" { // root has every capability, unlike a worker of root
		t.Error("the environment can be read after Hide")
	}
	i := slices.IndexFunc(r.Restrictions, func(w Restriction) bool { return w.Name == "parent's memory" })
	if i < 0 || !r.Restrictions[i].Enforced {
		t.Errorf("the self-test says %+v", r.Restrictions)
	}
	if lost := r.Lost(usual); len(lost) > 0 && user == os.Geteuid() {
		t.Errorf("a hidden parent's workers lack %q", lost)
	}
	if user != os.Geteuid() && slices.Contains(usual.Means, userNamespace) != slices.Contains(r.Means, userNamespace) {
		t.Errorf("workers of user %d have %q, those of root %q", user, r.Means, usual.Means)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Wait(); err != nil {
		t.Error(err)
	}
}
