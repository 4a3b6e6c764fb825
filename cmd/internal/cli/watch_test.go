package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The output is repeated at the interval. An error after the first output is printed, and an interrupt is not an
// error.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		n := 0
		err := watch(ctx, IO{Out: &out, Err: &errs}, 10*time.Second, func(_ context.Context, w io.Writer) error {
			if n++; n == 3 {
				return errors.New("no answer")
			}
			fmt.Fprintf(w, "picture %d\n", n)
			return nil
		})
		if err != nil || n != 4 {
			t.Errorf("%d pictures, %v", n, err)
		}
		if !strings.Contains(out.String(), "picture 1\n") || !strings.Contains(out.String(), "picture 4\n") ||
			!strings.Contains(errs.String(), "no answer") {
			t.Errorf("the output is %q, the errors are %q", out.String(), errs.String())
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Error("escape sequences, although the output is not a terminal")
		}
	})
	if err := watch(t.Context(), IO{Out: io.Discard, Err: io.Discard}, time.Hour,
		func(context.Context, io.Writer) error { return errors.New("wrong") }); err == nil {
		t.Error("the first error is lost")
	}
}
