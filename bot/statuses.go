package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/rollout"
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
	statusesFresh   = 5 * time.Minute  // age at which they are read again, because another replica or tool may have written one
	statusesLong    = 40 * time.Minute // limit of the interval, which doubles with each read as long as nothing is written
	statusesKept    = 2000             // commits in the cache
	maxRewrites     = 20               // writes that change only the description; further ones are delayed
	rewriteInterval = time.Hour        // interval of further ones
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
	if _, limited := errors.AsType[*forge.RateLimitError](err); limited || errors.Is(err, forge.ErrNotFound) || ctx.Err() != nil {
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

// reportHydrated writes a status for each environment that follows the trunk, on the source commit and on
// the rendered commit.
func (j *job) reportHydrated(ctx context.Context, tip gitstore.Commit, r *hydrate.Result) error {
	var failed []error
	whole := j.context() + "/hydrate" // red if an earlier task could not hydrate the commit
	if state := j.forge.state(ctx, j.place.Repo(), tip.Hash.String(), whole); state == forge.Failure {
		failed = append(failed, j.setStatus(ctx, forge.Status{Context: whole, State: forge.Success, Description: "hydrated"}, false, tip.Hash.String()))
	}
	for _, e := range r.Environments {
		if e.Status == hydrate.StatusChecked && len(e.Failures) == 0 || e.Status == hydrate.StatusSuperseded {
			continue
		}
		s := forge.Status{Context: j.context() + "/" + e.Name, State: forge.Success, Description: e.Summary()}
		if !e.Status.OK() {
			s.State = forge.Failure
		}
		if len(e.Held) > 0 && s.State == forge.Success { // the source commit fails, but the targets that were rendered pass
			s.State = forge.Failure
			failed = append(failed, j.setStatus(ctx, s, false, tip.Hash.String()))
			if e.Status == hydrate.StatusUpdated || e.Status == hydrate.StatusUnchanged {
				s.State = forge.Success
				failed = append(failed, j.setStatus(ctx, s, e.Status == hydrate.StatusUnchanged, cmp.Or(e.New, e.Old)))
			}
			continue
		}
		commits := []string{tip.Hash.String()}
		if e.Status == hydrate.StatusUpdated || e.Status == hydrate.StatusUnchanged {
			commits = append(commits, cmp.Or(e.New, e.Old))
		}
		failed = append(failed, j.setStatus(ctx, s, e.Status == hydrate.StatusUnchanged, commits...))
	}
	return errors.Join(failed...)
}

// reportPromoted writes the statuses of environments with `after`, and logs their silent apps.
func (j *job) reportPromoted(ctx context.Context, list []promote.Status) error {
	var failed []error
	for i := range list {
		j.logSilent(&list[i])
		for _, one := range promotedStatuses(j.context(), &list[i]) {
			failed = append(failed, j.setStatus(ctx, one.status, false, one.commits...))
		}
	}
	return errors.Join(failed...)
}

// promotedStatus is a status with the commits that get it: a source commit, optionally followed by a
// rendered commit.
type promotedStatus struct {
	status  forge.Status
	commits []string
}

// promotedStatuses returns the statuses of an environment: one for the source commit that it runs and its rendered
// commit, and a red one for each source commit that failed there or was rolled back. A pending status names the first
// silent cluster instead of the wave's gate.
func promotedStatuses(prefix string, e *promote.Status) []promotedStatus {
	if e.Source.Commit == "" {
		return nil
	}
	name := prefix + "/" + e.Environment
	var out []promotedStatus
	red := map[string]bool{}
	add := func(commit, text string) {
		if commit != "" && !red[commit] {
			red[commit] = true
			out = append(out, promotedStatus{forge.Status{Context: name, State: forge.Failure, Description: e.Environment + ": " + text}, []string{commit}})
		}
	}
	r := &e.Decision.Record
	if b := r.Rollback; b != nil {
		add(b.From.Commit, "is being rolled back: "+b.Reason)
	}
	for _, h := range r.Holds {
		if h.Cause != rollout.CauseStopped {
			add(h.Source.Commit, h.What())
		}
	}
	if red[e.Source.Commit] { // a part of the environment was rolled back from this commit
		return out
	}
	s := forge.Status{Context: name, State: forge.Success, Description: e.Environment + " " + waves(e)}
	if left := e.Decision.LeftOut; len(left) > 0 {
		s.Description += " without " + rollout.Few(left) + ", red in an environment before"
	}
	commits := []string{e.Source.Commit, e.Tip}
	switch state := wavesState(e); {
	case e.Foreign != "":
		s.State, s.Description = forge.Failure, fmt.Sprintf("`sluice status %s` says what to do: %s", e.Environment, e.Foreign)
		commits = commits[:1] // Sluice did not make the branch's tip
	case r.Halt != nil:
		s.State, s.Description = forge.Failure, fmt.Sprintf("%s: halted by %s: %s", e.Environment, cmp.Or(r.Halt.By, "Sluice"), r.Halt.Reason)
	case state == rollout.WaveFailed:
		s.State = forge.Failure
	case state != rollout.WaveDone:
		s.State = forge.Pending
		if silent := e.Decision.Silent; len(silent) > 0 {
			s.Description = e.Environment + " waits: " + silent[0].String()
		}
	}
	return append(out, promotedStatus{s, commits})
}

// wavesState returns the state of the first wave that is not done.
func wavesState(e *promote.Status) rollout.WaveState {
	for _, w := range e.Decision.Waves {
		if w.State != rollout.WaveDone {
			return w.State
		}
	}
	return rollout.WaveDone
}

// setStatus writes a status on a source commit and on the rendered commits that follow it. It skips
// rendered commits that the forge does not know, because they may be in another repository. With keepGreen,
// it does not change a green status.
func (j *job) setStatus(ctx context.Context, s forge.Status, keepGreen bool, commits ...string) error {
	var failed []error
	repo := j.place.Repo()
	for i, commit := range commits {
		if i == 1 { // the first rendered commit
			output, _, err := j.space.Branches.Output(ctx)
			if err != nil {
				return errors.Join(append(failed, err)...)
			}
			repo = output
		}
		if commit == "" || keepGreen && j.forge.state(ctx, repo, commit, s.Context) == forge.Success {
			continue
		}
		err := j.forge.SetStatus(ctx, repo, commit, s)
		if i > 0 && (errors.Is(err, forge.ErrNotFound) || errors.Is(err, forge.ErrUnsupported)) {
			continue
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("status %s of %.10s: %w", s.Context, commit, err))
		}
	}
	return errors.Join(failed...)
}
