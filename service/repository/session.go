// Package repository opens the repositories of a service and executes one task in each: reviews, hydrations, promotions
// and the answers to questions.
//
// A Session is a session (package hydrate/session) with the credentials and the forge of its repository. The bot
// declares the roles that it uses. The package names no concrete forge.
//
// The package is not API: it can change in every release.
package repository

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-gitops/sluice/bot"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate"
	"github.com/sluice-gitops/sluice/hydrate/artifacts"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/hydrate/session"
	"github.com/sluice-gitops/sluice/internal/lru"
	"github.com/sluice-gitops/sluice/promote"
	"github.com/sluice-gitops/sluice/renderer"
	"github.com/sluice-gitops/sluice/renderer/worker"
	"github.com/sluice-gitops/sluice/review"
	"github.com/sluice-gitops/sluice/service/announce"
	"github.com/sluice-gitops/sluice/service/check"
	"github.com/sluice-gitops/sluice/service/follow"
	"github.com/sluice-gitops/sluice/service/mirrors"
	"github.com/sluice-gitops/sluice/service/promotions"
)

// Repository is a repository on a forge, as the configuration of the service describes it.
type Repository struct {
	Place hint.Place
	URL   string // clone URL
	Forge forge.Forge
	// Credential returns the credential for a repository of the forge, for pushing or reading.
	Credential func(ctx context.Context, repo forge.Repository, push bool) (gitstore.Auth, error)
	// Output returns the repository on the forge that an address of spec.output.repository names, if the
	// configuration allows branches there; otherwise the error wraps bot.ErrRefused. For an allowed address
	// elsewhere, onForge is false and the repository is the source.
	Output   func(address string) (repo forge.Repository, onForge bool, err error)
	Announce announce.Func // called after branches moved; nil: no notifications
	PerPush  int           // refs in one push; 0: all
	// Publishes reports whether the configuration allows artifacts below an address of spec.output.oci.
	Publishes func(address string) bool
	// Protection reports which branches the forge protects. If it is not nil, nothing is promoted while somebody
	// other than Sluice can write Sluice's branches.
	Protection forge.Protection
}

// Observer measures sessions.
type Observer struct {
	Targets func(rendered, reused int)                     // of one environment
	Pushed  func(results []gitstore.MoveResult, err error) // one push
	// artifacts of one task
	Published func(*artifacts.Result)
}

// Renderers returns the renderer for the content of a repository's trunk or of its merge requests. These two, and
// different repositories, share no process.
type Renderers func(p hint.Place, trust worker.Trust) renderer.Renderer

// Config of the sessions of a service.
type Config struct {
	Runtime       session.Runtime
	Renderers     Renderers
	ReviewWorkers review.Workers
	Jobs          int             // targets rendered at the same time
	Signer        gitstore.Signer // signs rendered commits; nil: unsigned commits
	Mirrors       *mirrors.Mirrors
	Verdicts      *review.Cache // of promotions
	Authors       *promotions.Authors
	Protections   *Protections
	Outputs       *Outputs
	Statuses      *Statuses
	Checks        *check.Client
	Checked       *lru.Cache[hydrate.EnvironmentResult] // nil: every task renders what waits for a promotion
	Candidates    *promote.Candidates                   // nil: as Checked
	Observe       Observer
}

// Session is a repository of a service, opened for one task.
type Session struct {
	*session.Session
	config  Config
	repo    Repository
	pushers map[gitstore.Hash]*session.Session // keyed by the tree whose fleet names the output repository
	seen    atomic.Pointer[gitstore.Commit]    // the trunk as it was fetched last; nil before the first fetch
	release func()
}

// Open opens the clone of a repository. Close releases it. A clone that cannot be opened is deleted before the next
// use.
func (c Config) Open(ctx context.Context, r Repository) (*Session, error) {
	auth, err := r.Credential(ctx, r.Place.Repo(), false)
	if err != nil {
		return nil, fmt.Errorf("credential for %s: %w", r.Place, err)
	}
	folder, release, err := c.Mirrors.Acquire(r.Place, c.Runtime.Clock())
	if err != nil {
		return nil, err
	}
	runtime := c.Runtime
	runtime.Git = auth
	opened, err := session.Open(ctx, runtime, session.Options{
		Repo: r.URL, Jobs: c.Jobs,
		Renderer: c.Renderers(r.Place, worker.Trusted), Signer: c.Signer, Mirror: folder, OneListing: true,
	}, nil)
	if err != nil {
		release()
		c.Mirrors.Discard(r.Place)
		return nil, fmt.Errorf("mirror of %s: %w", r.Place, err)
	}
	return &Session{
		Session: opened, config: c, repo: r, pushers: map[gitstore.Hash]*session.Session{},
		release: release,
	}, nil
}

// Close releases the clone.
func (w *Session) Close() {
	w.Session.Close()
	w.release()
}

func (w *Session) now() time.Time { return w.config.Runtime.Clock() }

// Revision implements bot.Commits.
func (w *Session) Revision(ctx context.Context, rev string, also ...string) (gitstore.Commit, error) {
	return w.Store.FetchRevision(ctx, rev, also...)
}

// Trunk implements bot.Commits.
func (w *Session) Trunk(ctx context.Context, named func(ctx context.Context,
	head gitstore.Commit) string,
) (gitstore.Commit, error) {
	tip, err := gitstore.FetchTrunk(ctx, w.Store, named)
	if err == nil {
		w.seen.Store(&tip)
	}
	return tip, err
}

// pushing returns a session whose branches are in the output repository of a tree's fleet, with the credential that
// may push there.
func (w *Session) pushing(ctx context.Context, tree gitstore.Hash) (*session.Session, error) {
	if s := w.pushers[tree]; s != nil {
		return s, nil
	}
	output, err := w.outputOf(ctx, tree)
	if err != nil {
		return nil, err
	}
	auth, err := w.repo.Credential(ctx, output, true)
	if err != nil {
		return nil, err
	}
	s, err := w.WithGit(auth).WithRemote(ctx, gitstore.Commit{Tree: tree}, "")
	if err != nil {
		return nil, err
	}
	source, err := w.SourceRemote("") // reads the source with the credential for reading
	if err != nil {
		return nil, err
	}
	s = s.WithSource(source).WithBranches(observedBranches{s.Branches, w.config.Observe})
	if w.repo.Announce != nil {
		s = announce.Pushes(ctx, s, tree, w.repo.Announce)
	}
	w.pushers[tree] = s
	return s, nil
}

// pushingTrunk calls pushing for the trunk.
func (w *Session) pushingTrunk(ctx context.Context) (*session.Session, error) {
	tree, err := w.trunkTree(ctx)
	if err != nil {
		return nil, err
	}
	return w.pushing(ctx, tree)
}

// listingAge is how long a hydration that moves nothing may take for promotions to read the refs that it read. Whatever
// they read, a push compares with the present refs.
const listingAge = 10 * time.Second

// Hydrate renders a commit and moves branches.
func (w *Session) Hydrate(ctx context.Context, r hydrate.Request) (*hydrate.Result, error) {
	s, err := w.pushing(ctx, r.Commit.Tree)
	if err != nil {
		return nil, err
	}
	r.Checked = w.config.Checked
	began := w.now()
	result, err := s.Hydrate(ctx, r)
	if w.now().Sub(began) > listingAge {
		gitstore.Relist(w.Store)
	}
	if result != nil {
		for i := range result.Environments {
			w.config.Observe.Targets(result.Environments[i].Rendered, result.Environments[i].Reused)
		}
	}
	return result, err
}

// Running returns what each environment runs.
func (w *Session) Running(ctx context.Context, tree gitstore.Hash) ([]promote.Running, error) {
	s, err := w.pushing(ctx, tree)
	if err != nil {
		return nil, err
	}
	return promote.ReadRunning(ctx, s.Hydrator, tree)
}

// Missed returns commits of the trunk before its tip that the environments without `after` do not run yet, oldest
// first.
func (w *Session) Missed(ctx context.Context, tip gitstore.Commit, most int) ([]gitstore.Commit, error) {
	s, err := w.pushing(ctx, tip.Tree)
	if err != nil {
		return nil, err
	}
	return promote.Missed(ctx, s.Hydrator, tip, most)
}

// Line returns a commit and its first-parent ancestors, newest first.
func (w *Session) Line(ctx context.Context, tip gitstore.Commit, most int) ([]gitstore.Commit, error) {
	return promote.Line(ctx, w.Hydrator, tip, most)
}

// DropPreview deletes the branch of a preview. It is a bot.ErrRefused if the server does not allow it.
func (w *Session) DropPreview(ctx context.Context, branch string) error {
	s, err := w.pushingTrunk(ctx)
	if err != nil {
		return err
	}
	if err = compare.DropPreview(ctx, s.Branches, branch); errors.Is(err, gitstore.ErrRefused) {
		return fmt.Errorf("%w: %w", bot.ErrRefused, err)
	}
	return err
}

// Previews lists the branches of previews.
func (w *Session) Previews(ctx context.Context, prefix string) ([]string, error) {
	s, err := w.pushingTrunk(ctx)
	if err != nil {
		return nil, err
	}
	return compare.Previews(ctx, s.Branches, prefix)
}

// trunkTree returns the tree of the trunk's tip, or of the newest commit before it whose fleet can be read. Only this
// tree decides where branches are: anybody may be able to push to another branch, and a mistake on the trunk must not
// move the output elsewhere.
func (w *Session) trunkTree(ctx context.Context) (gitstore.Hash, error) {
	tip, _, err := w.TrunkTip(ctx)
	if err == nil {
		w.seen.Store(&tip)
	}
	return tip.Tree, err
}

// Output returns the repository of the rendered branches, and whether it is on the forge, for links and statuses: by
// the trunk as the task saw it last.
func (w *Session) Output(ctx context.Context) (forge.Repository, bool, error) {
	tree, err := w.seenTrunk(ctx)
	if err != nil {
		return w.repo.Place.Repo(), false, err
	}
	return w.outputPlace(ctx, tree)
}

// seenTrunk is trunkTree for the trunk as the task saw it last: it asks the server only if the task has not seen it.
func (w *Session) seenTrunk(ctx context.Context) (gitstore.Hash, error) {
	if seen := w.seen.Load(); seen != nil {
		if tip, _, err := w.Readable(ctx, *seen); err == nil {
			return tip.Tree, nil
		}
	}
	return w.trunkTree(ctx)
}

// outputOf returns the repository on the forge whose credential writes the branches of a fleet.
func (w *Session) outputOf(ctx context.Context, tree gitstore.Hash) (forge.Repository, error) {
	repo, _, err := w.outputPlace(ctx, tree)
	return repo, err
}

func (w *Session) outputPlace(ctx context.Context, tree gitstore.Hash) (repo forge.Repository, onForge bool,
	err error,
) {
	f, _, err := w.Fleet(ctx, tree)
	if _, broken := errors.AsType[fleet.Problems](err); err != nil && !broken {
		return w.repo.Place.Repo(), false, err
	}
	if f == nil || f.Spec.Output.Repository == "" {
		return w.repo.Place.Repo(), true, nil
	}
	return w.repo.Output(cmp.Or(f.OutputRegistry(), f.Spec.Output.Repository))
}

// HasFleet reports whether a tree has a sluice.yaml.
func (w *Session) HasFleet(ctx context.Context, tree gitstore.Hash) (bool, error) {
	_, err := w.Store.Snapshot(ctx, tree).Entry(fleet.File)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Fleets implements bot.Fleets.
type Fleets struct{ *Session }

// Changed lists the files that differ between two trees, by path. It reads tree objects and no file.
func (f Fleets) Changed(ctx context.Context, from, to gitstore.Hash) ([]string, error) {
	changes, err := f.Store.Changes(ctx, from, to)
	paths := make([]string, len(changes))
	for i, c := range changes {
		paths[i] = c.Path
	}
	return paths, err
}

// Branches implements bot.Branches.
type Branches struct{ *Session }

// Refs implements bot.Branches.
func (b Branches) Refs(ctx context.Context) (string, error) {
	source, err := b.SourceRemote("")
	if err != nil {
		return "", err
	}
	refs, err := source.List(ctx, "HEAD", "")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		_, _ = fmt.Fprintf(sum, "%s %s\n", refs[name], name) // a hash returns no error
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// observedBranches measures pushes.
type observedBranches struct {
	gitstore.Branches
	observe Observer
}

// Push implements gitstore.Branches.
func (b observedBranches) Push(ctx context.Context, w *gitstore.Writer, moves []gitstore.Move,
	o gitstore.PushOptions,
) ([]gitstore.MoveResult, error) {
	results, err := b.Branches.Push(ctx, w, moves, o)
	b.observe.Pushed(results, err)
	return results, err
}

// Follower returns what moves the pins of the fleet. It belongs to one task.
func (w *Session) Follower() *follow.Follower {
	return follow.New(w.Session, w.config.Signer, func(ctx context.Context) (gitstore.Auth, error) {
		return w.repo.Credential(ctx, w.repo.Place.Repo(), true)
	})
}
