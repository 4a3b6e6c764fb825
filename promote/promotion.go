package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-gitops/sluice/bundle/incoming"
	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/branch"
	"github.com/sluice-gitops/sluice/rollout"
)

// Adapters are the roles that promotions need beside Git. The answer of a nil adapter is unknown, and an unknown status
// blocks the promotion.
type Adapters struct {
	Policy        PolicyJudge
	Statuses      StatusReader
	Checks        Checker
	Authors       AuthorFinder
	MergeRequests MergeRequests
	Changes       Differ // for gates that ask what a promotion changes; nil: they do not learn it
}

// PolicyJudge judges an environment as it would be after a part of a promotion. It returns a verdict and its reason.
type PolicyJudge interface {
	Judge(ctx context.Context, part Part) (rollout.State, string)
}

// StatusReader reads the commit statuses of a rendered commit.
type StatusReader interface {
	Statuses(ctx context.Context, commit string) ([]rollout.Status, error)
}

// NotReadError is the error of a StatusReader that does not ask the forge now. It says since when the statuses are
// unknown, such as "its statuses have not been read yet".
type NotReadError string

// Error implements error.
func (e NotReadError) Error() string { return string(e) }

// UnavailableError is the error of a StatusReader whose forge accepts no requests now, also for other commits.
type UnavailableError struct{ Err error }

// Error implements error.
func (e *UnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Checker runs the checks of an environment.
type Checker interface {
	Check(ctx context.Context, environment fleet.Environment, now time.Time) []rollout.CheckResult
}

// AuthorFinder names the people behind source commits by their names on the forge. After an error the names may be
// incomplete.
type AuthorFinder interface {
	Authors(ctx context.Context, commits []gitstore.Commit) ([]string, error)
	// AuthorsElsewhere names the people behind the commits of another repository that a moved pin brings. Without an
	// error, it knows at least one name on the forge for each commit.
	AuthorsElsewhere(ctx context.Context, m MovedPin) ([]string, error)
}

// MovedPin is another repository of the fleet of which a promotion brings other content.
type MovedPin struct {
	Name, URL string
	Wanted    string // the ref that the fleet pins: refs/heads/BRANCH or refs/tags/PATTERN
	From, To  gitstore.Hash
}

// MergeRequests opens and closes the merge requests of promotions.
type MergeRequests interface {
	// Find returns the open merge request from one branch to another; nil if there is none.
	Find(ctx context.Context, from, to string) (*MergeRequest, error)
	// Open opens a merge request, or updates the text of the open one.
	Open(ctx context.Context, r MergeRequest) error
	Close(ctx context.Context, r MergeRequest, why string) error
}

// Part is what a promotion takes from one source commit.
type Part struct {
	Environment string
	Base        gitstore.Hash // tip of the environment branch that it would change
	Source      gitstore.Commit
	Apps        []string // none means all
	Without     []string // apps that come from other commits

	Rendered *branch.State // the environment at Source, as far as this pass rendered it; nil if it did not
}

// ErrNoForge means that mode request needs a forge, and that there is none.
var ErrNoForge = errors.New("mode request needs a forge: run the service or `sluice ci`, or promote by command")

// MergeRequest is the merge request of a promotion.
type MergeRequest struct {
	Number            int
	From, To          string // branches
	Head              string
	Title, Body       string
	Source, Tree, Why string
}

// Request asks for one pass over the environments.
type Request struct {
	Trunk        gitstore.Commit // its tip: the fleet, its gates and rights are read from it
	Environments []string        // none: all that come after another
	Commands     []Command
	Now          time.Time
	Adapters     Adapters
	// reason why promotions are blocked: others can write the branches. "": protected, or protection is not required
	Unprotected  string
	DryRun       bool   // decide and plan, and change nothing
	Changes      Differ // of a dry run: makes Plan.Changes; nil makes none
	PerPush      int
	Candidates   *Candidates // what earlier passes rendered; nil keeps nothing
	MaxDeletions int         // objects that may go from one environment; 0: what the fleet says
	Recreate     bool        // create branches again that somebody deleted
	Overwrite    bool        // put what is promoted on top of commits that Sluice did not make
	OnlyStop     bool        // the commands freeze or halt: store that, and decide and move nothing
	OnlyRender   bool        // the commands render again: bring no commit besides
	stay         []string    // environments in which Run was refused a stop or a rollback
	// CommandPrefix begins the commands that texts advise: "sluice" on a terminal, "/sluice" (the default) in a chat.
	CommandPrefix string
}

// Command is a command of a person about an environment.
type Command struct {
	rollout.Event
	Environment string
	From        string // of promote: the environment to take from
	Revision    string // of promote: a source commit; of rollback: what to go back to
	Person      rollout.Person
	// InTeam asks the forge whether the person is in a team. Person.Teams has those that sluice.yaml names for the
	// environment; those of a workspace are asked for where one is promoted. Nil on a command line.
	InTeam func(ctx context.Context, team string) (bool, error)
	Verb   string    // the right that it needs
	CLI    bool      // given on a command line: rights are the repository's own
	Said   time.Time // when the person wrote it; zero means now. The command does not apply to later changes
}

// Differ compares two trees of an environment branch. It returns nil if they differ too much to be compared.
type Differ func(ctx context.Context, f *fleet.Fleet, environment string, before, after gitstore.Hash) (*diff.ChangeSet,
	error)

// Status is the state of an environment and of its rollout.
type Status struct {
	Environment string
	Branch      string
	Tip         string
	Source      rollout.Source
	Behind      int // commits of the trunk
	Decision    rollout.Decision
	Done        []string // what was done, in words
	Refused     []string // commands that were not carried out, and why
	stays       bool     // one of them is a stop or a rollback: nothing moved
	due         bool     // something can be promoted or is under way
	Candidate   string   // tree of the proposal
	Foreign     string
	Plan        *Plan // of a dry run, what the proposal would do
	// Site is what the site of an isolated environment runs; nil of others, and on the site itself.
	Site *SiteStatus
}

// Settled reports whether another look at the environment would do nothing as long as no branch of the fleet moves:
// nothing is due, waits, is held, frozen or halted, and nothing was done now. Then no decision depends on the time, on
// the forge or on checks.
func (s *Status) Settled() bool {
	d, r := &s.Decision, &s.Decision.Record
	waits := s.due || s.Site != nil || s.Foreign != "" || d.WaitsFor != "" || !d.Next.IsZero() ||
		len(d.Freezes)+len(d.Frozen)+len(d.LeftOut)+len(d.Silent) > 0
	held := r.Halt != nil || r.Rollback != nil || r.Request != nil || r.Opened != nil || len(r.Holds) > 0
	acts := slices.ContainsFunc(d.Actions, func(a rollout.Action) bool { return a.Kind != rollout.Nothing })
	return !waits && !held && !acts && len(s.Done)+len(s.Refused) == 0
}

// Plan is what a promotion would do to an environment.
type Plan struct {
	// Tree that an approval is about.
	Tree string `json:"tree"`
	// Clusters that would change.
	Clusters []string `json:"clusters,omitempty"`
	// Waves in which they would change.
	Waves []rollout.Wave `json:"-"`
	// Added is the number of objects that it adds.
	Added int `json:"added"`
	// Changed is the number of objects that it changes.
	Changed int `json:"changed"`
	// Removed is the number of objects that it removes.
	Removed int `json:"removed"`
	// Commits are the ids and subjects of the commits that it brings, newest first.
	Commits []string `json:"commits,omitempty"`
	// Changes are the changes of objects; nil unless the request has a Differ, and if that returns nil.
	Changes *diff.ChangeSet `json:"-"`
}

// Look makes one pass over the environments, in the order of the graph, but those first that a command freezes or
// halts. It reads what they run, applies commands, decides, stores the record and carries out the decision. Every step
// is idempotent; compare-and-swap decides between two concurrent calls. An error of one environment, such as a
// *MovedError, does not stop the others: Look returns the statuses of the other environments and joins all errors. If
// the error came after a freeze or a halt was stored, the status of that environment is among them.
func Look(ctx context.Context, h *hydrate.Hydrator, r Request) ([]Status, error) {
	p, err := newPass(ctx, h, r)
	if err != nil {
		return nil, err
	}
	defer p.close()
	var out []Status
	var failed []error
	order := slices.Clone(p.fleet.Spec.Environments)
	slices.SortStableFunc(order, func(a, b fleet.Environment) int { return stopsFirst(r, a, b) })
	for _, e := range order {
		if len(e.After) == 0 || incoming.AtHome(p.fleet, e.Name, p.refs) != "" || len(r.Environments) > 0 && !slices.Contains(r.Environments, e.Name) {
			continue
		}
		st, err := p.environment(ctx, e)
		if st != nil {
			out = append(out, *st)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("environment %s: %w", e.Name, err))
			if ctx.Err() != nil {
				break
			}
		}
	}
	place := func(s Status) int {
		return slices.IndexFunc(p.fleet.Spec.Environments,
			func(e fleet.Environment) bool { return e.Name == s.Environment })
	}
	slices.SortStableFunc(out, func(a, b Status) int { return place(a) - place(b) })
	return out, errors.Join(failed...)
}

// Run looks at all environments until nothing more is due. It looks again at a branch that somebody else moved
// meanwhile. An environment that was to stop or to go back stays as it is if that was refused.
func Run(ctx context.Context, h *hydrate.Hydrator, r Request) ([]Status, error) {
	const most = 40
	var all []Status
	var failed error
	done, refused, commands := map[string][]string{}, map[string][]string{}, r.Commands
	for range most {
		var list []Status
		if list, failed = Look(ctx, h, r); failed != nil && len(list) == 0 || ctx.Err() != nil {
			if _, moved := errors.AsType[*MovedError](failed); moved && !r.DryRun && ctx.Err() == nil {
				continue
			}
			return all, errors.Join(failed, ctx.Err())
		}
		all = list
		_, more := errors.AsType[*MovedError](failed)
		if !more {
			r.Commands = nil // the record has them; where a branch moved, their IDs keep them from being applied twice
		}
		for i := range list {
			e := &list[i]
			if e.stays {
				r.stay = append(r.stay, e.Environment)
			}
			more = more || len(e.Done) > 0
			done[e.Environment] = append(done[e.Environment], e.Done...)
			refused[e.Environment] = append(refused[e.Environment], e.Refused...)
		}
		if !more || r.DryRun {
			break
		}
	}
	for i := range all {
		all[i].Done, all[i].Refused = done[all[i].Environment], refused[all[i].Environment]
		if len(all[i].Done)+len(all[i].Refused) == 0 && failed == nil {
			all[i].Done = all[i].withoutMoves(commands)
		}
	}
	return all, failed
}

// hashText returns a hash as text, and "" for the zero hash.
func hashText(h gitstore.Hash) string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}
