// Package bot does what a merge request or a branch asks for: reviews, previews, hydrations, commands. It works level-triggered:
// a task says where to look, never what to find, and every action may run twice. It knows forges by their roles and
// repositories by what a Workspace can do; who wires them, and who hands out tasks, is elsewhere.
package bot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
	"github.com/sluice-gitops/sluice/bot/report"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/promotion"
)

// Forge is what the bot needs of a forge.
type Forge interface {
	publish.Forge
	forge.Reactions
	forge.Recent
	Access(ctx context.Context, repo forge.Repository, login string) (forge.Access, error)
	InTeam(ctx context.Context, repo forge.Repository, team, login string) (bool, error)
}

// Workspace is a repository that was fetched. It belongs to one task at a time.
type Workspace interface { //nolint:interfacebloat // one repository, all that is done with it
	// Revision fetches a ref, a branch or a commit, and gives the commit.
	Revision(ctx context.Context, rev string) (gitstore.Commit, error)
	MergeBase(ctx context.Context, a, b gitstore.Commit) (gitstore.Commit, error)
	Fleet(ctx context.Context, tree gitstore.Hash) (*fleet.Fleet, fleet.Problems, error)
	// Readable is the newest commit up to this one whose fleet can be read.
	Readable(ctx context.Context, tip gitstore.Commit) (gitstore.Commit, *fleet.Fleet, error)
	// Review compares and judges by the policy of a tree. Nothing is fetched with credentials for an untrusted change.
	Review(ctx context.Context, r ReviewRequest) (*report.Review, *compare.PreviewResult, error)
	Hydrate(ctx context.Context, r hydrate.Request) (*hydrate.Result, error)
	Running(ctx context.Context, tree gitstore.Hash) ([]promotion.Running, error)
	// Output is the repository that the branches go to.
	Output(ctx context.Context) (forge.Repository, error)
	// Line is a commit and those before it, newest first.
	Line(ctx context.Context, tip gitstore.Commit, most int) ([]gitstore.Commit, error)
	// Missed lists the trunk's commits before its tip that environments which follow it do not run yet, oldest first.
	Missed(ctx context.Context, tip gitstore.Commit, most int) ([]gitstore.Commit, error)
	DropPreview(ctx context.Context, branch string) error
	// Previews lists the branches that begin with a prefix, where previews are.
	Previews(ctx context.Context, prefix string) ([]string, error)
	// Answer is the Markdown text for a question: status, diff, explain.
	Answer(ctx context.Context, o Order) (string, error)
	// Promotions looks at what promotions wait for, and does what is due.
	Promotions(ctx context.Context, trunk gitstore.Commit) ([]promotion.Status, error)
	// Order carries out a command on an environment, if the trunk's sluice.yaml lets the person. ErrRefused says why not.
	Order(ctx context.Context, o Order) (string, error)
	Close()
}

// ReviewRequest asks a Workspace for a review.
type ReviewRequest struct {
	Base, Head gitstore.Commit
	Policy     gitstore.Hash // tree whose policy judges: the target branch's
	Trusted    bool
	Preview    *compare.Preview
}

// Workspaces opens repositories.
type Workspaces interface {
	Open(ctx context.Context, p hint.Place) (Workspace, error)
}

// Settings are a repository's.
type Settings struct {
	Context    string // of commit statuses. Default: sluice
	Drafts     bool   // review drafts too
	Labels     []string
	SkipLabels []string
	Previews   bool
	PreviewCap int // targets
	PerPush    int // refs
	Checks     bool
}

// Forges are the configured forges by name.
type Forges interface {
	Forge(name string) (Forge, bool)
}

// Config of a Bot.
type Config struct {
	Forges     Forges
	Workspaces Workspaces
	Settings   func(hint.Place) Settings
	Again      func(ctx context.Context, t hint.Hint) error                      // hands out another task
	Unpark     func(ctx context.Context, p hint.Place, number int) (int, error)  // hands out again what failed too often for a merge request; nil: nothing does
	Cancel     func(ctx context.Context, p hint.Place, number int) (bool, error) // takes back a review that waits, and says whether one did; nil: none does
	Clock      func() time.Time
	Log        *slog.Logger
	Observe    func(what, result string, took time.Duration) // nil: nobody counts
}

// Bot does tasks. Safe for concurrent use; two tasks of one place at once only do the same work twice.
type Bot struct {
	Config
	mu     sync.Mutex
	done   map[string]string // what a task last worked on, so that a sweep does not do it again
	before map[string]string // what done was until it was full: what is not asked for from here is forgotten

	statuses *statuses
}

// remembered is how many states each of the two maps holds: merge requests come and go as long as the service runs.
const remembered = 20_000

// New makes a Bot.
func New(c Config) *Bot {
	if c.Observe == nil {
		c.Observe = func(string, string, time.Duration) {}
	}
	if c.Unpark == nil {
		c.Unpark = func(context.Context, hint.Place, int) (int, error) { return 0, nil }
	}
	if c.Cancel == nil {
		c.Cancel = func(context.Context, hint.Place, int) (bool, error) { return false, nil }
	}
	return &Bot{Config: c, done: map[string]string{}, statuses: &statuses{clock: c.Clock, known: map[string]*commitStatuses{}}}
}

// ErrUnknownForge is a task for a forge that is not configured.
var ErrUnknownForge = errors.New("no such forge is configured")

// ErrNoFleet is a task for a repository whose trunk has no sluice.yaml: nothing was done, and nothing said.
var ErrNoFleet = errors.New("the repository is no fleet: it has no sluice.yaml")

// Later is an error that asks for another look at a time. It is no failure.
type Later struct {
	Until time.Time
	Err   error
}

// Error says why and until when.
func (l *Later) Error() string {
	return fmt.Sprintf("another look at %s: %v", l.Until.UTC().Format(time.RFC3339), l.Err)
}

// Unwrap gives the reason.
func (l *Later) Unwrap() error { return l.Err }

// Do does a task.
func (b *Bot) Do(ctx context.Context, t hint.Hint) error {
	f, ok := b.Forges.Forge(t.Place.Forge())
	if !ok {
		return fmt.Errorf("%s: %w", t.Place, ErrUnknownForge)
	}
	began := b.Clock()
	log := b.Log.With("repository", t.Place.String(), "task", string(t.Kind))
	if t.ID != "" {
		log = log.With("delivery", t.ID)
	}
	j := &job{Bot: b, forge: quiet{f, t.Place, b.statuses}, place: t.Place, task: t, settings: b.Settings(t.Place), log: log}
	defer j.close()
	var err error
	switch t.Kind {
	case hint.Review:
		err = j.review(ctx, t.Number)
	case hint.Trunk:
		err = j.trunk(ctx)
	case hint.Comment:
		err = j.comment(ctx)
	case hint.Group:
		err = j.group(ctx)
	case hint.Sweep:
		err = j.sweep(ctx)
	default:
		err = fmt.Errorf("there is no task %q", t.Kind)
	}
	result := "ok"
	later, wait := errors.AsType[*Later](err)
	switch {
	case wait:
		result = "none"
		j.log.Info("later", "until", later.Until, "why", later.Err)
	case errors.Is(err, ErrNoFleet):
		result = "none"
	case err != nil:
		result = "error"
	}
	b.Observe(string(t.Kind), result, b.Clock().Sub(began))
	return err
}

// job is one task being done.
type job struct {
	*Bot
	forge    quiet
	place    hint.Place
	task     hint.Hint
	settings Settings
	log      *slog.Logger
	space    Workspace
}

func (j *job) close() {
	if j.space != nil {
		j.space.Close()
	}
}

// open opens the repository once.
func (j *job) open(ctx context.Context) error {
	if j.space != nil {
		return nil
	}
	var err error
	if j.space, err = j.Workspaces.Open(ctx, j.place); err != nil {
		return fmt.Errorf("open %s: %w", j.place, err)
	}
	return nil
}

// seen says whether the same state was worked on already, and remember notes it.
func (j *job) seen(key, state string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	key = j.place.String() + " " + key
	have, ok := j.done[key]
	if !ok {
		if have, ok = j.before[key]; ok {
			j.keep(key, have)
		}
	}
	return ok && have == state
}

// recall gives what was worked on last; "" if that is not known.
func (j *job) recall(key string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	key = j.place.String() + " " + key
	if have, ok := j.done[key]; ok {
		return have
	}
	return j.before[key]
}

func (j *job) remember(key, state string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.keep(j.place.String()+" "+key, state)
}

// keep notes a state. Forgetting one costs the work once more, and does no harm. The caller holds the lock.
func (b *Bot) keep(key, state string) {
	if len(b.done) >= remembered {
		b.before, b.done = b.done, make(map[string]string, remembered)
	}
	b.done[key] = state
}

// wants says whether a merge request is one to review.
func (j *job) wants(mr *forge.MergeRequest) bool {
	if mr.Draft && !j.settings.Drafts {
		return false
	}
	has := func(label string) bool { return slices.Contains(mr.Labels, label) }
	return !slices.ContainsFunc(j.settings.SkipLabels, has) && (len(j.settings.Labels) == 0 || slices.ContainsFunc(j.settings.Labels, has))
}

const previews = "sluice/preview/"

func previewBranch(number int) string { return previews + strconv.Itoa(number) }
