// Command demoservice shows the service at work in a terminal, without any account: an in-memory forge, real Git over
// HTTP, and the real `sluice serve` with its built-in queue. It prints what the service writes to the forge and to
// Git, and fails if an expected result does not appear in time. In a terminal, the service then runs until Ctrl-C, so
// that its pages can be opened.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/sluice-gitops/sluice/bot/forge/forgetest/stage"
)

const (
	whole = 15 * time.Minute // time limit for all steps
	step  = stage.Patience   // time limit for one result
)

func main() {
	binary := flag.String("sluice", "bin/sluice", "the binary")
	kind := flag.String("forge", "github", "github or gitlab")
	fleet := flag.String("fleet", "testdata/fleet", "folder of the fleet")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *binary, *kind, *fleet)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demoservice:", err)
		os.Exit(1)
	}
}

// show is the demonstration: a stage, a service, and the output.
type show struct {
	*stage.Stage
	pages stage.Process // where the service serves its pages
	out   io.Writer
	mark  string // prefix of a merge request's number: # or !
	bold  func(string) string
}

func run(ctx context.Context, binary, kind, fleet string) error {
	if kind != "github" && kind != "gitlab" {
		return fmt.Errorf("-forge %s: github or gitlab", kind)
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	s := &show{out: os.Stdout, mark: map[string]string{"github": "#", "gitlab": "!"}[kind], bold: emphasis(os.Stdout)}
	if s.Stage, err = stage.New(ctx, stage.Options{Kind: kind, Dir: dir, Fleet: fleet, Sent: s.sent}); err != nil {
		return err
	}
	defer s.Close()
	log := &stage.Journal{}
	pages, err := stage.FreeAddress(ctx)
	if err != nil {
		return err
	}
	service, err := s.Serve(ctx, stage.Serving{Binary: binary, Log: log, Extra: "pages: {listen: " + pages + "}\n"})
	if err != nil {
		return err
	}
	s.pages = stage.Process{Address: "http://" + pages}
	defer service.Kill()
	began := time.Now()
	s.say("A %s in memory, its Git over HTTP, and `sluice serve` at %s",
		map[string]string{"github": "GitHub", "gitlab": "GitLab"}[kind], service.Address)
	s.tell("its pages, which follow what happens, are at %s", s.pages.Address)
	err = service.Ready(ctx, step)
	if err == nil {
		s.SendTo(service.Address)
		limited, cancel := context.WithTimeout(ctx, whole)
		err = s.play(limited)
		cancel()
	}
	took := time.Since(began)
	if err == nil && interactive() {
		s.stay(ctx)
	}
	if err == nil {
		s.say("SIGTERM: the service drains and ends")
		err = service.Stop(step)
	}
	if err != nil {
		return fmt.Errorf("%w\n\nthe service's log:\n%s", err, log)
	}
	s.tell("everything as expected, in %.1f s", took.Seconds())
	return nil
}

// interactive reports whether a person can end the demonstration with Ctrl-C.
func interactive() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
}

// stay prints the pages that can be opened, and waits until ctx ends.
func (s *show) stay(ctx context.Context) {
	pages := s.pages.Address + "/f/" + stage.Repository + "/-/"
	s.say("The service keeps running. Open its pages:")
	for _, p := range [][2]string{
		{"index.html", "what runs where, and what to do next"},
		{"promotions.html", "the pipeline, with gates and waves"},
		{"merge-requests.html", "the merge requests with their reports"},
		{"history.html", "what happened, as a timeline"},
	} {
		s.tell("%s%-20s  %s", pages, p[0], p[1])
	}
	s.say("Ctrl-C ends it")
	<-ctx.Done()
}

// play runs all steps.
func (s *show) play(ctx context.Context) error {
	s.say("The service hydrates the trunk, and dev follows it")
	if err := s.until(ctx, "env/dev exists", func() bool {
		return s.Ref("env/dev") != "" &&
			s.Ref("cluster/dev-1") != ""
	}); err != nil {
		return err
	}
	s.branches("env/", "cluster/")
	if err := s.review(ctx); err != nil {
		return err
	}
	return s.walk(ctx)
}

// review opens a merge request, pushes to it, and closes it.
func (s *show) review(ctx context.Context) error {
	number, err := s.propose("cad", "Sell in Canadian dollars", currency("CAD"))
	if err != nil {
		return err
	}
	preview := fmt.Sprintf("sluice/preview/%d", number)
	if err := s.until(ctx, "one comment shows the change, the status is green, and a preview exists", func() bool {
		return s.one(number, "+  currency: CAD") && s.Status(s.Head(number), "sluice") == "success" &&
			s.Ref(preview) != ""
	}); err != nil {
		return err
	}
	s.comment(number)
	s.branches(preview)
	first := s.Ref(preview)

	s.say("ada pushes to it: pesos, not dollars")
	if err := errors.Join(s.Change("cad", "Pesos", currency("MXN")), s.Pushed(number)); err != nil {
		return err
	}
	if err := s.until(ctx, "the same comment has the new change, and the preview follows", func() bool {
		return s.one(number, "+  currency: MXN", "Since") && s.Ref(preview) != first && s.Ref(preview) != ""
	}); err != nil {
		return err
	}
	s.tell("still one comment, updated; it starts with the changes since the last push:")
	s.quote(s.Comments(number)[0], func(line string) bool {
		return strings.HasPrefix(line, "+") ||
			strings.Contains(line, "Since")
	})

	s.say("ada closes it")
	if err := s.CloseRequest(number); err != nil {
		return err
	}
	if err := s.until(ctx, "the preview's branch is gone", func() bool { return s.Ref(preview) == "" }); err != nil {
		return err
	}
	s.tell("%s is gone", preview)
	return nil
}

// walk merges another merge request and follows its rollout.
func (s *show) walk(ctx context.Context) error {
	number, err := s.propose("greeting", "Greet otherwise", greeting)
	if err != nil {
		return err
	}
	if err := s.until(ctx, "one comment shows the change", func() bool {
		return s.one(number,
			"mind the step")
	}); err != nil {
		return err
	}
	before := s.Refs()
	s.say("mia merges it")
	trunk, err := s.Merge(number)
	if err != nil {
		return err
	}
	if err := s.until(ctx, "dev runs it: its branches moved, and the status and the comment show it", func() bool {
		return s.Ref("env/dev") != before["env/dev"] && s.Ref("cluster/dev-1") != before["cluster/dev-1"] &&
			s.Status(trunk, "sluice/dev") == "success" && s.one(number, "runs it")
	}); err != nil {
		return err
	}
	s.moved(before)
	s.tell("the change of the cluster dev-1:")
	s.quote(s.GitOutput("show", "--format=%h %an: %s%n%n%b", "-U0", "refs/heads/cluster/dev-1"),
		func(line string) bool { return line != "" && !strings.HasPrefix(line, "diff") })
	s.tell("and the rollout in the comment of %s%d:", s.mark, number)
	s.quote(s.Comments(number)[0], func(line string) bool {
		return strings.HasPrefix(line, "| ") && slices.ContainsFunc([]string{"Environment", "dev", "staging", "prod"},
			func(w string) bool { return strings.Contains(strings.SplitN(line, "|", 3)[1], w) })
	})

	s.say("mia comments /sluice status")
	if _, err := s.Comment(number, "mia", "/sluice status"); err != nil {
		return err
	}
	if err := s.until(ctx, "the service answers once and logs the command", func() bool {
		all := s.Comments(number)
		return len(all) == 2 && stage.ContainsAll(all[0], "| `/sluice status` | `mia` | answered")
	}); err != nil {
		return err
	}
	s.quote(s.Comments(number)[1], func(string) bool { return true })
	s.say("the pages of the fleet show the same, at %s", s.pages.Address)
	return s.until(ctx, "the pages are served", func() bool {
		return s.pages.Answers(ctx, "/f/"+stage.Repository+"/-/index.html") &&
			s.pages.Answers(ctx, "/f/"+stage.Repository+"/-/clusters/dev-1.html")
	})
}

// propose pushes a branch and opens a merge request.
func (s *show) propose(branch, title string, edit func(dir string) error) (int, error) {
	if err := s.Branch(branch, title, edit); err != nil {
		return 0, err
	}
	number, err := s.Open(branch, "ada")
	s.say("ada opens %s%d: %s", s.mark, number, title)
	return number, err
}

// one reports whether the bot has exactly one comment, with all these parts.
func (s *show) one(number int, parts ...string) bool {
	all := s.Comments(number)
	return len(all) == 1 && stage.ContainsAll(all[0], parts...)
}

func (s *show) until(ctx context.Context, what string, is func() bool) error {
	began := time.Now()
	if err := stage.WaitFor(ctx, step, what, is); err != nil {
		return err
	}
	s.tell("after %.1f s %s", time.Since(began).Seconds(), what)
	return nil
}

func (s *show) say(format string, args ...any) {
	fmt.Fprintf(s.out, "\n%s\n", s.bold(fmt.Sprintf(format, args...)))
}

func (s *show) tell(format string, args ...any) { fmt.Fprintf(s.out, "  "+format+"\n", args...) }

// sent reports a webhook that the service did not accept; there should be none.
func (s *show) sent(d stage.Delivery, status int) {
	if status < 200 || status > 299 {
		s.tell("the webhook %s was answered with %d", d.Event, status)
	}
}

func (s *show) branches(prefixes ...string) {
	for name, hash := range sorted(s.Refs()) {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			s.tell("%.10s  %s", hash, name)
		}
	}
}

// moved prints the old and the new commit of branches.
func (s *show) moved(before map[string]string) {
	for name, hash := range sorted(s.Refs()) {
		if was := before[name]; was != hash {
			s.tell("%-10.10s → %.10s  %s", was, hash, name)
		}
	}
}

func sorted(refs map[string]string) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		names := []string{}
		for name := range refs {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if !yield(name, refs[name]) {
				return
			}
		}
	}
}

const quoted = 60 // lines of a comment that are printed

func (s *show) comment(number int) {
	s.tell("the comment on %s%d:", s.mark, number)
	s.quote(s.Comments(number)[0], func(line string) bool { return !strings.HasPrefix(line, "<!--") })
}

func (s *show) quote(text string, show func(line string) bool) {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(text), "\n"),
		func(line string) bool { return !show(line) })
	if len(lines) > quoted {
		lines = append(lines[:quoted], "…")
	}
	for _, line := range lines {
		fmt.Fprintf(s.out, "    │ %s\n", line)
	}
}

func emphasis(f *os.File) func(string) string {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func(s string) string { return s }
	}
	return func(s string) string { return "\x1b[1m" + s + "\x1b[0m" }
}

// currency changes the currency of one region.
func currency(to string) func(dir string) error {
	return func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "apps/shop/layers/region/us-east-1/values.yaml"),
			[]byte("config:\n  currency: "+to+"\n"), 0o600)
	}
}

// greeting changes the greeting of every shop.
func greeting(dir string) error {
	file := filepath.Join(dir, "apps/shop/layers/global/values.yaml")
	data, err := os.ReadFile(file) //nolint:gosec // on the stage
	if err != nil {
		return err
	}
	return os.WriteFile(file, bytes.ReplaceAll(data, []byte("mind the gap"), []byte("mind the step")), 0o600) //nolint:gosec // on the stage
}
