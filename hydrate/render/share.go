package render

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/renderer"
)

// sharing is a round of which this machine and others render some jobs. Those of one app are beside each other: a shard then has few charts,
// and whoever renders it learns few. This machine takes chunks from the front and gives others chunks from the back. When none is left, it
// takes back the latest chunk that has no result, because others begin with the oldest.
type sharing struct {
	*round
	farm   *Farm
	places chan struct{} // of targets of chunks that this machine renders

	mu     sync.Mutex
	change sync.Cond
	order  []int         // jobs that nobody has taken
	none   chan struct{} // closed when order is empty
	away   []*chunk
	makers int  // goroutines that make a shard, send it or read a result
	steps  int  // changes of makers
	stuck  bool // makers did not change for feedTime
}

// chunk is a number of jobs of one shard.
type chunk struct {
	jobs   []int
	items  []*item            // guarded by the mutex of sharing, until asked
	asked  bool               // items is complete
	here   bool               // this machine renders it too
	cancel context.CancelFunc // nobody waits for the other machine any more
}

// item is a bundle that the chunk has claimed.
type item struct {
	job    Job
	bundle *renderer.Bundle
	key    string
	work   *rendering
}

func newSharing(r *round, jobs []int) *sharing {
	s := &sharing{round: r, farm: r.t.farm, order: slices.Clone(jobs), none: make(chan struct{}), places: make(chan struct{}, inFlight(r.t.parallel))}
	s.change.L = &s.mu
	slices.SortStableFunc(s.order, func(a, b int) int {
		return cmp.Compare(r.jobs[a].Target.App.Name, r.jobs[b].Target.App.Name)
	})
	return s
}

// run renders all jobs. It returns only the error of the context.
func (s *sharing) run(ctx context.Context) error {
	s.farm.busy.Add(1)
	defer s.farm.busy.Add(-1)
	group, ctx := errgroup.WithContext(ctx)
	for range 2 { // the second one has work while the first one waits for its last target
		group.Go(func() error {
			if s.wanted != nil {
				select {
				case <-s.wanted:
				case <-ctx.Done():
				}
			}
			return s.local(ctx)
		})
	}
	for range atOnce {
		group.Go(func() error { return s.remote(ctx) })
	}
	return group.Wait()
}

// local renders chunks on this machine.
func (s *sharing) local(ctx context.Context) error {
	for ctx.Err() == nil {
		if jobs := s.front(); len(jobs) > 0 {
			began := s.farm.clock()
			group, ctx := errgroup.WithContext(ctx)
			group.SetLimit(inFlight(s.t.parallel))
			for _, i := range jobs {
				group.Go(func() error { return s.job(ctx, i) })
			}
			if err := group.Wait(); err != nil {
				return err
			}
			s.farm.tookHere(len(jobs)/s.t.parallel, s.farm.clock().Sub(began))
			continue
		}
		c := s.late()
		if c == nil {
			return nil
		}
		s.renderHere(ctx, c.items)
		c.cancel()
	}
	return ctx.Err()
}

// front takes the next jobs for this machine: a chunk for each of its processes. Other machines come first: while a shard is made or sent or a
// result is read, it waits, because rendering here would take the time of it, and leave the others idle. A queue that does not answer holds up
// this machine for feedTime, once.
func (s *sharing) front() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.makers > 0 && !s.stuck && len(s.order) > 0 {
		step := s.steps
		late := time.AfterFunc(feedTime, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.stuck = s.stuck || step == s.steps
			s.change.Broadcast()
		})
		s.change.Wait()
		late.Stop()
	}
	n := min(int(s.farm.chunk.Load())*s.t.parallel, len(s.order), inFlight(s.t.parallel))
	jobs := s.order[:n]
	s.leaves(s.order[n:])
	return jobs
}

// leaves sets the jobs that nobody has taken. The caller holds mu, and has taken the others.
func (s *sharing) leaves(order []int) {
	if len(order) == 0 && len(s.order) > 0 {
		close(s.none)
		if s.begun != nil {
			s.begun()
		}
	}
	s.order = order
}

// back takes the last jobs, for another machine: fewer when few are left, so that all machines end at about the same time. It returns nil if
// there are none.
func (s *sharing) back() *chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(int(s.farm.chunk.Load()), max(leastChunk, len(s.order)/atOnce), len(s.order))
	if n == 0 {
		return nil
	}
	at := len(s.order) - n
	c := &chunk{jobs: s.order[at:]}
	s.leaves(s.order[:at])
	s.away = append(s.away, c)
	s.makers, s.steps, s.stuck = s.makers+1, s.steps+1, false
	return c
}

// late returns the latest chunk without a result that this machine does not render. If others may still become one, it waits. It returns
// nil when none is left.
func (s *sharing) late() *chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		open := false
		for _, c := range slices.Backward(s.away) {
			if c.asked && !c.here {
				c.here = true
				return c
			}
			open = open || !c.asked
		}
		if !open {
			return nil
		}
		s.change.Wait()
	}
}

// remote has chunks rendered by other machines. Several calls share the places, so it also ends when others have taken all jobs.
func (s *sharing) remote(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case s.farm.away <- struct{}{}:
		case <-s.none:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		c := s.back()
		var err error
		if c != nil {
			err = s.chunk(ctx, c)
		}
		<-s.farm.away
		if c == nil || err != nil {
			return err
		}
	}
	return ctx.Err()
}

// chunk has the bundles of a chunk rendered that nobody has rendered before, and sets the outcomes of its jobs.
func (s *sharing) chunk(ctx context.Context, c *chunk) error {
	defer s.leave(c)
	works := make([]*rendering, len(c.jobs))
	errs := make([]error, len(c.jobs))
	var items []*item
	for n, i := range c.jobs {
		bundle, key, err := s.t.prepare(ctx, s.jobs[i])
		if errs[n] = err; err != nil {
			continue
		}
		var fresh bool
		if works[n], fresh = s.t.renderings.claim(ctx, key); fresh {
			items = append(items, &item{s.jobs[i], bundle, key, works[n]})
		}
	}
	asked, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	c.items, c.asked, c.cancel = items, true, cancel
	s.change.Broadcast()
	s.mu.Unlock()
	s.ask(asked, items)
	s.making(-1)
	s.renderHere(ctx, items) // those without a result
	for n, i := range c.jobs {
		if work := works[n]; work != nil {
			select {
			case <-work.done: // each chunk ends what it has claimed before it waits for another one
			case <-ctx.Done():
			}
			if work.ended() && work.cancelled && ctx.Err() == nil { // by another round, whose end is not the end of this one
				if err := s.job(ctx, i); err != nil {
					return err
				}
				continue
			}
		}
		if err := s.end(ctx, i, works[n], errs[n]); err != nil {
			return err
		}
	}
	return nil
}

// renderHere renders the items without a result that this machine does not render yet.
func (s *sharing) renderHere(ctx context.Context, items []*item) {
	var group errgroup.Group
	group.SetLimit(inFlight(s.t.parallel))
	for _, one := range items {
		if one.work.ended() {
			continue
		}
		group.Go(func() error {
			s.places <- struct{}{}
			defer func() { <-s.places }()
			s.t.renderings.takeOver(ctx, one.key, one.work, func() rendered { return s.t.render(ctx, one.job, one.bundle, s.w) })
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
}

// ask sends items to another machine, in shards, and sets the results of those that have one. Items that are too large for a light bundle
// are sent again.
func (s *sharing) ask(ctx context.Context, items []*item) {
	for len(items) > 0 && ctx.Err() == nil {
		job := shardJob{Version: s.farm.version, Owner: s.farm.owner}
		var part []*item
		for len(items) > 0 && job.Load.Size() < shardBytes {
			one := items[0]
			items = items[1:]
			if one.work.ended() {
				continue
			}
			bundle := *one.bundle
			bundle.Light = !s.t.isHeavy(one.job.Target.App.Name)
			job.Load.Add(&bundle)
			job.Places = append(job.Places, placeOf(one.job.Target))
			part = append(part, one)
		}
		if len(part) == 0 {
			return
		}
		large, err := s.send(ctx, job, part)
		if err != nil {
			return // the items are rendered here
		}
		items = append(large, items...)
	}
}

// send has a shard rendered by another machine. It returns the items that are too large for a light bundle.
func (s *sharing) send(ctx context.Context, job shardJob, part []*item) ([]*item, error) {
	data, err := renderer.Encode(job)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, shardTimeout)
	defer cancel()
	waits := false
	idle := func(yes bool) {
		switch {
		case yes == waits:
			return
		case yes:
			s.making(-1)
		default:
			s.making(1)
		}
		waits = yes
	}
	results, err := s.farm.fan.Fan(ctx, [][]byte{data}, idle)
	idle(false)
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, errShardResult
	}
	var result shardResult
	trees, err := result.read(results[0], len(part), s.w)
	if err != nil {
		return nil, err
	}
	s.farm.took(len(part), result.Took)
	var large []*item
	for i, one := range part {
		a := &result.Answers[i]
		app := one.job.Target.App.Name
		switch {
		case a.Again:
		case a.Tree != nil:
			if r, ok := a.Tree.written(trees); ok {
				s.t.noteLight(app, job.Load.Bundles[i].Light)
				s.t.renderings.finish(ctx, one.key, one.work, r)
			}
		case a.Objects != nil:
			r, err := a.Objects.Result(&job.Load.Bundles[i])
			switch {
			case errors.Is(err, renderer.ErrAgain):
			case errors.Is(err, renderer.ErrHeavy):
				s.t.noteLight(app, false)
				large = append(large, one)
			default:
				s.t.renderings.finish(ctx, one.key, one.work, s.t.use(ctx, one.job, r, err, s.w))
			}
		}
	}
	return large, nil
}

// making adds to the number of makers.
func (s *sharing) making(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makers += n
	s.steps, s.stuck = s.steps+1, false
	s.change.Broadcast()
}

// leave removes a chunk whose jobs have outcomes.
func (s *sharing) leave(c *chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = slices.DeleteFunc(s.away, func(other *chunk) bool { return other == c })
	s.change.Broadcast()
}
