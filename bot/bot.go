// Package bot executes the tasks of merge requests and branches: reviews, previews, hydrations, commands and
// promotions.
//
// The bot is level-triggered: a hint names a merge request or a branch, and the bot reads its current state from the
// forge and from Git. Every action is idempotent, so the bot may process a hint twice. The package knows forges by
// their roles and repositories by the roles of a Workspace; it opens no repository and owns no queue.
//
// A Bot lives as long as the process and owns what tasks remember: what they saw of merge requests (headStates), of
// statuses (statuses), of the lists of merge requests (listings) and of other fleets (uses, followers, dependents). All
// of it can be lost; then a task does its work once more. What must not be lost is on the forge, in Git, or in Verdicts
// and Outcomes, which all replicas share.
//
// A task processes one hint. It has what every kind needs: the repository, its settings and its forge, which skips
// statuses that a commit has. Each kind has a type of its own around it:
//
//   - reviewTask: one merge request, in its own fleet and, with fleetReviews, in the fleets that take content from it
//   - trunkTask: hydrates the trunk and evaluates promotions; a reporter shows the result in statuses and comments
//   - follower: moves the pins of the repositories that a fleet follows
//   - commandTask: executes the commands of a comment, and answers its questions
//   - sweepTask: enqueues hints for what changed without a webhook
//
// Whoever writes the status of a head goes through headStatus, because merge requests with the same head share it, and
// whoever writes a comment through commenting, because tasks of one merge request can run at the same time.
//
// The package is not API: it can change in every release.
package bot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/report"
)

// Forge lists the roles of a forge that the bot uses.
type Forge interface {
	publish.Forge
	forge.Reactions
	forge.Recent
	forge.Requests
	around
}

// around is what a forge knows beside merge requests.
type around interface {
	forge.People
	forge.Links
}

// Workspace is a fetched repository, split into roles. It belongs to one task.
type Workspace struct {
	Commits      Commits
	Fleets       Fleets
	Reviews      Reviews
	Triage       Triage // nil: merge requests get neither labels nor reviewers
	Branches     Branches
	Environments Environments
	Questions    Questions
	Follows      Follows
	Artifacts    Artifacts // nil: nothing is published
	Close        func()
}

// Commits reads the history of the repository.
type Commits interface {
	// Revision fetches a ref, a branch or a commit, and returns the commit. A task reads the refs as one moment has
	// them, until it pushes. also names refs that the task reads next, to fetch them with the same request.
	Revision(ctx context.Context, rev string, also ...string) (gitstore.Commit, error)
	// Trunk fetches the commit of the default branch, asks named for a branch by that commit, and returns the branch's
	// commit; that of the default branch if named returns "" or there is no such branch.
	Trunk(ctx context.Context, named func(ctx context.Context, head gitstore.Commit) string) (gitstore.Commit, error)
	MergeBase(ctx context.Context, a, b gitstore.Commit) (gitstore.Commit, error)
	// Line returns a commit and its first-parent ancestors, newest first.
	Line(ctx context.Context, tip gitstore.Commit, most int) ([]gitstore.Commit, error)
	// Missed returns commits of the trunk before its tip that the environments without `after` do not run yet, oldest
	// first.
	Missed(ctx context.Context, tip gitstore.Commit, most int) ([]gitstore.Commit, error)
}

// Fleets reads the fleets of commits of the trunk. Only worker processes read commits of merge requests and of other
// branches.
type Fleets interface {
	Fleet(ctx context.Context, tree gitstore.Hash) (*fleet.Fleet, fleet.Problems, error)
	// Readable returns the newest commit, not after this one, whose fleet can be read.
	Readable(ctx context.Context, tip gitstore.Commit) (gitstore.Commit, *fleet.Fleet, error)
	// HasFleet reports whether a tree has a sluice.yaml. It reads names but no content, so it is safe for any tree.
	HasFleet(ctx context.Context, tree gitstore.Hash) (bool, error)
	// Changed lists the files that differ between two trees. It reads names and no content, so it may be called for any
	// trees.
	Changed(ctx context.Context, from, to gitstore.Hash) ([]string, error)
	// Affected returns the targets that a change of the trunk can affect.
	Affected(ctx context.Context, from, to gitstore.Hash) ([]fleet.AffectedTarget, error)
}

// Settings of a repository.
type Settings struct {
	Context    string // of commit statuses. Default: sluice
	Drafts     bool   // review drafts too
	Labels     []string
	SkipLabels []string
	Previews   bool
	PreviewCap int // targets
	PerPush    int // refs
	Checks     bool
	// Deployments shows on the forge which commits environments run.
	Deployments bool
}

// Config of a Bot.
type Config struct {
	Forges   func(name string) (Forge, bool)
	Open     func(ctx context.Context, p hint.Place) (*Workspace, error)
	Settings func(hint.Place) Settings
	Enqueue  func(ctx context.Context, h hint.Hint) error
	// PlaceOf returns the configured repository that a Git URL names, or false. If PlaceOf is nil, no URL names one.
	PlaceOf func(address string) (hint.Place, bool)
	// Unpark enqueues the parked hints of a merge request again and returns their number. Nil: there are none.
	Unpark func(ctx context.Context, p hint.Place, number int) (int, error)
	// Cancel removes the waiting review of a merge request and reports whether there was one. Nil: there is none.
	Cancel  func(ctx context.Context, p hint.Place, number int) (bool, error)
	Reports Reports // nil: nobody keeps the reports
	// Verdicts are shared by all replicas. Nil: this process is the only one.
	Verdicts Verdicts
	Claims   Claims // nil: this process is the only one that writes comments
	// Outcomes are shared by all replicas, and outlive them. Nil: this process keeps its own.
	Outcomes Outcomes
	// EnvironmentPage returns the address of the page of an environment, or "". Nil: there are no pages.
	EnvironmentPage func(p hint.Place, environment string) string
	Found           func(ctx context.Context, p hint.Place, f Findings) // called by each task of a trunk; nil: nobody listens
	Clock           func() time.Time
	Log             *slog.Logger
	Observe         func(kind, result string, took time.Duration) // nil: no metrics
}

// Reports keep what people can open beside the comment of a merge request. An error never stops a review: the bot logs
// it.
type Reports interface {
	// Keep stores the report of a reviewed head in a fleet, which can be that of another repository, and returns the
	// address of its page; "" if it has none.
	Keep(p, fleet hint.Place, mr *forge.MergeRequest, r *report.Review) (address string, err error)
	// Note records why the head of a merge request has no review.
	Note(p hint.Place, mr *forge.MergeRequest, why string) error
	// Closed records that a merge request is no longer open.
	Closed(p hint.Place, mr *forge.MergeRequest) error
	// Gone records that the forge no longer has a merge request.
	Gone(p hint.Place, number int) error
	// OpenRequests lists the numbers of the merge requests that are recorded as open.
	OpenRequests(p hint.Place) []int
}

// Bot works on hints. It is safe for concurrent use; two tasks of one repository at the same time only duplicate work.
type Bot struct {
	Config
	// done maps a subject, such as a trunk, to the state that a task last worked on, so that a sweep does not repeat
	// the work.
	done     *lru.Cache[string]
	statuses *statuses
	listings *listings
	// permissions of authors, for reviews.
	permissions *permissions
	// statusLocks are by place and head: merge requests with the same head share a status, which is the worst of their
	// verdicts. A task has the lock while it reads the verdicts and writes the status.
	statusLocks *locks
	// commentLocks are by place and number: see commenting.
	commentLocks *locks
	replicas     bool // other processes may write statuses of the same commits
	heads        *headStates
	scopes       *lru.Cache[*scope]      // of the last reviews, by place and number
	fleetScopes  *lru.Cache[*fleetScope] // of the last reviews for fleets, by place, number and fleet
	uses         *companions.Uses
	followers    *followers
	dependents   *companions.Dependents
	depended     *companions.Memory    // of the last reviews, by headKey
	turns        *lru.Cache[time.Time] // when comments were processed first, by place, number and comment
	refusals     *lru.Cache[time.Time] // of stops for lack of a right; see Urgency
}

// maxRemembered bounds the states that a Bot remembers. An evicted state costs the work once more.
const maxRemembered = 40_000

// New returns a Bot.
func New(c Config) *Bot {
	if c.Observe == nil {
		c.Observe = func(string, string, time.Duration) {}
	}
	if c.Found == nil {
		c.Found = func(context.Context, hint.Place, Findings) {}
	}
	if c.Unpark == nil {
		c.Unpark = func(context.Context, hint.Place, int) (int, error) { return 0, nil }
	}
	if c.EnvironmentPage == nil {
		c.EnvironmentPage = func(hint.Place, string) string { return "" }
	}
	if c.PlaceOf == nil {
		c.PlaceOf = func(string) (hint.Place, bool) { return "", false }
	}
	if c.Reports == nil {
		c.Reports = noReports{}
	}
	if c.Cancel == nil {
		c.Cancel = func(context.Context, hint.Place, int) (bool, error) { return false, nil }
	}
	replicas := c.Verdicts != nil
	if !replicas {
		c.Verdicts = newOwnVerdicts()
	}
	if c.Outcomes == nil {
		c.Outcomes = newOwnOutcomes()
	}
	return &Bot{
		Config: c, replicas: replicas,
		done: lru.New[string](maxRemembered), heads: newHeadStates(), turns: lru.New[time.Time](maxRemembered),
		refusals: lru.New[time.Time](maxRemembered),
		scopes:   lru.New[*scope](maxScopes), fleetScopes: lru.New[*fleetScope](maxScopes),
		depended: companions.NewMemory(),
		statuses: newStatuses(c.Clock), listings: newListings(c.Clock), permissions: newPermissions(c.Clock),
		statusLocks: newLocks(), commentLocks: newLocks(),
		uses: companions.NewUses(), followers: newFollowers(), dependents: companions.NewDependents(),
	}
}

// ErrUnknownForge classifies a hint for a forge or a repository that is not configured.
var ErrUnknownForge = errors.New("not in the configuration")

// ErrNoFleet classifies a hint for a repository whose trunk has no sluice.yaml. The bot did nothing.
var ErrNoFleet = errors.New("the repository has no sluice.yaml")

// Later is an error that asks for a retry at a given time. It does not count as a failure.
type Later struct {
	Until time.Time
	Err   error
}

// Error names the reason and the time.
func (l *Later) Error() string {
	return fmt.Sprintf("retry at %s: %v", l.Until.UTC().Format(time.RFC3339), l.Err)
}

// Unwrap returns the reason.
func (l *Later) Unwrap() error { return l.Err }

// Do processes a hint.
func (b *Bot) Do(ctx context.Context, h hint.Hint) error {
	f, ok := b.Forges(h.Place.Forge())
	if !ok {
		return fmt.Errorf("%s: %w", h.Place, ErrUnknownForge)
	}
	began := b.Clock()
	log := b.Log.With("repository", h.Place.String(), "task", string(h.Kind))
	if h.ID != "" {
		log = log.With("delivery", h.ID)
	}
	t := b.newTask(f, h.Place, h, log)
	defer t.close()
	err := t.do(ctx)
	result := "ok"
	later, wait := errors.AsType[*Later](err)
	switch {
	case wait:
		result = "none"
		t.log.Info("the task is retried later", "until", later.Until, "reason", later.Err)
	case errors.Is(err, ErrNoFleet):
		result = "none"
	case ctx.Err() != nil:
		result = "none" // a newer hint, a command or the end of the process stopped the task; the queue repeats it
	case err != nil:
		result = "error"
	}
	b.Observe(string(h.Kind), result, b.Clock().Sub(began))
	return err
}

// selects reports whether the settings ask for a review of a merge request.
func (s Settings) selects(mr *forge.MergeRequest) bool {
	if mr.Draft && !s.Drafts {
		return false
	}
	has := func(label string) bool { return slices.Contains(mr.Labels, label) }
	return !slices.ContainsFunc(s.SkipLabels, has) && (len(s.Labels) == 0 || slices.ContainsFunc(s.Labels, has))
}

// previewPrefix is the prefix of the branches of previews.
const previewPrefix = "sluice/preview/"

func previewBranch(number int) string { return previewPrefix + strconv.Itoa(number) }
