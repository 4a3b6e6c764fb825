package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// Claims keep the replicas on the same streams from writing Sluice's comments on one merge request at the same time.
// The partition of commands and the partition of reviews can run in two replicas, and a forge has no compare-and-swap
// for comments.
type Claims struct{ q *Queue }

// NewClaims returns the claims in the streams of a queue.
func NewClaims(q *Queue) Claims { return Claims{q} }

// claimPoll is the time between two attempts to take a claim that another replica has. A comment takes some requests to
// the forge.
const claimPoll = 100 * time.Millisecond

// claimPrefix is the prefix of the keys of claims in the bucket of leases. The keys of leases are digests.
const claimPrefix = "comments-"

// Claim waits until no replica has the claim of a merge request, and takes it. The claim of a replica that died ends
// with its lease. If the server stops answering while somebody has a claim, another replica can take it: the next write
// unites their comments.
func (c Claims) Claim(ctx context.Context, p hint.Place, number int) (release func(), err error) {
	key := claimPrefix + digest(p.String()) + "-" + strconv.Itoa(number)
	for {
		l, err := c.q.takeLease(ctx, key)
		switch {
		case err == nil:
			return l.held(ctx), nil
		case !errors.Is(err, errChanged):
			return nil, fmt.Errorf("claim the comments of %s!%d: %w", p, number, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(claimPoll):
		}
	}
}

// held renews the lease until the function that it returns is called, which releases it.
func (l *lease) held(ctx context.Context) (release func()) {
	renewed, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.keep(renewed, func(error) {})
	}()
	return func() {
		stop()
		<-ended
		_ = l.release(context.WithoutCancel(ctx)) // if it fails, the lease expires
	}
}
