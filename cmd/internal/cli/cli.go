// Package cli is the command line: one file for each verb, which turns flags into options and calls.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/cmd/internal/app"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
)

// Exit statuses.
const (
	ExitOK      = 0
	ExitFailed  = 1 // the work could not be done, or not all of it
	ExitUsage   = 2 // the call's words are wrong
	ExitDiffers = 3 // verify: a branch is not what its commit gives
)

// IO is what a process has: streams, environment, and itself.
type IO struct {
	Out, Err io.Writer
	Terminal bool // Err is one
	Env      app.Environment
	Dir      string // the working directory
}

// System is the real process.
func System() IO {
	home, _ := os.UserHomeDir()
	executable, err := os.Executable()
	if err != nil {
		executable = os.Args[0]
	}
	dir, _ := os.Getwd()
	info, err := os.Stderr.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("CI") == "" && os.Getenv("TERM") != "dumb"
	return IO{Out: os.Stdout, Err: os.Stderr, Terminal: terminal, Env: app.Environment{Getenv: os.Getenv, Home: home, Executable: executable}, Dir: dir}
}

// exitError is an error that has been shown already, or needs a status of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Main runs a command line and gives the exit status.
func Main(ctx context.Context, args []string, o IO) int {
	root := newRoot(o)
	root.SetArgs(args)
	root.SetOut(o.Out)
	root.SetErr(o.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{code: ExitFailed, err: err}
	}
	complain(o.Err, exit)
	return exit.code
}

func complain(w io.Writer, e *exitError) {
	var problems fleet.Problems
	switch text := e.Error(); {
	case errors.As(e.err, &problems):
		fmt.Fprintln(w, problems.Error())
		fmt.Fprintf(w, "sluice: %d problems in the fleet\n", len(problems)-len(problems.Warnings()))
	case text != "":
		fmt.Fprintln(w, "sluice: "+text)
	}
}

func newRoot(o IO) *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Render a fleet of Kubernetes clusters into Git branches",
		Long: `Sluice turns layered Helm and Kustomize sources into fully rendered branches: one per environment and one per
cluster, for Flux or Argo CD to sync.

Exit status: 0 done; 1 something failed; 2 wrong words in the call; 3 verify found a difference.`,
		Version:       app.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &exitError{ExitUsage, fmt.Errorf("%w: see `%s --help`", err, c.CommandPath())}
	})
	for _, add := range []func(IO) *cobra.Command{
		newInit, newValidate, newRender, newHydrate, newVerify, newWhere, newExplain, newAffected, newDiff, newCheck, newPolicy, newCI, newServe, newPromote, newApprove, newRollback, newFreeze, newUnfreeze, newHalt, newResume, newStatus, newHistory, newBootstrap, newDeps, newChild,
	} {
		command := add(o)
		wrapArgs(command)
		root.AddCommand(command)
	}
	return root
}

// wrapArgs gives wrong arguments the status of wrong flags.
func wrapArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return &exitError{ExitUsage, fmt.Errorf("%w: see `%s --help`", err, c.CommandPath())}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}

// common are the flags of every verb that reads a repository.
type common struct {
	app.Options
	memory int
	output string
	quiet  bool
}

func (c *common) flags(cmd *cobra.Command, formats ...string) {
	f := cmd.Flags()
	f.StringVar(&c.Repo, "repo", ".", "source `repository`: a folder, or a URL")
	f.IntVar(&c.Jobs, "jobs", runtime.GOMAXPROCS(0), "targets rendered at once")
	f.DurationVar(&c.RenderTimeout, "render-timeout", time.Minute, "most time for one target")
	f.IntVar(&c.memory, "render-memory", 1024, "most `MiB` for one render process")
	f.StringSliceVar(&c.PlainHTTP, "plain-http", nil, "registry `hosts` that are asked over HTTP")
	f.BoolVarP(&c.quiet, "quiet", "q", false, "no progress")
	if len(formats) > 0 {
		f.StringVarP(&c.output, "output", "o", formats[0], strings.Join(formats, " or "))
		_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	}
}

func (c *common) check(formats ...string) error {
	c.RenderMemory = int64(c.memory) << 20
	if c.Jobs < 1 {
		return &exitError{ExitUsage, errors.New("--jobs must be at least 1")}
	}
	if c.memory < 64 {
		return &exitError{ExitUsage, errors.New("--render-memory must be at least 64 MiB")}
	}
	if len(formats) > 0 && !slices.Contains(formats, c.output) {
		return &exitError{ExitUsage, fmt.Errorf("--output must be %s, not %q", strings.Join(formats, " or "), c.output)}
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// progress shows a bar for each phase on a terminal, and otherwise a line for each phase that takes long.
func (c *common) progress(o IO) hydrate.Progress {
	if c.quiet {
		return nil
	}
	p := &phases{out: o.Err}
	if o.Terminal {
		return p.bar
	}
	return p.line
}

type phases struct {
	mu    sync.Mutex
	out   io.Writer
	phase string
	now   *progressbar.ProgressBar
	next  int
}

func (p *phases) bar(phase string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if phase != p.phase {
		if p.now != nil {
			_ = p.now.Clear()
		}
		p.phase = phase
		p.now = progressbar.NewOptions(max(total, -1), progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(phase),
			progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
		if total == 0 {
			p.now.ChangeMax(-1)
		}
	}
	_ = p.now.Set(done)
	if total > 0 && done == total {
		_ = p.now.Clear()
	}
}

// line writes at the quarters of a long phase.
func (p *phases) line(phase string, done, total int) {
	const long = 200
	p.mu.Lock()
	defer p.mu.Unlock()
	if phase != p.phase {
		p.phase, p.next = phase, total/4
	}
	if total < long || done < p.next {
		return
	}
	p.next += max(total/4, 1)
	fmt.Fprintf(p.out, "%s: %d of %d\n", phase, done, total)
}

func showWarnings(w io.Writer, problems fleet.Problems) {
	for _, p := range problems {
		fmt.Fprintln(w, p)
	}
}
