package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// watch shows what show prints, again after each interval, until the user ends it, which is no failure. On a terminal each picture
// replaces the one before; elsewhere a line with the time separates them. An error of show ends it, unless a picture was shown
// before: then the error is printed and the next attempt follows.
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
