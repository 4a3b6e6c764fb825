package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// redeliveries has webhooks sent again that did not arrive: each a few times, at growing distances. One that keeps failing, such as for
// a secret that does not fit, is given up; the sweeps find what it would have told of. Used by one sweep at a time.
type redeliveries struct {
	log   *slog.Logger
	clock func() time.Time
	began time.Time
	since map[string]time.Time       // by forge: all before is handled
	tries map[string]map[string]*try // by forge and the delivery's GUID
}

type try struct {
	count int
	next  time.Time
}

const (
	redeliverMost  = 3
	redeliverFirst = 5 * time.Minute // before the second time; four times as long before the third
	redeliverPast  = time.Hour       // before the start
	redeliverLap   = time.Minute     // clocks differ
)

func newRedeliveries(log *slog.Logger, clock func() time.Time) *redeliveries {
	return &redeliveries{log: log, clock: clock, began: clock(), since: map[string]time.Time{}, tries: map[string]map[string]*try{}}
}

// look asks a forge what failed, and has it sent again. What is not handled yet is asked for again the next time.
func (r *redeliveries) look(ctx context.Context, name string, d forge.Deliveries) {
	now := r.clock()
	since, ok := r.since[name]
	if !ok {
		since = r.began.Add(-redeliverPast)
	}
	failed, err := d.FailedDeliveries(ctx, since)
	if err != nil {
		if !errors.Is(err, forge.ErrUnsupported) && ctx.Err() == nil {
			r.log.Warn("failed deliveries cannot be listed", "forge", name, "error", err)
		}
		return
	}
	handled, tries := now, map[string]*try{}
	for _, one := range failed {
		t := r.tries[name][one.GUID]
		if t == nil {
			t = &try{}
		}
		tries[one.GUID] = t
		if r.again(ctx, name, d, one, t) && one.Sent.Before(handled) {
			handled = one.Sent
		}
	}
	r.tries[name] = tries
	if ctx.Err() == nil {
		r.since[name] = handled.Add(-redeliverLap)
	}
}

// again sends one delivery again if it is time to, and says whether it has to be looked at once more.
func (r *redeliveries) again(ctx context.Context, name string, d forge.Deliveries, one forge.Delivery, t *try) bool {
	now := r.clock()
	if t.count >= redeliverMost && !now.Before(t.next) {
		if !t.next.IsZero() {
			t.next = time.Time{}
			r.log.Warn("a delivery is given up: it failed again and again", "forge", name, "delivery", one.GUID, "times", t.count)
		}
		return false
	}
	if now.Before(t.next) {
		return true
	}
	err := d.Redeliver(ctx, one.ID)
	switch {
	case err == nil:
		t.count++
		t.next = now.Add(redeliverFirst << (2 * (t.count - 1)))
	case errors.Is(err, forge.ErrNotFound): // too old
		t.count, t.next = redeliverMost, now
	case ctx.Err() == nil:
		r.log.Warn("a delivery cannot be sent again", "forge", name, "delivery", one.GUID, "error", err)
	}
	return true
}
