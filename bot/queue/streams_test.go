package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestPersist: a stream is asked for again while a cluster that just started has no leader, or its leader has not heard
// from enough nodes. Other refusals are final, and so is the end of the context.
func TestPersist(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		final bool
	}{
		"no leader": {&jetstream.APIError{
			Code: 503, ErrorCode: 10008,
			Description: "JetStream system temporarily unavailable",
		}, false},
		"no peers": {&jetstream.APIError{
			Code: 400, ErrorCode: 10005,
			Description: "no suitable peers for placement, peer offline",
		}, false},
		"no response": {context.DeadlineExceeded, false},
		"no storage": {&jetstream.APIError{
			Code: 500, ErrorCode: 10047,
			Description: "insufficient storage resources available",
		}, true},
		"bad request": {&jetstream.APIError{Code: 400, ErrorCode: 10003, Description: "bad request"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				request := func(refusals int) func(context.Context) (string, error) {
					tries = 0
					return func(context.Context) (string, error) {
						if tries++; tries <= refusals {
							return "", c.err
						}
						return "stream", nil
					}
				}
				got, err := persist(t.Context(), request(3))
				if c.final {
					if !errors.Is(err, c.err) || tries != 1 {
						t.Errorf("%v after %d tries, want the first refusal", err, tries)
					}
					return
				}
				if err != nil || got != "stream" || tries != 4 {
					t.Errorf("%q, %v after %d tries", got, err, tries)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := persist(ctx, request(1000)); !errors.Is(err, c.err) || tries < 10 {
					t.Errorf("%v after %d tries, want the refusal when the time is over", err, tries)
				}
			})
		})
	}
}
