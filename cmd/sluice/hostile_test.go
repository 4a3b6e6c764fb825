package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
	"github.com/sluice-gitops/sluice/internal/hostile"
)

const hostileTables = "../../testdata/hostile"

// hostileChange is a case of changes.yaml, whose head explains the fields.
type hostileChange struct {
	hostile.Head `yaml:",inline"`

	Fleet     string            `yaml:"fleet"`
	Files     map[string]string `yaml:"files"`
	Script    string            `yaml:"script"`
	Commit    string            `yaml:"commit"`
	Refused   *string           `yaml:"refused"`
	Contained *string           `yaml:"contained"`
	Harmless  *string           `yaml:"harmless"`
	Only      string            `yaml:"only"`
	Run       string            `yaml:"run"`
	Lacks     string            `yaml:"lacks"`
	Timeout   string            `yaml:"timeout"`
	Seconds   int               `yaml:"seconds"`
	Megabytes int64             `yaml:"megabytes"`
}

// limit is how long the case may take. A machine that does other work too is not measured: five minutes show that it
// ends.
func (c *hostileChange) limit() time.Duration {
	switch {
	case !strict():
		return 5 * time.Minute
	case c.Seconds > 0:
		return time.Duration(c.Seconds) * time.Second
	}
	return time.Minute
}

func (c *hostileChange) memory() int64 {
	if c.Megabytes > 0 {
		return c.Megabytes << 20
	}
	return 900 << 20
}

func hostileChanges(t *testing.T) []hostileChange {
	t.Helper()
	var out []hostileChange
	if err := hostile.Load(filepath.Join(hostileTables, "changes.yaml"), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// traps are what a case must not touch: a file with a secret and a listening port.
type traps struct {
	file, secret string
	port         string
	touched      atomic.Int64
}

func newTraps(t *testing.T) *traps {
	t.Helper()
	s := &traps{file: filepath.Join(t.TempDir(), "canary"), secret: fmt.Sprintf("canary-of-a-file-%d",
		time.Now().UnixNano())}
	if err := os.WriteFile(s.file, []byte(s.secret+": [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // the test is over
	_, s.port, _ = strings.Cut(l.Addr().String(), ":")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.touched.Add(1)
			_ = c.Close() // nobody should have come
		}
	}()
	return s
}

func (s *traps) text(t *testing.T, text string) string {
	t.Helper()
	out, err := hostile.Expand(text)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("@CANARY@", s.file, "@PORT@", s.port).Replace(out)
}

// apply makes the change of a case in a working copy whose HEAD is the trunk, and commits it.
func (c *hostileChange) apply(t *testing.T, traps *traps, dir string) error {
	t.Helper()
	if c.Fleet != "" {
		name := filepath.Join(dir, "sluice.yaml")
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		data = append(data, "  "+traps.text(t, c.Fleet)+"\n"...)
		if err := os.WriteFile(name, data, 0o600); err != nil {
			return err
		}
	}
	for name, text := range c.Files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o750),
			os.WriteFile(name, []byte(traps.text(t, text)), 0o600)); err != nil {
			return err
		}
	}
	script := "git add -A && git commit -q --allow-empty -m hostile"
	if c.Script != "" {
		script = traps.text(t, c.Script) + "\ncd \"$TOP\" && " + script
	}
	if c.Commit != "" {
		script = traps.text(t, c.Commit)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TOP="+dir, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=Eve", "GIT_AUTHOR_EMAIL=eve@example.com", "GIT_COMMITTER_NAME=Eve",
		"GIT_COMMITTER_EMAIL=eve@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// judge compares what people see of a case with its outcome.
func (c *hostileChange) judge(t *testing.T, traps *traps, failed bool, seen string) {
	t.Helper()
	want, fails := "", true
	switch {
	case c.Refused != nil:
		want = *c.Refused
	case c.Contained != nil:
		want = *c.Contained
	default:
		want, fails = *c.Harmless, false
	}
	show := seen[:min(len(seen), 3000)]
	if failed != fails || !strings.Contains(seen, want) {
		t.Errorf("failed: %t, want %t with %q:\n%s", failed, fails, want, show)
	}
	if c.Lacks != "" && strings.Contains(seen, c.Lacks) {
		t.Errorf("it holds %q:\n%s", c.Lacks, show)
	}
	if html := render(t, seen); activeMarkup.MatchString(html) {
		t.Errorf("it holds markup: %q", activeMarkup.FindString(html))
	}
	if strings.Contains(seen, traps.secret) {
		t.Errorf("it holds the canary of the file:\n%s", show)
	}
	if n := traps.touched.Swap(0); n > 0 {
		t.Errorf("%d connections to the listening port", n)
	}
}

// activeMarkup is HTML that does more than show text.
var activeMarkup = regexp.MustCompile(`(?i)<(script|img|iframe|form|style|object|embed|svg|video|audio|h1)\b|<[^>]*(javascript:|data:|\son\w+=)|<a [^>]*href="http://127\.`)

// render renders Markdown as forges do, but with all HTML that it holds.
func render(t *testing.T, markdown string) string {
	t.Helper()
	var out strings.Builder
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithUnsafe()))
	if err := md.Convert([]byte(markdown), &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// allCases is the value of SLUICE_HOSTILE that runs every case on both forges, which takes too long for each commit:
// the nightly workflow sets it.
const allCases = "all"

// chosen reports whether the i-th case runs. make test runs one in 16, make test-e2e half, make test-thorough all.
// SLUICE_HOSTILE holds texts separated by |: cases whose name contains one of them run. Its value "all" runs every case
// on both forges.
func chosen(i int, name string) bool {
	pattern := os.Getenv("SLUICE_HOSTILE")
	if pattern == allCases {
		return true
	}
	if pattern != "" {
		return slices.ContainsFunc(strings.Split(pattern, "|"), func(words string) bool {
			return strings.Contains(name,
				words)
		})
	}
	return i%16 == 1 || !testing.Short() && i%4 < 2
}

// byCommand reports whether the command line runs a case. Of the chosen cases that a service can review too, make
// test-e2e runs each on one of both: TestHostileService the even ones, TestHostileChanges the odd ones. make
// test-thorough runs all on both.
func (c *hostileChange) byCommand(i int) bool {
	if c.Only == "service" || !chosen(i, c.Name) {
		return false
	}
	return c.Only == "cli" || c.Run != "" || i%2 == 1 || testing.Short() || os.Getenv("SLUICE_HOSTILE") != ""
}

// TestHostileChanges runs `sluice diff` on each change of testdata/hostile/changes.yaml, with canaries as credentials
// and a second repository next to it, and measures the process and its workers.
func TestHostileChanges(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("it measures processes as Linux does")
	}
	s := newSandbox(t)
	s.source("bystander")
	fleet, bystander := filepath.Join(s.dir, "fleet"), filepath.Join(s.dir, "bystander")
	s.run(fleet, "sh", "-c", "cat > sluice.yaml <<'X'\n"+following+
		"X\ngit commit -qam following && git clone -q --bare . ../origin.git && git remote add origin ../origin.git && git fetch -q origin")
	before := s.run(bystander, "sh", "-c",
		"git for-each-ref; git status --porcelain; find . -type f | sort | xargs sha256sum")
	traps := newTraps(t)
	const canary = "canary-credential-2718281828"
	for i := range hostileChanges(t) {
		c := &hostileChanges(t)[i]
		if !c.byCommand(i) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			s.run(fleet, "sh", "-ec",
				"git rebase --abort 2>/dev/null || true; git checkout -q -f --no-recurse-submodules -B hostile main; git clean -qffdx")
			if err := c.apply(t, traps, fleet); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*c.limit())
			defer cancel()
			args := []string{"diff", "main..hostile", "-o", "markdown"}
			if c.Run != "" {
				args = []string{c.Run}
			}
			cmd := exec.CommandContext(ctx, s.binary, append(args, "--offline", "--render-timeout",
				cmp.Or(c.Timeout, "60s"), "--render-memory", "300")...)
			cmd.Dir = fleet
			cmd.Env = append(s.command(fleet, "true").Env, "SLUICE_OFFLINE=1", "SLUICE_CACHE_DIR="+
				filepath.Join(s.dir, "cache"))
			for _, name := range []string{
				"GITHUB_TOKEN", "GITLAB_TOKEN", "SLUICE_TOKEN", "AWS_SECRET_ACCESS_KEY",
				"SLUICE_REPO_CHARTS_EXAMPLE_COM_TOKEN",
			} {
				cmd.Env = append(cmd.Env, name+"="+canary)
			}
			began := time.Now()
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1 && exit.ExitCode() != 2) {
				t.Errorf("it ends with %v", err)
			}
			c.judge(t, traps, err != nil, string(out))
			if took := time.Since(began); took > c.limit() {
				t.Errorf("it takes %s, and may take %s", took, c.limit())
			}
			usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
			if !ok || usage.Maxrss == 0 {
				t.Fatal("the system does not tell how much memory a process used")
			}
			// The largest of the process and its workers. Linux counts for a child what its parent had when it was
			// forked, so a figure that this process reached itself says nothing.
			var own syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
				t.Fatal(err)
			}
			if used := usage.Maxrss << 10; used > c.memory() && usage.Maxrss > own.Maxrss {
				t.Errorf("it takes %d MiB, and may take %d", used>>20, c.memory()>>20)
			}
			t.Logf("%.1f s, %d MiB", time.Since(began).Seconds(), usage.Maxrss>>10)
			if strings.Contains(string(out), canary) {
				t.Error("a credential is in the output")
			}
		})
	}
	if after := s.run(bystander, "sh", "-c",
		"git for-each-ref; git status --porcelain; find . -type f | sort | xargs sha256sum"); after != before {
		t.Errorf("the other repository is changed:\n%s\n%s", before, after)
	}
	noneLeft(t, s.binary)
	noCores(t, s.dir)
}

// noneLeft waits until no process of a binary runs any more.
func noneLeft(t *testing.T, binary string) {
	t.Helper()
	for deadline := time.Now().Add(stage.Patience); len(alive(binary)) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("processes outlive the test: %v", alive(binary))
		}
	}
}

// noCores looks for core files in a folder.
func noCores(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			return nil
		}
		name, number := strings.CutPrefix(d.Name(), "core.")
		if _, notNumber := strconv.Atoi(name); d.Type().IsRegular() &&
			(d.Name() == "core" || number && notNumber == nil) {
			t.Errorf("a core file: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
