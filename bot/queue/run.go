package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/internal/retry"
)

const (
	resyncEvery  = 30 * time.Second
	leasePoll    = 250 * time.Millisecond
	maxWorkers   = 1024
	opTimeout    = 5 * time.Second // of the few requests around a hint
	followPull   = 5 * time.Second
	followSilent = time.Second
)

// Run works on hints until ctx ends. It has a number of workers for reviews, the same number for commands, and the same
// number for all other hints, so that a command waits neither for reviews nor for the hydrations of other places. In
// the partition of a place's reviews, it works on at most Config.Reviews of them, and in each other partition on one
// hint at a time. A second review of a place starts only if another worker stays free for other places. Leases exclude
// other replicas: only one replica reviews a merge request, and only one works in another partition.
//
// When ctx ends, Run cancels reviews at once; other work may continue for Config.Grace. Hints of cancelled work stay.
// Run returns when all work has returned, with nil after a drain. Only one Run may be active per Queue.
//
// In a partition, commands go before everything else that waits, but after maxInRow of them something else has a turn.
// The cause of a cancelled work context is ErrSuperseded, ErrInterrupted, ErrLeaseLost or ErrDraining. An error of the
// work counts as a failure unless one of these was the cause, or it is a *Delay.
func (q *Queue) Run(ctx context.Context, workers int, do func(context.Context, Hint) error) error {
	if workers < 1 || workers > maxWorkers {
		return fmt.Errorf("%d workers, not 1 to %d: %w", workers, maxWorkers, ErrInvalid)
	}
	x := newIndex(q.cfg.Reviews)
	q.mu.Lock()
	if q.index != nil || q.closed {
		q.mu.Unlock()
		return fmt.Errorf("the queue runs already, or is closed: %w", ErrInvalid)
	}
	q.index = x
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		q.index = nil
		q.mu.Unlock()
	}()
	stop, err := q.follow(ctx, x)
	if err != nil {
		if ctx.Err() != nil {
			return nil // ctx ended before the start
		}
		return err
	}
	defer stop()

	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	// a review can begin again at any time, so it gets no grace period
	reviews, cancelReviews := context.WithCancelCause(work)
	defer cancelReviews(nil)
	defer context.AfterFunc(ctx, func() { cancelReviews(ErrDraining) })()
	var wg sync.WaitGroup
	q.dispatch(ctx, x, workers, func(r *run, ended func()) {
		wg.Go(func() {
			defer ended()
			if hint.Kind(r.item.kind).Reviews() {
				q.work(reviews, x, r, do)
				return
			}
			q.work(work, x, r, do)
		})
	})
	q.drain(&wg, cancel)
	return nil
}

// drain waits up to Config.Grace for running work, then cancels it.
func (q *Queue) drain(wg *sync.WaitGroup, cancel func(error)) {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	grace := time.NewTimer(q.cfg.Grace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		q.log.Warn("queue: the grace period is over; running work is cancelled and its hints stay")
		cancel(ErrDraining)
		<-done
	}
}

// dispatch starts ready items while there are free workers, until ctx ends.
func (q *Queue) dispatch(ctx context.Context, x *index, workers int, start func(*run, func())) {
	busy := map[crew]int{}
	ended := make(chan crew, 3*workers)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		timer.Reset(time.Hour)
		for {
			r, at := x.pick(q.cfg.Clock(), func(kind hint.Kind, another bool) bool {
				return enough(workers-busy[crewOf(kind)], another)
			})
			if r == nil {
				if !at.IsZero() {
					timer.Reset(max(at.Sub(q.cfg.Clock()), time.Millisecond))
				}
				break
			}
			own := crewOf(hint.Kind(r.item.kind))
			busy[own]++
			start(r, func() { ended <- own })
		}
		select {
		case <-ctx.Done():
		case own := <-ended:
			busy[own]--
		case <-x.wake:
		case <-timer.C:
		}
	}
}

// crew is a group of workers of a replica. Each has as many workers as Run gets.
type crew int

const (
	reviewers crew = iota
	commanders
	others
)

// crewOf returns the workers that work on a kind of hint.
func crewOf(kind hint.Kind) crew {
	switch {
	case kind.Reviews():
		return reviewers
	case kind == hint.Comment:
		return commanders
	}
	return others
}

// enough reports whether so many free workers suffice to begin an item of a partition, in which another item is worked
// on or not: the last one stays free for other partitions.
func enough(free int, another bool) bool { return free > 1 || free == 1 && !another }

// doneNote announces finished hints to the other replicas.
type doneNote struct {
	Done map[string]uint64 `json:"done"` // subject below the hints' prefix → sequence
}

// interruptNote asks the replica that works on a review to interrupt it, or with Before, the replica that works in a
// partition to let a command go first.
type interruptNote struct {
	Partition string `json:"place"` // digest; replicas of earlier versions read this key
	Number    int    `json:"number"`
	Before    string `json:"before,omitempty"` // key of the command
	First     bool   `json:"first,omitempty"`  // it goes before other commands, too
}

// Interrupt cancels the running review of a merge request, on any replica, with ErrInterrupted. Its hint stays. Number
// 0 means all reviews of the place. It shortens the wait of a command; the note may be lost, and nothing depends on it.
func (q *Queue) Interrupt(place hint.Place, number int) error {
	note, err := json.Marshal(interruptNote{
		Partition: digest(hint.Hint{Place: place, Kind: hint.Review}.Partition()),
		Number:    number,
	})
	if err != nil {
		return fmt.Errorf("encode a note: %w", err)
	}
	if err := q.nc.Publish(q.cfg.Prefix+".note.interrupt", note); err != nil {
		return fmt.Errorf("interrupt a review of %s: %w", place, err)
	}
	return nil
}

// Prefer cancels a hydration or a sweep of the partition of a waiting command, on any replica, with ErrInterrupted: it
// is worked on again after the command. After a few interruptions in a row it is not interrupted until it has ended.
// With overtake, the command also goes before the other commands of the partition. Call it only for commands whose
// author has the right to give them. The note may be lost, and nothing depends on it.
func Prefer(q *Queue, h Hint, overtake bool) error {
	note, err := json.Marshal(interruptNote{Partition: digest(h.Partition()), Before: subject(h), First: overtake})
	if err != nil {
		return fmt.Errorf("encode a note: %w", err)
	}
	if err := q.nc.Publish(q.cfg.Prefix+".note.interrupt", note); err != nil {
		return fmt.Errorf("let a command of %s go first: %w", h.Place, err)
	}
	return nil
}

// Drop removes waiting hints of the same place, kind and number. It reports whether there was one.
func (q *Queue) Drop(ctx context.Context, h Hint) (bool, error) {
	found := false
	for _, force := range []bool{false, true} {
		h.Force = force
		_, revision, ok, err := q.hints.get(ctx, subject(h))
		if err != nil {
			return found, fmt.Errorf("find a hint of %s: %w", h.Place, err)
		}
		if !ok {
			continue
		}
		found = true
		if err := q.hints.drop(ctx, revision); err != nil {
			return found, fmt.Errorf("remove a hint of %s: %w", h.Place, err)
		}
		if err := q.announceDone(map[string]uint64{subject(h): revision}); err != nil {
			return found, err
		}
	}
	return found, nil
}

// announceDone announces finished hints to all replicas, including this one.
func (q *Queue) announceDone(done map[string]uint64) error {
	note, err := json.Marshal(doneNote{Done: done})
	if err != nil {
		return fmt.Errorf("encode a note: %w", err)
	}
	if err := q.nc.Publish(q.cfg.Prefix+".note.done", note); err != nil {
		q.log.Debug("queue: cannot announce finished hints; the other replicas find out on their next listing", "err",
			err)
	}
	return nil
}

// follow fills the index from the stream and keeps it up to date until the returned function is called.
func (q *Queue) follow(ctx context.Context, x *index) (func(), error) {
	consumer, err := persist(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return q.hints.stream.OrderedConsumer(ctx,
			jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	})
	if err != nil {
		return nil, fmt.Errorf("follow the hints: %w", err)
	}
	consume, err := consumer.Consume(func(m jetstream.Msg) { q.noticed(x, m) },
		jetstream.PullExpiry(followPull), jetstream.PullHeartbeat(followSilent),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			q.log.Debug("queue: the connection to the stream of hints was interrupted", "err", err)
		}))
	if err != nil {
		return nil, fmt.Errorf("follow the hints: %w", err)
	}
	notes, err := q.nc.Subscribe(q.cfg.Prefix+".note.done", func(m *nats.Msg) {
		var note doneNote
		if json.Unmarshal(m.Data, &note) == nil {
			x.remove(note.Done)
		}
	})
	if err != nil {
		consume.Stop()
		return nil, fmt.Errorf("listen to other replicas: %w", err)
	}
	interrupts, err := q.nc.Subscribe(q.cfg.Prefix+".note.interrupt", func(m *nats.Msg) {
		var note interruptNote
		switch err := json.Unmarshal(m.Data, &note); {
		case err != nil: // another version's, or a stranger's
		case note.Before != "":
			x.prefer(note.Partition, note.Before, note.First)
		default:
			x.interrupt(note.Partition, note.Number)
		}
	})
	if err != nil {
		consume.Stop()
		_ = notes.Unsubscribe() // the error of the second subscription is returned
		return nil, fmt.Errorf("listen to other replicas: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { q.resync(ctx, x) })
	return func() {
		cancel()
		consume.Stop()
		for _, s := range []*nats.Subscription{notes, interrupts} {
			if err := s.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
				q.log.Debug("queue: unsubscribe", "err", err)
			}
		}
		<-consume.Closed()
		wg.Wait()
	}, nil
}

func (q *Queue) noticed(x *index, m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		q.log.Warn("queue: a message without metadata", "err", err)
		return
	}
	q.notice(x, m.Subject()[len(q.hints.prefix):], meta.Sequence.Stream, meta.Timestamp)
}

func (q *Queue) notice(x *index, subject string, sequence uint64, at time.Time) {
	if err := x.add(subject, sequence, at); err != nil {
		q.log.Warn("queue: the stream has a message that is not a hint", "err", err)
	}
}

// resync compares the index with the stream regularly: a broken connection may have lost messages.
func (q *Queue) resync(ctx context.Context, x *index) {
	for retry.Sleep(ctx, resyncEvery) == nil {
		subjects, last, err := q.hints.keys(ctx)
		if err != nil {
			q.log.Warn("queue: cannot list the pending hints", "err", err)
			continue
		}
		for _, s := range x.sync(subjects, last) {
			m, err := q.hints.last(ctx, s)
			if err != nil {
				continue // finished meanwhile, or listed again next time
			}
			q.notice(x, s, m.Sequence, m.Time)
		}
	}
}

// jitter varies a wait by ±25 %, so that hints that failed together are not retried together.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(rand.Int64N(int64(d/2)+1)) //nolint:gosec // no secret
}

// backoff returns the wait after a number of failures.
func (q *Queue) backoff(failures int) time.Duration {
	d := q.cfg.Backoff
	for range failures - 1 {
		if d >= q.cfg.BackoffMax/2 {
			return jitter(q.cfg.BackoffMax)
		}
		d *= 2
	}
	return jitter(min(d, q.cfg.BackoffMax))
}
