package review

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/renderer/worker"
)

// fragileChild is the argument that makes the test binary a worker process.
const fragileChild = "fragile-child"

// TestMain lets the test binary be a worker process whose job ends the process as often as the parent says.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fragileChild {
		jobs := worker.Jobs{"fragile": func(ctx context.Context, _ []byte, ask worker.Ask) ([]byte, error) {
			answer, err := ask(ctx, "crash?", nil)
			if string(answer) == "yes" {
				panic("a mistake")
			}
			return []byte("done"), err
		}}
		if err := worker.Serve(context.Background(), os.Stdin, os.Stdout, jobs); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A review whose process ends unexpectedly runs again, once. Content that always ends its process is told like a limit.
func TestAReviewSurvivesTheEndOfItsProcess(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := worker.NewHost(worker.Options{Command: []string{self, fragileChild}})
	defer host.Close()
	workers := host.For(worker.Owner{Repository: "hub:acme/fleet", Trust: worker.Untrusted})
	for _, one := range []struct {
		crashes, runs, told int
		fails               bool
	}{
		{0, 1, 0, false}, {1, 2, 1, false}, {9, 2, 1, true},
	} {
		runs, told := 0, 0
		c := worker.Call{
			Job: "fragile", Timeout: time.Minute, CPU: time.Minute,
			Answer: func(context.Context, string, []byte) ([]byte, error) {
				if runs++; runs <= one.crashes {
					return []byte("yes"), nil
				}
				return []byte("no"), nil
			},
		}
		data, err := callWithRetry(t.Context(), time.Now, workers, c, func(crash error) error {
			if told++; !errors.Is(crash, worker.ErrCrashed) {
				t.Errorf("told about %v", crash)
			}
			return nil
		})
		if runs != one.runs || told != one.told || errors.Is(err, worker.ErrCrashed) != one.fails ||
			one.fails == (string(data) == "done") {
			t.Errorf("%d crashes: %d runs, told %d times: %q %v", one.crashes, runs, told, data, err)
		}
	}
}
