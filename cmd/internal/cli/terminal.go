package cli

import (
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/term"
)

// color says whether standard output takes colours.
func (o IO) color() bool {
	return o.outTerminal() && o.Env.Getenv("NO_COLOR") == ""
}

func (o IO) outTerminal() bool {
	f, ok := o.Out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && o.Env.Getenv("TERM") != "dumb"
}

// width is the terminal's, in characters.
func (o IO) width() int {
	if f, ok := o.Out.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 120
}

// paged shows what write writes, through the user's pager on a terminal. SLUICE_PAGER goes before PAGER; `cat` or "" is none.
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
	cmd := exec.Command(words[0], words[1:]...) //nolint:gosec,noctx // the user's own; it ends when the user ends it
	cmd.Stdout, cmd.Stderr = o.Out, o.Err
	in, err := cmd.StdinPipe()
	if err != nil {
		return write(o.Out)
	}
	if err := cmd.Start(); err != nil {
		return write(o.Out)
	}
	err = write(in)
	_ = in.Close()
	_ = cmd.Wait() // a pager that was quit early is no failure
	if err != nil && strings.Contains(err.Error(), "broken pipe") {
		return nil
	}
	return err
}
