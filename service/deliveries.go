package service

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// redeliveries asks a forge to send failed webhooks again, each at most maxRedeliveries times with growing delays. It
// abandons a delivery that keeps failing, for example because of a wrong secret; sweeps find its event. Only one
// sweep at a time uses it.
type redeliveries struct {
	log   *slog.Logger
	clock func() time.Time
	began time.Time
	since map[string]time.Time           // by forge: older deliveries are handled
	tries map[string]map[string]*attempt // by forge and GUID of the delivery
}

type attempt struct {
	count int
	next  time.Time // earliest time of the next try; zero after the delivery was abandoned
}

const (
	maxRedeliveries   = 3
	firstRedelivery   = 5 * time.Minute // delay before the second try; the delay before the third is four times as long
	redeliverBefore   = time.Hour       // how far before the start of the service to look
	redeliveryOverlap = time.Minute     // the forge's clock may differ
)

func newRedeliveries(log *slog.Logger, clock func() time.Time) *redeliveries {
	return &redeliveries{
		log: log, clock: clock, began: clock(), since: map[string]time.Time{},
		tries: map[string]map[string]*attempt{},
	}
}

// redeliver lists the failed deliveries of a forge and requests another attempt for each. The next call checks those
// that are not finished.
func (r *redeliveries) redeliver(ctx context.Context, name string, d forge.Deliveries) {
	now := r.clock()
	since, ok := r.since[name]
	if !ok {
		since = r.began.Add(-redeliverBefore)
	}
	failed, err := d.FailedDeliveries(ctx, since)
	if err != nil {
		if !errors.Is(err, forge.ErrUnsupported) && ctx.Err() == nil {
			r.log.Warn("cannot list failed deliveries", "forge", name, "error", err)
		}
		return
	}
	handled, tries := now, map[string]*attempt{}
	for _, one := range failed {
		t := r.tries[name][one.GUID]
		if t == nil {
			t = &attempt{}
		}
		tries[one.GUID] = t
		if r.one(ctx, name, d, one, t) && one.Sent.Before(handled) {
			handled = one.Sent
		}
	}
	r.tries[name] = tries
	if ctx.Err() == nil {
		r.since[name] = handled.Add(-redeliveryOverlap)
	}
}

// one requests another attempt for one delivery if it is due, and reports whether the next call must check it again.
func (r *redeliveries) one(ctx context.Context, name string, d forge.Deliveries, one forge.Delivery, t *attempt) bool {
	now := r.clock()
	if t.count >= maxRedeliveries && !now.Before(t.next) {
		if !t.next.IsZero() {
			t.next = time.Time{}
			r.log.Warn("a webhook delivery failed too often and is abandoned", "forge", name, "delivery", one.GUID,
				"times", t.count)
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
		t.next = now.Add(firstRedelivery << (2 * (t.count - 1)))
	case errors.Is(err, forge.ErrNotFound): // too old
		t.count, t.next = maxRedeliveries, now
	case ctx.Err() == nil:
		r.log.Warn("cannot redeliver a webhook", "forge", name, "delivery", one.GUID, "error", err)
	}
	return true
}
