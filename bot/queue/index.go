package queue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// index is one replica's list of the pending hints: a ring of partitions, each with items in the order of arrival. It
// only shows which lease may be worth taking; the worker reads the stream again before it starts.
type index struct {
	reviews    int // in a partition at once
	mu         sync.Mutex
	partitions map[string]*partition // by digest
	ring       []*partition
	next       int           // in ring: whose turn it is
	wake       chan struct{} // has a token when something may have become ready
}

// partition holds the hints that wait for the same worker, see hint.Hint.Partition.
type partition struct {
	digest  string
	items   []*item
	running []*run               // the work of this replica in this partition
	inRow   int                  // commands that began since other work in this partition began
	leased  map[string]time.Time // lease → expected end of another replica's; gone when it may be free
}

// item has the pending messages of one key.
type item struct {
	key       string            // subject without its `.force`
	kind      string            //
	lease     string            // under which it is worked on
	messages  map[string]uint64 // subject → newest sequence
	first     time.Time         // arrival of the oldest message, including replaced ones
	notBefore time.Time         // backoff
	overtakes bool              // a command that goes before the others
	yielded   int               // interruptions of this work since it last ended without one
}

// run is the work on one item.
type run struct {
	partition *partition
	item      *item
	loaded    map[string]uint64 // sequences that the worker read; nil before
	yields    bool              // it is interrupted for a command, or will be when it begins
	cancel    func(error)
}

func newIndex(reviews int) *index {
	return &index{reviews: reviews, partitions: map[string]*partition{}, wake: make(chan struct{}, 1)}
}

// splitSubject parses a subject below the prefix of hints.
func splitSubject(subject string) (partitionDigest, kind, key string, err error) {
	parts := strings.Split(subject, ".")
	if len(parts) < 3 || len(parts) > 4 {
		return "", "", "", fmt.Errorf("the subject %.80q is not one of a hint: %w", subject, ErrInvalid)
	}
	return parts[0], parts[1], strings.TrimSuffix(subject, ".force"), nil
}

// leaseOf returns the lease under which the hint of a subject is worked on: that of the merge request for tasks that
// review it, and otherwise that of the partition.
func leaseOf(subject string) string {
	parts := strings.Split(subject, ".")
	if len(parts) > 2 && hint.Kind(parts[1]).Reviews() {
		return parts[0] + "-" + parts[2]
	}
	return parts[0]
}

// add records a message. It cancels a running review of the same number.
func (x *index) add(subject string, sequence uint64, at time.Time) error {
	digest, kind, key, err := splitSubject(subject)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.partitions[digest]
	if l == nil {
		l = &partition{digest: digest, leased: map[string]time.Time{}}
		x.partitions[digest] = l
		x.ring = append(x.ring, l)
	}
	i := slices.IndexFunc(l.items, func(i *item) bool { return i.key == key })
	if i < 0 {
		i = len(l.items)
		l.items = append(l.items, &item{
			key: key, kind: kind, lease: leaseOf(subject), messages: map[string]uint64{},
			first: at,
		})
	}
	it := l.items[i]
	if sequence <= it.messages[subject] {
		return nil
	}
	it.messages[subject] = sequence
	it.notBefore = time.Time{} // a new hint does not wait for the backoff of the old one
	for _, r := range l.running {
		if r.item == it {
			r.supersede()
		}
	}
	x.signal()
	return nil
}

// supersede cancels a review if there is a message newer than those that it read. The caller holds the lock.
func (r *run) supersede() {
	if r.item.kind != string(hint.Review) || r.loaded == nil {
		return
	}
	for subject, sequence := range r.item.messages {
		if sequence > r.loaded[subject] {
			r.cancel(ErrSuperseded)
			return
		}
	}
}

// interrupt cancels the running review of a merge request of a partition; number 0 means all of the partition. Their
// hints stay.
func (x *index) interrupt(partitionDigest string, number int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.partitions[partitionDigest]
	if l == nil {
		return
	}
	for _, r := range l.running {
		if r.item.kind == string(hint.Review) && (number == 0 ||
			r.item.key == partitionDigest+"."+string(hint.Review)+"."+strconv.Itoa(number)) {
			r.cancel(ErrInterrupted)
		}
	}
}

// maxYields is the number of interruptions in a row after which work is not interrupted: commands must not keep a
// partition from being hydrated.
const maxYields = 3

// prefer cancels the work of a partition that runs for a command that waits, but no command: that may have changed
// something already. The hint of cancelled work stays. With overtake, the command moves before the others of its
// partition, behind those that were moved before.
func (x *index) prefer(partitionDigest, key string, overtake bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.partitions[partitionDigest]
	if l == nil {
		return
	}
	i := slices.IndexFunc(l.items, func(it *item) bool { return it.key == key })
	if overtake && i >= 0 && !l.items[i].overtakes {
		it := l.items[i]
		it.overtakes = true
		l.items = slices.Delete(l.items, i, i+1)
		if i = slices.IndexFunc(l.items, func(it *item) bool { return !it.overtakes }); i < 0 {
			i = len(l.items)
		}
		l.items = slices.Insert(l.items, i, it)
	}
	for _, r := range l.running {
		if r.item.kind != string(hint.Comment) && !r.yields && r.item.yielded < maxYields {
			r.yields = true
			r.item.yielded++
			r.cancel(ErrInterrupted)
		}
	}
	x.signal()
}

// remove removes finished messages, unless newer ones have arrived.
func (x *index) remove(done map[string]uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for subject, sequence := range done {
		digest, _, key, err := splitSubject(subject)
		if err != nil || x.partitions[digest] == nil {
			continue
		}
		l := x.partitions[digest]
		delete(l.leased, leaseOf(subject)) // the worker releases it now
		i := slices.IndexFunc(l.items, func(i *item) bool { return i.key == key })
		if i < 0 {
			continue
		}
		it := l.items[i]
		if it.messages[subject] <= sequence {
			delete(it.messages, subject)
		}
		if len(it.messages) == 0 {
			l.items = slices.Delete(l.items, i, i+1)
			x.shrink(l)
		}
	}
	x.signal()
}

// shrink removes a partition without items. The caller holds the lock.
func (x *index) shrink(l *partition) {
	if len(l.items) > 0 || len(l.running) > 0 {
		return
	}
	delete(x.partitions, l.digest)
	i := slices.Index(x.ring, l)
	x.ring = slices.Delete(x.ring, i, i+1)
	if i < x.next {
		x.next--
	}
}

// pick returns the next item that is ready and allowed, one partition after the other. allowed gets the kind, and
// whether this replica works on another item of the partition. Without an item, pick returns when to look again (zero:
// when woken).
func (x *index) pick(now time.Time, allowed func(kind hint.Kind, another bool) bool) (*run, time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var soonest time.Time
	for n := range len(x.ring) {
		i := (x.next + n) % len(x.ring)
		l := x.ring[i]
		it, at := l.ready(now, x.reviews, allowed)
		if it != nil {
			r := &run{partition: l, item: it, cancel: func(error) {}}
			l.running = append(l.running, r)
			if l.inRow++; it.kind != string(hint.Comment) {
				l.inRow = 0
			}
			x.next = i + 1
			return r, time.Time{}
		}
		if !at.IsZero() && (soonest.IsZero() || at.Before(soonest)) {
			soonest = at
		}
	}
	return nil, soonest
}

// maxInRow is the number of commands after which other work of the partition has a turn: who may comment could
// otherwise keep the partition from being hydrated.
const maxInRow = 10

// maxOvertaking is maxInRow for commands that overtake. Who gives them has, as far as it is known, the right to stop a
// rollout, so it is larger.
const maxOvertaking = 5 * maxInRow

// ready returns the first allowed item that may be worked on now: commands go first, but at most maxInRow in a row, or
// maxOvertaking if they overtake. Without one it returns when the next allowed item becomes ready.
func (l *partition) ready(now time.Time, reviews int, allowed func(hint.Kind, bool) bool) (*item, time.Time) {
	var first, command *item
	var soonest time.Time
	for _, it := range l.items {
		if !l.free(it, reviews) || !allowed(hint.Kind(it.kind), len(l.running) > 0) {
			continue // a worker that ends wakes the dispatcher
		}
		at := it.notBefore
		if leased := l.leased[it.lease]; leased.After(at) {
			at = leased
		}
		if !at.After(now) {
			switch {
			case it.kind != string(hint.Comment):
				first = cmp.Or(first, it)
			case command == nil || it.overtakes && !command.overtakes:
				command = it
			}
			continue
		}
		if soonest.IsZero() || at.Before(soonest) {
			soonest = at
		}
	}
	switch {
	case command != nil && (first == nil || l.inRow < maxInRow || command.overtakes && l.inRow < maxOvertaking):
		return command, time.Time{}
	case first != nil:
		return first, time.Time{}
	}
	return nil, soonest
}

// free reports whether this replica may begin an item beside what it works on in the partition: as many reviews as
// given, of different merge requests, or one other task.
func (l *partition) free(it *item, reviews int) bool {
	if !hint.Kind(it.kind).Reviews() {
		reviews = 1
	}
	return len(l.running) < reviews && !slices.ContainsFunc(l.running,
		func(r *run) bool { return r.item.lease == it.lease })
}

// messages returns a copy of the item's messages.
func (x *index) messages(r *run) map[string]uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(r.item.messages)
}

// started records what the worker read and how to cancel it. It cancels at once if a newer message or a command that
// does not wait has arrived.
func (x *index) started(r *run, loaded map[string]uint64, cancel func(error)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r.loaded, r.cancel = loaded, cancel
	if r.yields {
		cancel(ErrInterrupted)
	}
	r.supersede()
}

// finished ends a run. The item, if it still exists, waits until again, and all items of its lease until free; zero:
// the lease is free.
func (x *index) finished(r *run, again, free time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	l, it := r.partition, r.item
	l.running = slices.DeleteFunc(l.running, func(other *run) bool { return other == r })
	if r.loaded != nil && !r.yields {
		it.yielded = 0
	}
	if delete(l.leased, it.lease); !free.IsZero() {
		l.leased[it.lease] = free
	}
	if i := slices.Index(l.items, it); i >= 0 {
		fresh := false
		for subject, sequence := range it.messages {
			fresh = fresh || (r.loaded != nil && sequence > r.loaded[subject])
		}
		if !fresh {
			it.notBefore = again
		}
		if r.loaded != nil { // it had a turn: the others of the partition go first
			l.items = append(slices.Delete(l.items, i, i+1), it)
		}
	}
	x.shrink(l)
	x.signal()
}

// sync removes what is not in a list of the stream's subjects up to a sequence. It returns the subjects that
// the index did not know.
func (x *index) sync(subjects []string, last uint64) []string {
	present := make(map[string]bool, len(subjects))
	var unknown []string
	x.mu.Lock()
	for _, s := range subjects {
		present[s] = true
		digest, _, key, err := splitSubject(s)
		if err != nil || !x.has(digest, key, s) {
			unknown = append(unknown, s)
		}
	}
	gone := map[string]uint64{}
	for _, l := range x.ring {
		for _, it := range l.items {
			for s, sequence := range it.messages {
				if !present[s] && sequence <= last {
					gone[s] = sequence
				}
			}
		}
	}
	x.mu.Unlock()
	x.remove(gone)
	return unknown
}

func (x *index) has(digest, key, subject string) bool {
	l := x.partitions[digest]
	return l != nil && slices.ContainsFunc(l.items, func(i *item) bool {
		return i.key == key &&
			i.messages[subject] > 0
	})
}

// oldest returns the arrival of the oldest item.
func (x *index) oldest() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	var first time.Time
	for _, l := range x.ring {
		for _, it := range l.items {
			if first.IsZero() || it.first.Before(first) {
				first = it.first
			}
		}
	}
	return first
}

// signal wakes the dispatcher. The caller holds the lock.
func (x *index) signal() {
	select {
	case x.wake <- struct{}{}:
	default: // a signal is pending
	}
}
