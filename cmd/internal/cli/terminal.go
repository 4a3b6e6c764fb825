package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/term"
)

// color reports whether standard output shows colours.
func (o IO) color() bool {
	return o.outTerminal() && o.Env.Getenv("NO_COLOR") == ""
}

func (o IO) outTerminal() bool {
	f, ok := file(o.Out)
	return ok && term.IsTerminal(int(f.Fd())) && o.Env.Getenv("TERM") != "dumb"
}

// file returns the file behind a stream.
func file(w io.Writer) (*os.File, bool) {
	if out, ok := w.(*written); ok {
		w = out.Writer
	}
	if s, ok := w.(screen); ok {
		w = s.Writer
	}
	f, ok := w.(*os.File)
	return f, ok
}

// width returns the width of the terminal in characters; 120 without one.
func (o IO) width() int {
	if f, ok := file(o.Out); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 120
}

// paged runs write with the user's pager on a terminal, and with standard output otherwise. SLUICE_PAGER overrides
// PAGER; `cat` disables the pager.
func (o IO) paged(write func(io.Writer) error) error {
	pager := o.Env.Getenv("SLUICE_PAGER")
	if pager == "" {
		pager = o.Env.Getenv("PAGER")
	}
	if pager == "" {
		pager = "less -FRX"
	}
	words := strings.Fields(pager)
	if !o.outTerminal() || words[0] == "cat" {
		return write(o.Out)
	}
	cmd := exec.Command(words[0], words[1:]...) //nolint:gosec,noctx // the user chooses the pager and quits it
	if o.screen != nil {
		_, _ = o.Err.Write(nil) // clears the progress report
	}
	cmd.Stdout, cmd.Stderr = o.Out, o.Err
	if f, ok := file(o.Out); ok { // a pager needs the terminal itself
		cmd.Stdout = f
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return write(o.Out)
	}
	if err := cmd.Start(); err != nil {
		return write(o.Out)
	}
	err = write(in)
	_ = in.Close() // the user may have quit the pager
	_ = cmd.Wait() // quitting a pager early is not a failure
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}
