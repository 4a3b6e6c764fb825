package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// testClaims: a replica waits for the claim of another one, but not for that of another merge request, and takes over
// what a replica that vanished held. A claim outlasts its lease as long as its replica lives.
func testClaims(t *testing.T, o opener) {
	t.Helper()
	// a replica that stands still for 1.5 s loses its claim
	q := o.open(t, func(c *Config) { c.Lease = 4 * time.Second })
	here, there := NewClaims(q), NewClaims(o.twin(t, q, "two"))
	before := time.Now()
	// a replica that vanished renews nothing
	if _, err := q.takeLease(t.Context(), claimPrefix+digest("github:a/b")+"-3"); err != nil {
		t.Fatal(err)
	}
	inherited := make(chan error, 1)
	go func() {
		release, err := there.Claim(t.Context(), "github:a/b", 3)
		if waited := time.Since(before); err == nil && waited < q.cfg.Lease-50*time.Millisecond {
			err = fmt.Errorf("the claim was taken after %s, the lease is %s", waited, q.cfg.Lease)
		}
		if err == nil {
			release()
		}
		inherited <- err
	}()
	release, err := here.Claim(t.Context(), "github:a/b", 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := there.Claim(t.Context(), "github:a/b", 2)
	if err != nil {
		t.Fatal(err)
	}
	if stats, err := q.Stats(t.Context()); err != nil || stats.InFlight != 0 {
		t.Errorf("%d hints are in progress, %v", stats.InFlight, err)
	}
	other()
	longer, end := context.WithTimeout(t.Context(), q.cfg.Lease*5/4)
	defer end()
	if _, err := there.Claim(longer, "github:a/b", 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second replica has the claim: %v", err)
	}
	taken := make(chan error, 1)
	go func() {
		release, err := there.Claim(t.Context(), "github:a/b", 1)
		if err == nil {
			release()
		}
		taken <- err
	}()
	release()
	if err := receive(t, "the claim", taken); err != nil {
		t.Error(err)
	}
	if err := receive(t, "the claim of the replica that vanished", inherited); err != nil {
		t.Error(err)
	}
}
