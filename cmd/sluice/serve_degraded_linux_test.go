package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
)

// launch makes the test binary a launcher: it runs its arguments as a command on a kernel without seccomp and Landlock.
// The kernel answers as one that was built without them; the filter stays for all children.
func launch() {
	const noSuchCall = seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)
	err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{{
			Action: noSuchCall,
			Names:  []string{"seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"},
		}},
	}})
	if err == nil {
		err = syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// logged is a log that several goroutines use.
type logged struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.String()
}

// TestServeWithoutConfinement: on a kernel without seccomp and Landlock, the service refuses to start and says what is
// missing. With `isolation: degraded` it works, and its log, its metrics and /readyz say so.
func TestServeWithoutConfinement(t *testing.T) {
	if testing.Short() {
		t.Skip("end-to-end: run make test-e2e")
	}
	t.Parallel()
	binary, dir := build(t), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	launcher := filepath.Join(dir, "launcher")
	if err := os.Symlink(self, filepath.Join(dir, withoutConfinement)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(launcher, fmt.Appendf(nil, "#!/bin/sh\nexec %q %q \"$@\"\n",
		filepath.Join(dir, withoutConfinement), binary), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := stage.New(t.Context(), stage.Options{Kind: "github", Dir: dir, Fleet: "../../testdata/fleet"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	log := &logged{}
	refused, err := s.Serve(t.Context(), stage.Serving{Binary: launcher, Name: "required", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(refused.Kill)
	if err := refused.Ready(t.Context(), stage.Patience); err == nil {
		t.Fatal("the service starts")
	}
	if text := log.text(); !strings.Contains(text, "this system cannot confine worker processes: it lacks") ||
		!strings.Contains(text, "`degraded`") {
		t.Errorf("the log: %s", text)
	}
	metrics, err := stage.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log = &logged{}
	service, err := s.Serve(t.Context(), stage.Serving{
		Binary: launcher, Name: "degraded", Log: log, Metrics: metrics,
		Extra: "isolation: degraded\n",
	})
	if err != nil {
		t.Fatalf("the error is %v\ntext is\n%s", err, log.text())
	}
	t.Cleanup(service.Kill)
	if err := service.Ready(t.Context(), stage.Patience); err != nil {
		t.Fatalf("the error is %v\ntext is\n%s", err, log.text())
	}
	if err := stage.WaitFor(t.Context(), stage.Patience, "dev is hydrated",
		func() bool { return s.Ref("cluster/dev-1") != "" }); err != nil {
		t.Fatalf("the error is %v\ntext is\n%s", err, log.text())
	}
	for address, want := range map[string]string{
		service.Address + "/readyz":        "ready; isolation is incomplete",
		"http://" + metrics + "/metrics":   `sluice_isolation_mode{mode="degraded"} 1`,
		"http://" + metrics + "/isolation": "files",
	} {
		if text := fetched(t, address); !strings.Contains(text, want) ||
			strings.Contains(text, "sluice_isolation_missing_restrictions 0\n") {
			t.Errorf("%s: the text is %s; want %q", address, text, want)
		}
	}
	if text := log.text(); !strings.Contains(text, "worker processes are not fully confined") ||
		!strings.Contains(text, "mode=degraded") {
		t.Errorf("the log: %s", text)
	}
}

// fetched is the body of a page.
func fetched(t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
