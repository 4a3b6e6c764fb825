package bot

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
)

// statuses caches the statuses of commits, so that only changed ones are written: a forge keeps every status that was
// ever set, and GitHub accepts at most 1000 for one commit and context. It is safe for concurrent use.
type statuses struct {
	clock func() time.Time
	mu    sync.Mutex
	known map[string]*commitStatuses // by place and commit
}

func newStatuses(clock func() time.Time) *statuses {
	return &statuses{clock: clock, known: map[string]*commitStatuses{}}
}

// commitStatuses are the statuses of a commit by context.
type commitStatuses struct {
	at    time.Time     // when they were read
	fresh time.Duration // how long they are used without another read
	list  map[string]knownStatus
	doubt bool // another process may have written one since: without another read, none counts as known
}

// knownStatus is a cached status of a commit.
type knownStatus struct {
	forge.Status
	rewrites int // number of writes that changed only the description
	when     time.Time
}

const (
	// age at which they are read again, because another replica or tool may have written one
	statusesFresh = 5 * time.Minute
	// limit of the interval, which doubles with each read as long as nothing is written
	statusesLong    = 40 * time.Minute
	statusesKept    = 2000      // commits in the cache
	maxRewrites     = 20        // writes that change only the description; further ones are delayed
	rewriteInterval = time.Hour // interval of further ones
)

// statusForge is a forge that skips statuses that the commit already has.
type statusForge struct {
	Forge
	place    hint.Place
	statuses *statuses
}

// SetStatus implements forge.Statuses.
func (q statusForge) SetStatus(ctx context.Context, repo forge.Repository, commit string, s forge.Status) error {
	if s.Context == trustContext { // each /sluice trust writes this status
		return q.Forge.SetStatus(ctx, repo, commit, s)
	}
	have, err := q.have(ctx, repo, commit)
	if err != nil {
		return err
	}
	key := strings.ToLower(s.Context)
	q.statuses.mu.Lock()
	old, known := have.list[key]
	q.statuses.mu.Unlock()
	now := q.statuses.clock()
	next := knownStatus{Status: s, when: now}
	if known && !old.Check && sameState(old.State, s.State) {
		if sameDescription(old.Description, s.Description) && (s.URL == "" || s.URL == old.URL) {
			return nil
		}
		if next.rewrites = old.rewrites + 1; next.rewrites > maxRewrites && now.Sub(old.when) < rewriteInterval {
			return nil
		}
	}
	if err := q.Forge.SetStatus(ctx, repo, commit, s); err != nil {
		return err
	}
	q.statuses.mu.Lock()
	defer q.statuses.mu.Unlock()
	have.list[key], have.fresh = next, statusesFresh
	return nil
}

// state returns the state of a commit's status; "" if there is none or it is unknown. A check run does not
// count.
func (q statusForge) state(ctx context.Context, repo forge.Repository, commit, name string) forge.StatusState {
	have, err := q.have(ctx, repo, commit)
	if err != nil {
		return ""
	}
	q.statuses.mu.Lock()
	defer q.statuses.mu.Unlock()
	s := have.list[strings.ToLower(name)]
	if s.Check {
		return ""
	}
	return s.State
}

// have returns the statuses of a commit, from the cache while they are fresh. If the forge refuses the read, it
// returns the cached ones or none, because a credential without the right to read statuses may still write them. It
// returns errors for a rate limit, an unknown commit and a cancelled context.
func (q statusForge) have(ctx context.Context, repo forge.Repository, commit string) (*commitStatuses, error) {
	key, now := statusesKey(q.place, commit), q.statuses.clock()
	q.statuses.mu.Lock()
	have := q.statuses.known[key]
	fresh := have != nil && !have.doubt && now.Sub(have.at) < have.fresh
	q.statuses.mu.Unlock()
	if fresh {
		return have, nil
	}
	list, err := q.Forge.CommitStatuses(ctx, repo, commit)
	if _, limited := errors.AsType[*forge.RateLimitError](err); limited || errors.Is(err, forge.ErrNotFound) ||
		ctx.Err() != nil {
		return nil, err
	}
	return q.read(key, now, list, err), nil
}

// CommitStatuses implements forge.Statuses. It always asks the forge, and remembers the answer for SetStatus.
func (q statusForge) CommitStatuses(ctx context.Context, repo forge.Repository, commit string) ([]forge.Status, error) {
	list, err := q.Forge.CommitStatuses(ctx, repo, commit)
	if err == nil {
		q.read(statusesKey(q.place, commit), q.statuses.clock(), list, nil)
	}
	return list, err
}

// read remembers what the forge answered for a commit. After an error the known statuses stay.
func (q statusForge) read(key string, now time.Time, list []forge.Status, err error) *commitStatuses {
	q.statuses.mu.Lock()
	defer q.statuses.mu.Unlock()
	have := q.statuses.known[key]
	next := &commitStatuses{at: now, fresh: statusesFresh, list: map[string]knownStatus{}}
	if have != nil {
		next.fresh = min(2*have.fresh, statusesLong)
	}
	if err != nil && have != nil && !have.doubt {
		next.list = have.list
	}
	for _, s := range list {
		one := knownStatus{Status: s, when: s.Updated}
		if have != nil {
			old := have.list[strings.ToLower(s.Context)]
			if one.rewrites = old.rewrites; old.when.After(one.when) {
				one.when = old.when
			}
		}
		next.list[strings.ToLower(s.Context)] = one
	}
	q.statuses.keep(key, next)
	return next
}

// expire has the next write read the statuses of a commit first.
func (s *statuses) expire(p hint.Place, commit string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.known[statusesKey(p, commit)]; have != nil {
		have.doubt = true
	}
}

func statusesKey(p hint.Place, commit string) string { return p.String() + " " + commit }

// keep caches the statuses of a commit. At the limit it evicts those that were not read for a long time, or all. The
// caller holds mu.
func (s *statuses) keep(key string, c *commitStatuses) {
	if len(s.known) >= statusesKept {
		for k, one := range s.known {
			if c.at.Sub(one.at) > 2*statusesLong {
				delete(s.known, k)
			}
		}
	}
	if len(s.known) >= statusesKept {
		clear(s.known)
	}
	s.known[key] = c
}

// sameState reports whether two states are equal on every forge: some have no running state.
func sameState(a, b forge.StatusState) bool {
	plain := func(s forge.StatusState) forge.StatusState {
		if s == forge.Running {
			return forge.Pending
		}
		return s
	}
	return plain(a) == plain(b)
}

// sameDescription compares a description that the forge's adapter may have shortened with a full one.
func sameDescription(have, want string) bool {
	begin, cut := strings.CutSuffix(have, "…")
	return have == want || cut && strings.HasPrefix(want, begin)
}
