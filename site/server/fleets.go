package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/site"
)

const (
	readLimit = 5 * time.Minute  // one look at a fleet
	freshFor  = time.Minute      // gates and times change without a commit
	failedFor = 10 * time.Second // a fleet that cannot be read is not read again for each request
	rest      = 9                // times as long as a look took, the poller waits for the next one
)

// fleets keeps the pages of each repository, and polls the branches of repositories with an open page.
type fleets struct {
	config Config

	mu      sync.Mutex
	byName  map[string]*live
	streams int
}

// live is a repository's pages as they were last read.
type live struct {
	name    string
	reading sync.Mutex // one reader at a time

	mu       sync.Mutex
	fleet    *site.Fleet
	pages    *site.Pages
	tips     string
	reviews  string    // version of the list of merge requests
	at       time.Time // when tips were read
	failed   error     // why the last look failed; nil if it did not
	failedAt time.Time
	watchers map[chan struct{}]bool
	stop     context.CancelFunc // of the poller; nil without watchers
}

func newFleets(c Config) *fleets { return &fleets{config: c, byName: map[string]*live{}} }

func (f *fleets) of(name string) *live {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.byName[name]
	if l == nil {
		l = &live{name: name, watchers: map[chan struct{}]bool{}}
		f.byName[name] = l
	}
	return l
}

// pages returns the pages of a repository, no older than a poll interval if its branches moved.
func (f *fleets) pages(ctx context.Context, name string) (*site.Pages, error) {
	l := f.of(name)
	l.mu.Lock()
	pages, age := l.pages, f.config.Clock().Sub(l.at)
	l.mu.Unlock()
	if pages != nil && age < f.config.Poll {
		return pages, nil
	}
	if err := f.refresh(ctx, l); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pages, nil
}

// refresh reads a fleet if its branches moved or its pages are old.
func (f *fleets) refresh(ctx context.Context, l *live) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit) // others wait for the result too
	defer cancel()
	l.reading.Lock()
	defer l.reading.Unlock()
	l.mu.Lock()
	earlier, have, at, failed, failedAt := l.fleet, seen{l.tips, l.reviews}, l.at, l.failed, l.failedAt
	l.mu.Unlock()
	now := f.config.Clock()
	if failed != nil && now.Sub(failedAt) < failedFor {
		return failed
	}
	err := f.look(ctx, l, earlier, have, at, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed, l.failedAt = err, f.config.Clock()
	return err
}

// seen is what the pages of a fleet were made from.
type seen struct{ tips, reviews string }

// look reads the branches, and the fleet if they moved. have is what the earlier fleet was made from, at a time. If
// only the list of merge requests has changed, look replaces that list in the earlier fleet.
func (f *fleets) look(ctx context.Context, l *live, earlier *site.Fleet, have seen, at, now time.Time) error {
	if earlier != nil && now.Sub(at) < f.config.Poll {
		return nil // somebody else has just looked
	}
	tips, err := f.config.Source.Tips(ctx, l.name)
	if err != nil {
		return fmt.Errorf("branches of %s: %w", l.name, err)
	}
	next := seen{tips: tips}
	var list func() []site.MergeRequest
	next.reviews, list = f.config.Source.Reviews(l.name)
	current := earlier != nil && tips == have.tips && now.Sub(earlier.Made) < freshFor
	if current && next == have {
		l.mu.Lock()
		l.at = now
		l.mu.Unlock()
		return nil
	}
	var fleet *site.Fleet
	if current {
		same := *earlier
		same.MergeRequests = list()
		fleet = &same
	} else if fleet, err = f.config.Source.Read(ctx, l.name, earlier); err != nil {
		return err
	}
	pages, err := site.NewPages(fleet, site.Options{Live: true})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fleet, l.pages, l.tips, l.reviews, l.at = fleet, pages, next.tips, next.reviews, f.config.Clock()
	if earlier == nil || next == have && fleet.State() == earlier.State() {
		return nil
	}
	for w := range l.watchers {
		select {
		case w <- struct{}{}:
		default: // it has a change to tell already
		}
	}
	return nil
}

// watch returns a channel that gets a value when the branches of a repository moved, or when its health or gates
// changed. leave ends it.
func (f *fleets) watch(name string) (changes <-chan struct{}, leave func(), err error) {
	f.mu.Lock()
	if f.streams >= maxStreams {
		f.mu.Unlock()
		return nil, nil, errStreams
	}
	f.streams++
	f.mu.Unlock()
	l := f.of(name)
	c := make(chan struct{}, 1)
	l.mu.Lock()
	l.watchers[c] = true
	if l.stop == nil {
		var ctx context.Context
		ctx, l.stop = context.WithCancel(context.Background())
		go f.poll(ctx, l)
	}
	l.mu.Unlock()
	return c, func() {
		l.mu.Lock()
		delete(l.watchers, c)
		if len(l.watchers) == 0 {
			l.stop()
			l.stop = nil
		}
		l.mu.Unlock()
		f.mu.Lock()
		f.streams--
		f.mu.Unlock()
	}, nil
}

// poll reads the branches of a repository while a page is open. It takes at most a tenth of the time, so that an open
// page of a large fleet does not keep a processor busy.
func (f *fleets) poll(ctx context.Context, l *live) {
	wait := f.config.Poll
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		began := time.Now() //nolint:forbidigo // a duration, which the clock of a test does not advance
		if err := f.refresh(ctx, l); err != nil && !errors.Is(err, context.Canceled) {
			f.config.Log.Warn("the branches of a fleet cannot be watched", "repository", l.name, "error", err)
		}
		wait = max(f.config.Poll, rest*time.Since(began))
	}
}
