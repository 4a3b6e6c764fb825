package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// watch repeats show at an interval until the user interrupts it, which is not an error. On a terminal each output
// replaces the previous one; elsewhere a line with the time separates them. If the first call fails, watch returns
// the error; it prints later errors and continues.
func watch(ctx context.Context, o IO, interval time.Duration, show func(context.Context, io.Writer) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for first := true; ; first = false {
		switch {
		case o.outTerminal():
			fmt.Fprint(o.Out, "\x1b[H\x1b[2J")
		case !first:
			fmt.Fprintln(o.Out)
		}
		if !first || o.outTerminal() {
			fmt.Fprintf(o.Out, "%s, every %s\n\n", time.Now().UTC().Format(time.DateTime), interval)
		}
		err := show(ctx, o.Out)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil && first {
			return err
		}
		if err != nil {
			printError(o.Err, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
