package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/report"
)

const maxDependents = 10_000 // merge requests that others depend on

// dependents remember which merge requests depend on others, so that a change of one starts the reviews that show it. After a restart and in
// other replicas, the sweep finds such changes. dependents is safe for concurrent use.
type dependents struct {
	mu sync.Mutex
	of map[string]map[string]hint.Hint // merge request → reviews that show it
}

// add records that a review shows a merge request. At the limit, it forgets all: the sweep finds what it forgot.
func (d *dependents) add(shown reference, review hint.Hint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.of) >= maxDependents {
		clear(d.of)
	}
	if d.of[shown.key()] == nil {
		d.of[shown.key()] = map[string]hint.Hint{}
	}
	d.of[shown.key()][review.Key()] = review
}

// take returns the reviews that show a merge request and forgets them. The reviews record themselves again.
func (d *dependents) take(shown reference) []hint.Hint {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []hint.Hint
	for _, one := range d.of[shown.key()] {
		out = append(out, one)
	}
	delete(d.of, shown.key())
	return out
}

// announce starts the reviews that show a merge request if its head, its state or what it depends on has changed.
func (t *task) announce(ctx context.Context, mr *forge.MergeRequest) error {
	state := fmt.Sprintf("%s %s %q %q", mr.State, mr.Head, mr.TargetBranch, command.DependsOn(mr.Body))
	if t.state(mr.Number).announced == state && !t.hint.Force {
		return nil
	}
	for _, h := range t.dependents.take(reference{place: t.place, number: mr.Number}) {
		if err := t.Enqueue(ctx, h); err != nil {
			return err
		}
	}
	t.update(mr.Number, func(s *headState) { s.announced = state })
	return nil
}

// answerDepends answers which merge requests one depends on.
func (t *commandTask) answerDepends(ctx context.Context, mr *forge.MergeRequest, o Order) (string, error) {
	own, err := t.trustFor(ctx, mr)
	if err != nil {
		return "", err
	}
	return t.reply(ctx, mr, o, func() (string, error) {
		deps, err := t.dependenciesOf(ctx, mr, own)
		text := ""
		if err == nil {
			text, err = deps.answer(ctx, t.task)
		}
		_, limited := errors.AsType[*forge.RateLimitError](err)
		if err == nil || limited || ctx.Err() != nil {
			return text, err
		}
		// The text of the error can contain internal addresses.
		t.log.Warn("a merge request's dependencies cannot be read", "merge_request", mr.Number, "error", err)
		return report.Block([]string{o.String(), "what this merge request depends on cannot be read (ask again later): " + cause(err)}), nil
	})
}

// answer returns the dependencies in Markdown.
func (d *dependencies) answer(ctx context.Context, t *task) (string, error) {
	if d == nil {
		return "This merge request depends on no other. A line `Depends-On: URL of a merge request` in its description makes it depend on one.\n", nil
	}
	list := d.shown()
	for i, one := range d.list {
		if one.mr.State != forge.Open {
			continue
		}
		state, err := t.reviewOf(ctx, one)
		if err != nil {
			return "", err
		}
		list[i].Part += "; " + state
	}
	out := report.CompanionsBlock(list)
	if len(d.failures) > 0 {
		out += report.Block(d.failures)
	}
	return out, nil
}

// reviewOf returns the state of a merge request's own review.
func (t *task) reviewOf(ctx context.Context, d *dependency) (string, error) {
	other, ok := t.at(d.place)
	if !ok {
		return "", ErrUnknownForge
	}
	statuses, err := other.forge.Statuses(ctx, d.place.Repo(), d.mr.Head)
	if err != nil {
		return "", err
	}
	self, err := other.forge.Self(ctx)
	if err != nil {
		return "", err
	}
	own := other.context()
	for _, s := range statuses {
		if (s.Context == own || strings.HasPrefix(s.Context, own+" into ")) && (s.Check || strings.EqualFold(s.Author.Login, self.Login)) {
			return "its own review: " + string(cmp.Or(s.State, forge.Pending)), nil
		}
	}
	return "not reviewed in its own repository", nil
}
