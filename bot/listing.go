package bot

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/internal/lru"
)

const (
	maxListings = 1000             // repositories
	listFresh   = 10 * time.Second // how long a listing is recent enough to write a verdict
	// of two listings: a forge may show an update later than another one that came after it
	listOverlap = time.Minute
)

// listings remember the open merge requests of repositories. A review asks for those that were updated since the last
// listing: one request returns the merge request, and others with the same head. It is safe for concurrent use.
type listings struct {
	clock func() time.Time
	mu    sync.Mutex
	known *lru.Cache[*listing]
}

// listing has the open merge requests of a repository, without their texts.
type listing struct {
	at     time.Time // by the own clock
	newest time.Time // update, by the forge's clock
	open   map[int]*forge.MergeRequest
}

func newListings(clock func() time.Time) *listings {
	return &listings{clock: clock, known: lru.New[*listing](maxListings)}
}

// since returns the time from which updates may be missing; false if the open merge requests are unknown.
func (l *listings) since(p hint.Place) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, ok := l.known.Get(string(p))
	if !ok || have.newest.IsZero() {
		return time.Time{}, false
	}
	return have.newest.Add(-listOverlap), true
}

// replace remembers the complete list of open merge requests.
func (l *listings) replace(p hint.Place, at time.Time, open []*forge.MergeRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := &listing{at: at, open: map[int]*forge.MergeRequest{}}
	if have, ok := l.known.Get(string(p)); ok && !have.at.After(at) {
		next.newest = have.newest // may be the update of a merge request that was closed
	}
	next.add(open)
	l.known.Add(string(p), next)
}

// update remembers merge requests in any state.
func (l *listings) update(p hint.Place, at time.Time, recent []*forge.MergeRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if have, ok := l.known.Get(string(p)); ok {
		have.at = at
		have.add(recent)
	}
}

// correct stores a merge request that was read individually. It does not advance the time from which refresh lists
// updates, because other merge requests may have been updated earlier.
func (l *listings) correct(p hint.Place, mr *forge.MergeRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if have, ok := l.known.Get(string(p)); ok {
		newest := have.newest
		have.add([]*forge.MergeRequest{mr})
		have.newest = newest
	}
}

// remove forgets a merge request that the forge no longer has.
func (l *listings) remove(p hint.Place, number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if have, ok := l.known.Get(string(p)); ok {
		delete(have.open, number)
	}
}

func (l *listing) add(list []*forge.MergeRequest) {
	for _, mr := range list {
		if mr.Updated.After(l.newest) {
			l.newest = mr.Updated
		}
		if old := l.open[mr.Number]; old != nil && old.Updated.After(mr.Updated) {
			continue // another task listed it meanwhile
		}
		if mr.State != forge.Open {
			delete(l.open, mr.Number)
			continue
		}
		slim := *mr
		slim.Body = ""
		l.open[mr.Number] = &slim
	}
}

// all returns the open merge requests by number, and when they were listed.
func (l *listings) all(p hint.Place) ([]*forge.MergeRequest, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, ok := l.known.Get(string(p))
	if !ok {
		return nil, time.Time{}
	}
	out := make([]*forge.MergeRequest, 0, len(have.open))
	for _, mr := range have.open {
		out = append(out, mr)
	}
	slices.SortFunc(out, func(a, b *forge.MergeRequest) int { return a.Number - b.Number })
	return out, have.at
}

// refresh lists what was updated since the last listing, or all open merge requests if there was none. It returns what
// it listed.
func (l *listings) refresh(ctx context.Context, f Forge, p hint.Place) ([]*forge.MergeRequest, error) {
	began := l.clock()
	if since, known := l.since(p); known {
		list, err := f.RecentMergeRequests(ctx, p.Repo(), since)
		if err == nil {
			l.update(p, began, list)
		}
		return list, err
	}
	list, err := f.OpenMergeRequests(ctx, p.Repo(), "")
	if err == nil {
		l.replace(p, began, list)
	}
	return list, err
}

// read refreshes the listing and returns a merge request. If the refresh does not contain it, read fetches it with a
// second request.
func (l *listings) read(ctx context.Context, f Forge, p hint.Place, number int) (*forge.MergeRequest, error) {
	list, err := l.refresh(ctx, f, p)
	if err != nil {
		return nil, err
	}
	if mr := numbered(list, number); mr != nil {
		return mr, nil
	}
	mr, err := f.MergeRequest(ctx, p.Repo(), number)
	if err != nil {
		return nil, err
	}
	l.correct(p, mr)
	return mr, nil
}

// open returns the open merge requests, without their texts, by a listing within listFresh.
func (l *listings) open(ctx context.Context, f Forge, p hint.Place) ([]*forge.MergeRequest, error) {
	list, at := l.all(p)
	if age := l.clock().Sub(at); age >= 0 && age < listFresh {
		return list, nil
	}
	if _, err := l.refresh(ctx, f, p); err != nil {
		return nil, err
	}
	list, _ = l.all(p)
	return list, nil
}

func numbered(list []*forge.MergeRequest, number int) *forge.MergeRequest {
	for _, mr := range list {
		if mr.Number == number {
			return mr
		}
	}
	return nil
}
