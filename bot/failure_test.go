package bot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
)

func (s *sharedHead) MergeRequest(_ context.Context, _ forge.Repository, number int) (*forge.MergeRequest, error) {
	return request(number, "main"), nil
}

// The status of a parked review names the kind of failure and the incident. It contains nothing of the error's text,
// which can be a panic with a stack, an internal address or text of a chart.
func TestParkedShowsNoErrorText(t *testing.T) {
	t.Parallel()
	const secret = "goroutine 7 [running]: /var/lib/sluice http://10.0.0.7:4222 <img src=x> @everyone"
	for kind, want := range map[error]string{
		errors.New(secret): "an internal error",
		fmt.Errorf("%s: %w", secret, forge.ErrForbidden):              "lacks a permission",
		fmt.Errorf("%s: %w", secret, forge.ErrUnavailable):            "does not answer",
		fmt.Errorf("%s: %w", secret, context.DeadlineExceeded):        "too long",
		errors.Join(errors.New(secret), forge.ErrUnauthorized):        "credential",
		fmt.Errorf("%w (%w)", errors.New(secret), forge.ErrNotFound):  "an internal error",
		fmt.Errorf("the worker panicked: %s", strings.Repeat("x", 9)): "an internal error",
	} {
		var enqueued []int
		j, f := sharing(t, &enqueued)
		j.Forges = func(string) (Forge, bool) { return f, true }
		j.Settings = func(hint.Place) Settings { return j.settings }
		h := hint.Hint{Place: j.place, Kind: hint.Review, Number: 7}
		if err := j.Parked(t.Context(), h, "ab12cd34", kind); err != nil {
			t.Fatal(err)
		}
		if len(f.written) != 1 {
			t.Fatalf("%d statuses", len(f.written))
		}
		got := f.written[0].Description
		if !strings.Contains(got, want) || !strings.Contains(got, "incident ab12cd34") ||
			strings.Contains(got, "goroutine") || strings.Contains(got, "xxx") {
			t.Errorf("%q does not say %q, or says too much", got, want)
		}
	}
}
