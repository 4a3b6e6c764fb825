package bot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/lru"
)

// headState is what this process knows about the reviews of a merge request. It decides, together with the verdict that
// is recorded for all replicas and with the status of the head, whether the head was reviewed already:
//
//   - A forced review always runs.
//   - A review is skipped if the newest recorded verdict has the present basis, and the last review in this process
//     either exceeded a limit with this head and these dependencies, or had the same input and lacked no content that a
//     server may deliver by now. The tip of the target branch counts as the same if its new commits do not concern the
//     merge request; see scope.
//   - A review is skipped if the status of the head shows that somebody stopped it, or that it exceeded a limit; see
//     stopped. So a restart does not repeat it.
//
// The memory of this process alone does not suffice: another replica may have reviewed the merge request since, when it
// depended on something else. A headState that was evicted costs one more review.
type headState struct {
	own    reviewed // in the fleet of the repository
	fleets reviewed // for the fleets that take content from the repository; one verdict for all of them
	// verdict is the name of the verdict that the reviews for fleets wrote.
	verdict string
	// trunks are the trees of the fleets' trunks that the reviews for them hold for, by fleet.
	trunks map[hint.Place]gitstore.Hash
	// ended is the state of the merge request after which its preview and its verdict were deleted; "" if it was
	// reviewed since.
	ended forge.State

	failure   failure         // that the check run of the head has
	behind    time.Duration   // the last delay because the forge and Git reported different heads; 0 if they agree
	late      map[string]late // merge requests that this one depends on and whose heads Git did not have
	announced string          // the state that the merge requests which depend on this one were reviewed for
	retired   string          // the fleets of which the comments say that they ask for no review
	commands  time.Time       // the update of the merge request up to which a sweep looked for commands
	asked     []string        // keys of the requests for reviews, as far as this process knows them
	draft     bool            // reviews are asked for when it is no draft any more
}

// reviewed is the last review of a head. The zero value is no review.
type reviewed struct {
	input input
	limit limit
	lacks lacks
}

// input is what a review depends on, apart from the policy and the trunks of other fleets.
type input struct {
	head, target string // the head, and the name of the target branch
	tip          gitstore.Hash
	labels       string
	deps         string // identity of its dependencies
	uses         string // of a review for fleets: these fleets, and what they take
}

// limit is what a review that exceeded a limit depends on: it would do so again with any target branch. The zero value
// is no such review.
type limit struct{ head, deps string }

// lacks is a review that lacked content of another repository or a chart, because a server could not be reached. No
// webhook says when the server is back, so a sweep repeats the review. The wait doubles each time, and the number of
// repetitions is bounded, because content that is gone for good looks the same. The zero value lacks nothing.
type lacks struct {
	head    string
	repeats int
	next    time.Time // of the next repetition
}

const (
	firstRepeat = 5 * time.Minute
	maxRepeats  = 9 // the last one after about 21 hours, 43 hours in all
)

// again returns the state after a review of a head that lacked content. A review before the time of the repetition,
// such as one of a trunk that moved, is no repetition.
func (l lacks) again(head string, now time.Time) lacks {
	if l.head != head {
		return lacks{head: head, next: now.Add(firstRepeat)}
	}
	if now.Before(l.next) {
		return l
	}
	return lacks{head: head, repeats: l.repeats + 1, next: now.Add(firstRepeat << min(l.repeats+1, maxRepeats))}
}

// due reports whether it is time to repeat the review of a head.
func (l lacks) due(head string, now time.Time) bool {
	return l.head == head && l.repeats < maxRepeats && !now.Before(l.next)
}

// failure is the reason why a head cannot be reviewed.
type failure struct{ head, why string }

// late counts the reviews that waited for the head of another merge request.
type late struct {
	head     string
	attempts int
}

// inputOf returns what the review of a merge request in its own fleet depends on. deps is the identity of its
// dependencies.
func inputOf(mr *forge.MergeRequest, tip gitstore.Hash, deps string) input {
	return input{
		head: mr.Head, target: mr.TargetBranch, tip: tip, labels: strings.Join(labelsOfOthers(mr), ","), deps: deps,
	}
}

// inputFor returns what the reviews of a merge request for fleets depend on.
func inputFor(mr *forge.MergeRequest, tip gitstore.Hash, uses []companions.Use, deps string) input {
	in := inputOf(mr, tip, deps)
	var b strings.Builder
	for _, u := range uses {
		fmt.Fprintf(&b, "\n%s %s %s", u.Fleet, u.Name, u.Branch)
		for _, more := range u.More {
			fmt.Fprintf(&b, " %s %s", more.Name, more.Branch)
		}
	}
	in.uses = b.String()
	return in
}

// reviewedOwn records a review in the fleet of the repository; the zero input has the next task review the head again.
func (s *headState) reviewedOwn(in input) { s.own.input, s.ended = in, "" }

// headStates are the states of merge requests, by repository and number. It is safe for concurrent use.
type headStates struct {
	mu    sync.Mutex
	known *lru.Cache[headState]
}

func newHeadStates() *headStates {
	return &headStates{known: lru.New[headState](maxRemembered)}
}

func headKey(p hint.Place, number int) string { return fmt.Sprintf("%s!%d", p, number) }

// of returns the state of a merge request, for reading. An unknown merge request has the zero state.
func (h *headStates) of(p hint.Place, number int) headState {
	s, _ := h.known.Get(headKey(p, number)) // the zero state is what the caller expects for an unknown one
	return s
}

// update changes the state of a merge request.
func (h *headStates) update(p hint.Place, number int, change func(*headState)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.of(p, number)
	s.trunks, s.late = maps.Clone(s.trunks), maps.Clone(s.late) // others may read these maps
	if s.trunks == nil {
		s.trunks = map[hint.Place]gitstore.Hash{}
	}
	if s.late == nil {
		s.late = map[string]late{}
	}
	change(&s)
	h.known.Add(headKey(p, number), s)
}

// state returns the state of a merge request of the task's repository.
func (t *task) state(number int) headState { return t.heads.of(t.place, number) }

func (t *task) update(number int, change func(*headState)) { t.heads.update(t.place, number, change) }

// Verdicts record the states that the reviews of single merge requests give their heads, and what these reviews
// depended on. A read returns what the last write before it recorded, in whichever process.
type Verdicts interface {
	// Verdict returns the value that Record stored last; "" if there is none. A merge request has a value for each
	// name.
	Verdict(ctx context.Context, p hint.Place, number int, name string) (string, error)
	Record(ctx context.Context, p hint.Place, number int, name, value string) error
}

// The names of verdicts.
const (
	verdictOwn    = ""       // of the status that the branch protection requires
	verdictFleets = "fleets" // of the status of other fleets in a repository that is a fleet itself
)

// ownVerdicts are the verdicts of a service with one process.
type ownVerdicts struct{ known *lru.Cache[string] }

func newOwnVerdicts() ownVerdicts { return ownVerdicts{lru.New[string](maxRemembered)} }

// Verdict implements Verdicts.
func (o ownVerdicts) Verdict(_ context.Context, p hint.Place, number int, name string) (string, error) {
	value, _ := o.known.Get(headKey(p, number) + " " + name) // "" is what the caller expects for an unknown one
	return value, nil
}

// Record implements Verdicts.
func (o ownVerdicts) Record(_ context.Context, p hint.Place, number int, name, value string) error {
	o.known.Add(headKey(p, number)+" "+name, value)
	return nil
}

// verdict is a recorded verdict: the state that the review of a merge request alone gives its head. Its text outlives
// the process and is read by replicas of other versions, so the form stays "HEAD STATE BASIS".
type verdict struct {
	head  string
	state forge.StatusState
	basis string // see basisOf; "" if the state is not that of a review
}

func (v verdict) String() string { return v.head + " " + string(v.state) + " " + v.basis }

// parseVerdict reads the text of a verdict. Without one, it returns the zero verdict.
func parseVerdict(text string) verdict {
	head, rest, _ := strings.Cut(text, " ")
	state, basis, _ := strings.Cut(rest, " ")
	return verdict{head, forge.StatusState(state), basis}
}

// basisOf identifies what the verdict on a merge request depends on, apart from branches. deps is the identity of its
// dependencies.
func basisOf(mr *forge.MergeRequest, deps string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", mr.Head, mr.TargetBranch, labelsOfOthers(mr), deps))
	return hex.EncodeToString(sum[:16])
}

// labelsOfOthers returns the labels that reviews do not set themselves: a label of theirs must not start a review.
func labelsOfOthers(mr *forge.MergeRequest) []string {
	return slices.DeleteFunc(slices.Clone(mr.Labels), fleet.OwnLabel)
}

// stoppedBy begins the description of the status of a head whose review somebody cancelled.
const stoppedBy = "stopped by "

// stopped reports whether the status of the head says that somebody cancelled its review, or with limit, that the
// review exceeded a limit. A limit that a review with other dependencies exceeded does not count.
func (t *reviewTask) stopped(ctx context.Context, limit bool) (bool, error) {
	recorded, known, err := t.status(t.mr, verdictOwn).recorded(ctx)
	if err != nil {
		return false, err
	}
	if known {
		limit = limit && recorded.basis == basisOf(t.mr, t.identity)
	} else {
		limit = limit && t.identity == ""
	}
	statuses, err := publish.States(ctx, t.forge, t.place.Repo(), t.mr.Head, publish.Options{Checks: t.settings.Checks})
	if err != nil {
		return false, err
	}
	own := t.contextFor(ctx, t.mr.TargetBranch)
	for _, s := range statuses {
		if s.Context != own || s.State != forge.Failure {
			continue
		}
		if strings.HasPrefix(s.Description, stoppedBy) || limit &&
			strings.HasPrefix(s.Description, ErrStopped.Error()+":") {
			return true, nil
		}
	}
	return false, nil
}

// reviewed reports whether a review would repeat an earlier one, or one that somebody stopped; see headState.
func (t *reviewTask) reviewed(ctx context.Context) (bool, error) {
	if t.hint.Force {
		return false, nil
	}
	if t.state(t.mr.Number).draft && !t.mr.Draft { // one review asks for reviews, whatever its result is
		t.update(t.mr.Number, func(s *headState) { s.draft = false })
		return t.stopped(ctx, true)
	}
	own := t.state(t.mr.Number).own
	if !own.lacks.due(t.mr.Head, t.Clock()) && t.current(ctx) || own.limit == t.limit() {
		if same, err := t.status(t.mr, verdictOwn).hasBasis(ctx, t.identity); err != nil || same {
			return same, err
		}
	}
	return t.stopped(ctx, true)
}

// limit is that of a review of the merge request which exceeds one.
func (t *reviewTask) limit() limit { return limit{t.mr.Head, t.identity} }

// limitIf returns the limit of the merge request, or none.
func (t *reviewTask) limitIf(exceeded bool) limit {
	if !exceeded { // a retry may have stayed within the limits
		return limit{}
	}
	return t.limit()
}

// lacked returns the repetition of a review that lacked content, or none.
func (t *reviewTask) lacked(before lacks, unreached bool) lacks {
	if !unreached {
		return lacks{}
	}
	return before.again(t.mr.Head, t.Clock())
}
