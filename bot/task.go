package bot

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/bot/publish"
)

// task is the processing of one hint: what all kinds of tasks share. Each kind embeds it in a type of its own.
type task struct {
	*Bot
	forge    statusForge
	place    hint.Place
	hint     hint.Hint
	settings Settings
	log      *slog.Logger
	space    *Workspace // nil until open
	trunkIs  string     // name of the trunk, for the whole task; "" is not known yet
	moves    moves      // what moves of trunks change, as far as the task knows it
}

// newTask returns the task of a hint in the repository of a forge.
func (b *Bot) newTask(f Forge, p hint.Place, h hint.Hint, log *slog.Logger) *task {
	return &task{Bot: b, forge: statusForge{f, p, b.statuses}, place: p, hint: h, settings: b.Settings(p), log: log}
}

func (t *task) do(ctx context.Context) error {
	switch t.hint.Kind {
	case hint.Review:
		return t.review(ctx, t.hint.Number)
	case hint.Trunk:
		return (&trunkTask{task: t}).run(ctx)
	case hint.Comment:
		return (&commandTask{task: t}).comment(ctx)
	case hint.Question:
		return (&commandTask{task: t}).question(ctx)
	case hint.Group:
		return t.group(ctx)
	case hint.Sweep:
		return (&sweepTask{task: t}).run(ctx)
	case hint.Follow:
		return (&follower{trunkTask: trunkTask{task: t}}).run(ctx)
	}
	return fmt.Errorf("unknown kind of hint %q", t.hint.Kind)
}

func (t *task) close() {
	if t.space != nil {
		t.space.Close()
	}
}

// open opens the repository if it is not open.
func (t *task) open(ctx context.Context) error {
	if t.space != nil {
		return nil
	}
	var err error
	if t.space, err = t.Open(ctx, t.place); err != nil {
		return fmt.Errorf("open %s: %w", t.place, err)
	}
	return nil
}

// at returns a task for another repository.
func (t *task) at(p hint.Place) (*task, bool) {
	f, ok := t.Forges(p.Forge())
	if !ok {
		return nil, false
	}
	return t.newTask(f, p, hint.Hint{}, t.log), true
}

// seen reports whether a task already worked on this state of a subject.
func (t *task) seen(subject, state string) bool {
	have, ok := t.done.Get(t.subject(subject))
	return ok && have == state
}

// recall returns the state of a subject that a task last worked on; "" if it is unknown.
func (t *task) recall(subject string) string {
	have, _ := t.done.Get(t.subject(subject)) // "" is what the caller expects for an unknown subject
	return have
}

func (t *task) remember(subject, state string) { t.done.Add(t.subject(subject), state) }

func (t *task) subject(name string) string { return t.place.String() + " " + name }

// trunkKey is the subject under which a Bot caches the name of a repository's trunk.
const trunkKey = "trunk branch"

// trunkBranch returns the name of the trunk; "" if it is unknown. In a repository without a fleet, it is the branch
// that fleets take content from.
func (t *task) trunkBranch(ctx context.Context) string {
	name := t.ownTrunk(ctx)
	if uses := t.uses.Of(t.place); name == "" && len(uses) > 0 {
		return uses[0].Branch
	}
	return name
}

func (t *task) ownTrunk(ctx context.Context) string {
	if t.space == nil {
		return t.recall(trunkKey)
	}
	if t.trunkIs != "" {
		return t.trunkIs
	}
	tip, err := t.space.Commits.Revision(ctx, "HEAD")
	if err != nil {
		return t.recall(trunkKey)
	}
	f, _, err := t.space.Fleets.Fleet(ctx, tip.Tree)
	if err != nil {
		if _, f, err = t.space.Fleets.Readable(ctx, tip); err != nil {
			return t.recall(trunkKey)
		}
	}
	t.remember(trunkKey, f.Spec.Trunk)
	t.trunkIs = f.Spec.Trunk
	return f.Spec.Trunk
}

// contextFor returns the context of the status for merge requests into a branch.
func (t *task) contextFor(ctx context.Context, target string) string {
	return publish.ContextFor(t.context(), t.trunkBranch(ctx), target)
}

// context is that of the commit statuses.
func (t *task) context() string {
	if t.settings.Context != "" {
		return t.settings.Context
	}
	return "sluice"
}

// statusContext returns the context of the status with a verdict for merge requests into a branch. A repository that is
// a fleet itself has a status of its own beside that of other fleets.
func (t *task) statusContext(ctx context.Context, target, verdict string) string {
	if verdict == verdictOwn {
		return t.contextFor(ctx, target)
	}
	return t.contextFor(ctx, target) + "/" + verdict
}
