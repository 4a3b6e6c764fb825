package site

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
)

const (
	readersOnce = 8 // requests at the same time
	bulkOnce    = 2 // requests for many commits at the same time
	leastBatch  = 10

	lackedFor = time.Hour // a commit that a request for many did not return is read alone for this time
)

// Refresh reads the statuses of tips of cluster branches that a health gate judges: first those that it never asked
// for, then those that it asked for longest ago. It does not exceed the limits of commits in a minute. An error does
// not end it, unless the forge is not available.
func (s *Statuses) Refresh(ctx context.Context, h *hydrate.Hydrator, trunk gitstore.Hash, from promote.StatusReader,
	now time.Time,
) error {
	f, _, err := h.Fleet(ctx, trunk)
	if err != nil {
		return err
	}
	refs, err := h.Branches.List(ctx, f.BranchPrefixes()...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	known := map[gitstore.Hash]knownStatuses{}
	var missing []gitstore.Hash
	for _, c := range f.Clusters {
		tip := refs[f.ClusterBranch(c)]
		if _, twice := known[tip]; tip.IsZero() || twice || c.Retired() || len(gatesOf(f, c.Environment)) == 0 {
			continue
		}
		have := s.of[tip]
		known[tip] = have
		if !have.fresh(now) {
			missing = append(missing, tip)
		}
	}
	slices.SortStableFunc(missing, func(x, y gitstore.Hash) int {
		return cmp.Or(known[x].tried.Compare(known[y].tried), cmp.Compare(x.String(), y.String()))
	})
	s.of = known
	s.mu.Unlock()
	alone, over, failed := s.readMany(ctx, from, missing, now)
	s.mu.Lock()
	slices.SortStableFunc(alone, func(x, y gitstore.Hash) int { return s.of[x].tried.Compare(s.of[y].tried) })
	ask := min(len(alone), s.left(from, false, now))
	s.asked += ask
	s.over = over + len(alone) - ask
	s.mu.Unlock()
	return errors.Join(failed, s.read(ctx, from, alone[:ask], now))
}

// left returns the number of commits that may still be read in this minute.
func (s *Statuses) left(from promote.StatusReader, bulk bool, now time.Time) int {
	if now.Sub(s.since) >= time.Minute || now.Before(s.since) {
		s.since, s.asked, s.bulked = now, 0, 0
	}
	stretch := 1
	if t, ok := from.(Thrifty); ok {
		stretch = t.Stretch(bulk)
	}
	if bulk {
		most := s.mostBulk
		if many, ok := from.(BulkReader); ok {
			most = min(most, bulkRequests*many.MostBulk())
		}
		return max(most/stretch-s.bulked, 0)
	}
	return max(s.most/stretch-s.asked, 0)
}

// batches divides the commits that may be read with requests for many, and counts the others. alone are those that such
// a request did not return lately: they take no place of others in it. It returns no reader if this one has no such
// request, or refused one lately.
func (s *Statuses) batches(from promote.StatusReader, missing []gitstore.Hash, now time.Time) (reader BulkReader,
	batches [][]gitstore.Hash, alone []gitstore.Hash, over int,
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reader, ok := from.(BulkReader)
	if !ok || reader.MostBulk() == 0 || len(missing) < 2 || !s.noBulk.IsZero() && now.Sub(s.noBulk) < settledFor {
		return nil, nil, nil, 0
	}
	var many []gitstore.Hash
	for _, c := range missing {
		if at := s.of[c].lacked; !at.IsZero() && now.Sub(at) < lackedFor {
			alone = append(alone, c)
		} else {
			many = append(many, c)
		}
	}
	most := min(cmp.Or(s.batch, reader.MostBulk()), reader.MostBulk())
	ask := min(len(many), s.left(from, true, now))
	s.bulked += ask
	return reader, slices.Collect(slices.Chunk(many[:ask], most)), alone, len(many) - ask
}

// readMany reads commits with requests for many of them. It returns the commits that have to be read alone, and how
// many it did not ask for because of the limit.
func (s *Statuses) readMany(ctx context.Context, from promote.StatusReader, missing []gitstore.Hash,
	now time.Time,
) (alone []gitstore.Hash, over int, err error) {
	reader, batches, alone, over := s.batches(from, missing, now)
	if reader == nil {
		return missing, 0, nil
	}
	group := errgroup.Group{}
	group.SetLimit(bulkOnce)
	var down, refused atomic.Bool
	for _, batch := range batches {
		group.Go(func() error {
			if down.Load() || ctx.Err() != nil {
				return ctx.Err()
			}
			names := make([]string, len(batch))
			for i, c := range batch {
				names[i] = c.String()
			}
			lists, err := reader.Bulk(ctx, names)
			s.mu.Lock()
			defer s.mu.Unlock()
			switch {
			case errors.Is(err, errors.ErrUnsupported):
				s.noBulk, err = now, nil
				refused.Store(true)
				down.Store(true)
			case ctx.Err() != nil: // says nothing of the forge
				down.Store(true)
			case err != nil:
				if s.batch == leastBatch { // single commits may still be answered
					s.noBulk = now
				}
				// GitHub gives up on queries that take too long
				s.batch = max(cmp.Or(s.batch, reader.MostBulk())/2, leastBatch)
				s.keep(batch, nil, now)
				down.Store(true)
			default:
				s.batch = min(2*cmp.Or(s.batch, reader.MostBulk()), reader.MostBulk())
				alone = append(alone, s.keep(batch, lists, now)...)
			}
			return err
		})
	}
	err = group.Wait()
	if refused.Load() {
		return missing, 0, nil
	}
	return alone, over, err
}

// keep records the answers of a request for many commits, nil if it failed. It returns the commits that the answer
// lacks.
func (s *Statuses) keep(batch []gitstore.Hash, lists map[string][]rollout.Status,
	now time.Time,
) (lacks []gitstore.Hash) {
	for _, commit := range batch {
		list, ok := lists[commit.String()]
		if lists != nil && !ok {
			lacks = append(lacks, commit)
			k := s.of[commit]
			k.lacked = now
			s.of[commit] = k
			continue
		}
		k := s.of[commit]
		k.tried, k.failed = now, !ok
		if ok {
			k.list, k.at, k.healthy = list, now, false // Read judges them
		}
		s.of[commit] = k
	}
	return lacks
}

// read reads the statuses of commits. If the forge is not available, it starts no further request. It keeps the answers
// so far.
func (s *Statuses) read(ctx context.Context, from promote.StatusReader, commits []gitstore.Hash, now time.Time) error {
	group := errgroup.Group{}
	group.SetLimit(readersOnce)
	var down atomic.Bool
	for _, commit := range commits {
		group.Go(func() error {
			if down.Load() || ctx.Err() != nil {
				return ctx.Err()
			}
			list, err := from.Statuses(ctx, commit.String())
			if _, none := errors.AsType[*promote.UnavailableError](err); none {
				down.Store(true)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			k := s.of[commit]
			k.tried, k.failed = now, err != nil
			if err == nil {
				k.list, k.at, k.healthy = list, now, false // Read judges them
			}
			s.of[commit] = k
			return err
		})
	}
	return group.Wait()
}
