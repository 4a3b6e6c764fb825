package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/hydrate"
)

// progress returns the progress report of a verb: a bar on a terminal; otherwise a few lines for each phase with many
// steps; with --verbose, a line with the duration of each phase; with --quiet, nothing.
func (c *common) progress(o IO) hydrate.Progress {
	switch {
	case c.quiet:
		return nil
	case c.verbose:
		return (&phases{out: o.Err}).timed
	case o.screen != nil:
		return o.screen.bar
	}
	return (&phases{out: o.Err}).line
}

// phases is the state of the progress report of one command. It is safe for concurrent use.
type phases struct {
	mu      sync.Mutex
	out     io.Writer
	phase   string
	started time.Time
	now     *progressbar.ProgressBar // nil during a phase of unknown length
	drawn   int                      // least number of columns of the terminal's line that the progress report fills
	next    int
}

// bar draws a bar on a terminal, or the name of a phase whose length is unknown.
func (p *phases) bar(phase string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if phase != p.phase {
		p.clear()
		p.phase, p.now = phase, nil
	}
	if total == 0 {
		if p.drawn == 0 {
			fmt.Fprintf(p.out, "%s …", phase)
			p.drawn = len(phase) + 2
		}
		return
	}
	if p.now == nil {
		p.clear()
		p.now = progressbar.NewOptions(total, progressbar.OptionSetWriter(p.out),
			progressbar.OptionSetDescription(phase),
			progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(),
			progressbar.OptionThrottle(100*time.Millisecond))
	}
	_ = p.now.Set(done) // a bar that cannot be drawn is no reason to stop
	p.drawn = len(phase)
	if done == total {
		p.clear()
	}
}

// clear empties the line of the terminal. The caller holds p.mu.
func (p *phases) clear() {
	switch {
	case p.drawn == 0:
	case p.now != nil:
		_ = p.now.Clear() // a bar that cannot be cleared is no reason to stop
	default:
		fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", p.drawn))
	}
	p.drawn = 0
}

// screen is a stream of a process whose progress report is on the same terminal. It clears the report before it writes.
type screen struct {
	io.Writer
	report *phases
}

func (s screen) Write(data []byte) (int, error) {
	s.report.mu.Lock()
	defer s.report.mu.Unlock()
	s.report.clear()
	return s.Writer.Write(data)
}

// line prints at each quarter of a phase with many steps.
func (p *phases) line(phase string, done, total int) {
	const many = 200
	p.mu.Lock()
	defer p.mu.Unlock()
	if phase != p.phase {
		p.phase, p.next = phase, total/4
	}
	if total < many || done < p.next {
		return
	}
	p.next += max(total/4, 1)
	fmt.Fprintf(p.out, "%s: %d of %d\n", phase, done, total)
}

// timed prints the beginning of each phase, and its duration when its last step is done.
func (p *phases) timed(phase string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if phase != p.phase {
		p.phase, p.started = phase, time.Now()
		fmt.Fprintf(p.out, "%s: started\n", phase)
	}
	if total > 0 && done == total {
		fmt.Fprintf(p.out, "%s: %d of %d in %s\n", phase, done, total, time.Since(p.started).Round(time.Millisecond))
	}
}

func showWarnings(w io.Writer, problems fleet.Problems) {
	for _, p := range problems {
		fmt.Fprintln(w, p)
	}
}
