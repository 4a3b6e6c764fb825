package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/hydratetest"
)

// terminal is a writer that keeps what a terminal shows after carriage returns.
type terminal struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (t *terminal) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.data.Write(data)
}

// lines returns what is on the terminal, without spaces at the ends of lines.
func (t *terminal) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for line := range strings.SplitSeq(t.data.String(), "\n") {
		var shown []rune
		for part := range strings.SplitSeq(line, "\r") {
			over := []rune(part)
			shown = append(over, shown[min(len(over), len(shown)):]...)
		}
		out = append(out, strings.TrimRight(string(shown), " "))
	}
	return out
}

// The progress report on a terminal leaves nothing behind, neither before the output of the command nor after it.
func TestProgressOnTerminal(t *testing.T) {
	repo := hydratetest.New(t)
	args := []string{"hydrate", "--dry-run", "--env", "dev,prod", "--repo", repo.Dir}
	var plain bytes.Buffer
	o := System()
	o.Out, o.Err, o.Terminal = &plain, &plain, false
	if status := Main(t.Context(), []string{"init", repo.Dir}, o); status != ExitOK {
		t.Fatalf("init: status %d: %s", status, &plain)
	}
	plain.Reset()
	repo.Commit("Start a fleet")
	repo.Hydrate(func(r *hydrate.Request) { r.Environments = []string{"dev", "prod"} }) // the command renders nothing
	if status := Main(t.Context(), args, o); status != ExitOK {
		t.Fatalf("status %d: %s", status, &plain)
	}
	var tty terminal
	o.Out, o.Err, o.Terminal = &tty, &tty, true
	if status := Main(t.Context(), args, o); status != ExitOK {
		t.Fatalf("on a terminal, status %d: %q", status, tty.lines())
	}
	if !strings.Contains(tty.data.String(), "read the fleet") {
		t.Error("the terminal shows no progress")
	}
	if got := strings.Join(tty.lines(), "\n"); got != plain.String() {
		t.Errorf("the terminal shows\n%s\nand without a terminal the command writes\n%s", got, &plain)
	}
}

// Phases of unknown and of known length follow each other on one line, and each output begins on an empty line.
func TestProgressPhases(t *testing.T) {
	var tty terminal
	p := &phases{out: &tty}
	out := screen{&tty, p}
	last := func() string { l := tty.lines(); return l[len(l)-1] }
	p.bar("read the fleet", 0, 0)
	if last() != "read the fleet …" {
		t.Errorf("a phase of unknown length is shown as %q", last())
	}
	p.bar("plan", 0, 0)
	if last() != "plan …" {
		t.Errorf("the next phase is shown as %q", last())
	}
	p.bar("render", 1, 4)
	if !strings.HasPrefix(last(), "render") || !strings.Contains(last(), "1/4") {
		t.Errorf("a phase of known length is shown as %q", last())
	}
	fmt.Fprintln(out, "warning: x")
	p.bar("push", 0, 0)
	if _, err := io.WriteString(out, "done\n"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(tty.lines(), "|"); got != "warning: x|done|" {
		t.Errorf("the terminal shows %q", got)
	}
}
