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
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promote"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// statuses remembers what commits have, so that only what differs is written: a forge keeps every status that was ever set, and
// GitHub takes no more than a thousand for one commit and context.
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
	at    time.Time     // when the forge was asked
	fresh time.Duration // how long that is believed
	list  map[string]said
}

type said struct {
	forge.Status
	words int // how often it was written again for other words alone
	when  time.Time
}

const (
	statusesFresh  = 5 * time.Minute  // then the forge is asked again: another replica, or somebody else, may have written
	statusesLong   = 40 * time.Minute // the same where nothing was written for long: each time that it is asked, twice as long
	statusesKept   = 2000             // commits
	wordsAtOnce    = 20               // changes of words alone, before they have to wait
	wordsAfterward = time.Hour
)

// statusForge is a forge that skips statuses that the commit already has.
type statusForge struct {
	Forge
	place    hint.Place
	statuses *statuses
}

// SetStatus implements forge.Statuses.
func (q statusForge) SetStatus(ctx context.Context, repo forge.Repository, commit string, s forge.Status) error {
	if s.Context == trustContext { // somebody's word is written as often as it is given
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
	next := said{Status: s, when: now}
	if known && !old.Check && sameState(old.State, s.State) {
		if sameWords(old.Description, s.Description) && (s.URL == "" || s.URL == old.URL) {
			return nil
		}
		if next.words = old.words + 1; next.words > wordsAtOnce && now.Sub(old.when) < wordsAfterward {
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

// state is that of a commit's status; "" if there is none, or it is not known.
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

// have is what a commit has, as far as that is known. A credential that may not read statuses may still write them.
func (q statusForge) have(ctx context.Context, repo forge.Repository, commit string) (*commitStatuses, error) {
	key, now := q.place.String()+" "+commit, q.statuses.clock()
	q.statuses.mu.Lock()
	have := q.statuses.known[key]
	q.statuses.mu.Unlock()
	if have != nil && now.Sub(have.at) < have.fresh {
		return have, nil
	}
	list, err := q.Statuses(ctx, repo, commit)
	if _, limited := errors.AsType[*forge.RateLimitError](err); limited || errors.Is(err, forge.ErrNotFound) || ctx.Err() != nil {
		return nil, err
	}
	q.statuses.mu.Lock()
	defer q.statuses.mu.Unlock()
	next := &commitStatuses{at: now, fresh: statusesFresh, list: map[string]said{}}
	if have != nil {
		next.fresh = min(2*have.fresh, statusesLong)
	}
	if err != nil && have != nil {
		next.list = have.list
	}
	for _, s := range list {
		one := said{Status: s, when: s.Updated}
		if have != nil {
			old := have.list[strings.ToLower(s.Context)]
			if one.words = old.words; old.when.After(one.when) {
				one.when = old.when
			}
		}
		next.list[strings.ToLower(s.Context)] = one
	}
	q.statuses.keep(key, next)
	return next, nil
}

// keep makes room first: what was not asked for the longest time is asked for again when it is needed.
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

func sameState(a, b forge.StatusState) bool {
	plain := func(s forge.StatusState) forge.StatusState {
		if s == forge.Running { // not everywhere a state of its own
			return forge.Pending
		}
		return s
	}
	return plain(a) == plain(b)
}

// sameWords compares what is there, which the forge's adapter may have cut, with what is to be there.
func sameWords(have, want string) bool {
	begin, cut := strings.CutSuffix(have, "…")
	return have == want || cut && strings.HasPrefix(want, begin)
}

// sayHydrated writes a status for each environment that follows the trunk, on the source commit and on the rendered one.
func (j *job) sayHydrated(ctx context.Context, tip gitstore.Commit, r *hydrate.Result) error {
	var failed []error
	whole := j.context() + "/hydrate" // red if none of it could be hydrated, for a reason that is gone
	if state := j.forge.state(ctx, j.place.Repo(), tip.Hash.String(), whole); state == forge.Failure {
		failed = append(failed, j.sayOn(ctx, forge.Status{Context: whole, State: forge.Success, Description: "hydrated"}, false, tip.Hash.String()))
	}
	for _, e := range r.Environments {
		if e.Status == hydrate.StatusChecked && len(e.Failures) == 0 || e.Status == hydrate.StatusSuperseded {
			continue
		}
		s := forge.Status{Context: j.context() + "/" + e.Name, State: forge.Success, Description: e.Summary()}
		if !e.Status.OK() {
			s.State = forge.Failure
		}
		commits := []string{tip.Hash.String()}
		if e.Status == hydrate.StatusUpdated || e.Status == hydrate.StatusUnchanged {
			commits = append(commits, cmp.Or(e.New, e.Old))
		}
		failed = append(failed, j.sayOn(ctx, s, e.Status == hydrate.StatusUnchanged, commits...))
	}
	return errors.Join(failed...)
}

// sayPromoted writes the statuses of the environments that come after others.
func (j *job) sayPromoted(ctx context.Context, list []promotion.Status) error {
	var failed []error
	for i := range list {
		for _, one := range promotedStatuses(j.context(), &list[i]) {
			failed = append(failed, j.sayOn(ctx, one.status, false, one.commits...))
		}
	}
	return errors.Join(failed...)
}

// promotedStatus is a status with the commits that get it: a source commit and, behind it, a rendered one.
type promotedStatus struct {
	status  forge.Status
	commits []string
}

// promotedStatuses are the statuses of an environment: on the source commit that it runs and on the rendered commit, and a red
// one on each source commit that failed there or was rolled back.
func promotedStatuses(prefix string, e *promotion.Status) []promotedStatus {
	if e.Source.Commit == "" { // it runs nothing yet
		return nil
	}
	name := prefix + "/" + e.Environment
	var out []promotedStatus
	red := map[string]bool{}
	add := func(commit, words string) {
		if commit != "" && !red[commit] {
			red[commit] = true
			out = append(out, promotedStatus{forge.Status{Context: name, State: forge.Failure, Description: e.Environment + ": " + words}, []string{commit}})
		}
	}
	r := &e.Decision.Record
	if b := r.Rollback; b != nil {
		add(b.From.Commit, "is being rolled back: "+b.Reason)
	}
	for _, h := range r.Holds {
		if h.Cause != promote.CauseStopped {
			add(h.Source.Commit, h.What())
		}
	}
	if red[e.Source.Commit] { // a part of the environment was rolled back from it
		return out
	}
	s := forge.Status{Context: name, State: forge.Success, Description: e.Environment + " " + waves(e)}
	commits := []string{e.Source.Commit, e.Tip}
	switch state := wavesState(e); {
	case e.Foreign != "":
		s.State, s.Description = forge.Failure, e.Decision.WaitsFor
		commits = commits[:1] // the other commit is somebody else's
	case r.Halt != nil:
		s.State, s.Description = forge.Failure, fmt.Sprintf("%s: halted by %s: %s", e.Environment, cmp.Or(r.Halt.By, "Sluice"), r.Halt.Reason)
	case state == promote.WaveFailed:
		s.State = forge.Failure
	case state != promote.WaveDone:
		s.State = forge.Pending
	}
	return append(out, promotedStatus{s, commits})
}

// wavesState is that of the first wave that is not done.
func wavesState(e *promotion.Status) promote.WaveState {
	for _, w := range e.Decision.Waves {
		if w.State != promote.WaveDone {
			return w.State
		}
	}
	return promote.WaveDone
}

// sayOn writes a status on a source commit and, behind it, on a rendered one. That may live in another repository: then the forge
// does not know it here. With unless, a green one stays as it is.
func (j *job) sayOn(ctx context.Context, s forge.Status, unless bool, commits ...string) error {
	var failed []error
	repo := j.place.Repo()
	for i, commit := range commits {
		if i == 1 { // the others are rendered ones
			var err error
			if repo, err = j.space.Branches.Output(ctx); err != nil {
				return errors.Join(append(failed, err)...)
			}
		}
		if commit == "" || unless && j.forge.state(ctx, repo, commit, s.Context) == forge.Success {
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
