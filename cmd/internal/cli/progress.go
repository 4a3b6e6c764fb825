package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
)

// progress returns the progress report of a verb: a bar on a terminal; otherwise a few lines for each phase with many
// steps; with --verbose, a line with the duration of each phase; with --quiet, nothing.
func (c *common) progress(o IO) hydrate.Progress {
	p := &phases{out: o.Err}
	switch {
	case c.quiet:
		return nil
	case c.verbose:
		return p.timed
	case o.Terminal:
		return p.bar
	}
	return p.line
}

// phases is the state of the progress report of one command. It is safe for concurrent use.
type phases struct {
	mu      sync.Mutex
	out     io.Writer
	phase   string
	started time.Time
	now     *progressbar.ProgressBar
	next    int
}

func (p *phases) bar(phase string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if phase != p.phase {
		p.clear()
		p.phase = phase
		p.now = progressbar.NewOptions(max(total, -1), progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(phase),
			progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
		if total == 0 {
			p.now.ChangeMax(-1)
		}
	}
	_ = p.now.Set(done) // a bar that cannot be drawn is no reason to stop
	if total > 0 && done == total {
		p.clear()
	}
}

func (p *phases) clear() {
	if p.now != nil {
		_ = p.now.Clear() // as above
	}
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
