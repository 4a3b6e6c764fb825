package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// networkSide is the name under which the test binary is the Git server of one side of TestScripts/two_networks.
const networkSide = "network-side"

// sideAddress is where each side serves its repositories: the same address in two networks.
const sideAddress = "127.0.0.1:8418"

// networkCommands are the commands of scripts for networks that do not reach each other.
//
//   - `network NAME FOLDER` starts a network, in which a Git server has the repositories of a folder. It skips the script
//     where the kernel forbids namespaces.
//   - `at NAME COMMAND…` runs a command there. `! at NAME COMMAND…` expects it to fail.
func networkCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){"network": startNetwork, "at": atNetwork}
}

func startNetwork(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: network NAME FOLDER")
	}
	self, err := exec.LookPath(networkSide)
	if err != nil {
		self, err = filepath.Abs(filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], networkSide))
	}
	ts.Check(err)
	c := exec.Command(self, ts.MkAbs(args[1])) //nolint:noctx // the test binary, until the end of the script
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	stdin, err := c.StdinPipe()
	ts.Check(err)
	stdout, err := c.StdoutPipe()
	ts.Check(err)
	if err := c.Start(); err != nil {
		ts.Fatalf("a network namespace: %v", err)
	}
	ts.Defer(func() {
		_ = stdin.Close()
		_ = c.Wait() // it ends with its input
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		ts.Fatalf("the network %s did not start: %q, %v", args[0], line, err)
	}
	ts.Setenv("NETWORK_"+args[0], strconv.Itoa(c.Process.Pid))
}

func atNetwork(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: at NAME COMMAND…")
	}
	pid := ts.Getenv("NETWORK_" + args[0])
	if pid == "" {
		ts.Fatalf("there is no network %s", args[0])
	}
	enter := append([]string{"--target", pid, "--user", "--net", "--mount", "--preserve-credentials", "--wd=" + ts.MkAbs("."), "--"}, args[1:]...)
	err := ts.Exec("nsenter", enter...)
	if (err != nil) != neg {
		ts.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
}

// serveNetworkSide brings the loopback device up and serves repositories, until its input ends.
func serveNetworkSide() {
	err := func() error {
		if err := loopbackUp(); err != nil {
			return fmt.Errorf("the loopback device: %w", err)
		}
		out, err := exec.Command("git", "--exec-path").Output() //nolint:noctx // a moment
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp", sideAddress) //nolint:noctx // a moment
		if err != nil {
			return err
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &cgi.Handler{
			Path:   filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
			Env:    []string{"GIT_PROJECT_ROOT=" + os.Args[1], "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x", "GIT_CONFIG_GLOBAL=/dev/null"},
			Stderr: io.Discard,
		}}
		go func() { _ = server.Serve(l) }() // ends with the process
		fmt.Println("ready")
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

// namespaces reports whether this process may make network namespaces and enter them.
func namespaces() bool {
	return exec.Command("unshare", "--user", "--map-root-user", "--net", "--mount", "nsenter", "--version").Run() == nil //nolint:noctx // a moment
}
