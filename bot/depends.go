package bot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review"
)

// dependenciesOf resolves the lines of a merge request; nil if it has none. own means that somebody with write access
// wrote its head.
func (t *task) dependenciesOf(ctx context.Context, mr *forge.MergeRequest, own bool) (*companions.Dependencies, error) {
	if len(command.DependsOn(mr.Body)) == 0 {
		return nil, nil //nolint:nilnil // it depends on nothing
	}
	fleets, err := t.concernedFleets(ctx)
	if err != nil {
		return nil, err
	}
	return companions.Resolve(ctx, companions.Request{
		Place: t.place, MR: mr, Own: own, Fleets: fleets, Repositories: repositories{t}, Dependents: t.dependents,
	})
}

// concernedFleets returns the fleets of the trunks of the task's repository, and of the repositories that take content
// from it.
func (t *task) concernedFleets(ctx context.Context) (map[hint.Place]*fleet.Fleet, error) {
	out := map[hint.Place]*fleet.Fleet{}
	add := func(place hint.Place, space *Workspace) error {
		f, err := trunkFleet(ctx, space)
		if err == nil && f != nil {
			out[place] = f
		}
		return err
	}
	if err := t.open(ctx); err != nil {
		return nil, err
	}
	if err := add(t.place, t.space); err != nil {
		return nil, err
	}
	for _, u := range t.uses.Of(t.place) {
		space, err := t.Open(ctx, u.Fleet)
		if errors.Is(err, ErrUnknownForge) {
			continue // the configuration no longer names the fleet
		}
		if err == nil {
			err = add(u.Fleet, space)
			space.Close()
		}
		if err != nil {
			return nil, apart("fleet "+u.Fleet.Repo().Path, err)
		}
	}
	return out, nil
}

// trunkFleet returns the fleet of a trunk, or of the newest commit before it whose fleet can be read; nil if there is
// none.
func trunkFleet(ctx context.Context, space *Workspace) (*fleet.Fleet, error) {
	tip, err := space.Commits.Revision(ctx, "HEAD")
	if err != nil {
		return nil, err
	}
	f, _, err := space.Fleets.Fleet(ctx, tip.Tree)
	if err == nil && f.Spec.Trunk != "" {
		if tip, err = space.Commits.Revision(ctx, "refs/heads/"+f.Spec.Trunk); err == nil {
			f, _, err = space.Fleets.Fleet(ctx, tip.Tree)
		}
	}
	if _, broken := errors.AsType[fleet.Problems](err); broken {
		_, f, err = space.Fleets.Readable(ctx, tip)
	}
	if _, broken := errors.AsType[fleet.Problems](err); broken {
		return nil, nil //nolint:nilnil // no commit has a fleet that can be read
	}
	return f, err
}

// repositories are those of the configuration, for a resolution of lines.
type repositories struct{ *task }

// PlaceOf implements companions.Repositories.
func (r repositories) PlaceOf(address string) (hint.Place, bool) { return r.Config.PlaceOf(address) }

// At implements companions.Repositories.
func (r repositories) At(p hint.Place) (companions.Repository, bool) {
	t, ok := r.at(p)
	return repository{t}, ok
}

// repository is one of them.
type repository struct{ *task }

// Access implements companions.Repository.
func (r repository) Access(ctx context.Context, login string) (forge.Access, error) {
	return r.forge.Access(ctx, r.place.Repo(), login)
}

// Trust implements companions.Repository.
func (r repository) Trust(ctx context.Context, mr *forge.MergeRequest) (companions.Trust, error) {
	return r.trustOf(ctx, mr)
}

// Updated implements companions.Repository.
func (r repository) Updated(ctx context.Context) ([]*forge.MergeRequest, error) {
	return r.listings.refresh(ctx, r.forge, r.place)
}

// MergeRequest implements companions.Repository.
func (r repository) MergeRequest(ctx context.Context, number int) (*forge.MergeRequest, error) {
	mr, err := r.forge.MergeRequest(ctx, r.place.Repo(), number)
	if err == nil {
		r.listings.correct(r.place, mr)
	}
	return mr, err
}

// dependenciesNow returns the identity of what a merge request depends on; false if that may have changed since the
// last review.
func (t *task) dependenciesNow(ctx context.Context, mr *forge.MergeRequest) (string, bool) {
	return t.depended.Identity(ctx, headKey(t.place, mr.Number), mr, t.Clock(),
		func(ctx context.Context, p hint.Place) ([]*forge.MergeRequest, error) {
			other, ok := t.at(p)
			if !ok {
				return nil, ErrUnknownForge
			}
			return t.listings.open(ctx, other.forge, p)
		})
}

// fetchDependencies finds the commits that the rendered merge requests change. It returns an error that asks for a
// later retry if Git has not received a head yet.
func (t *reviewTask) fetchDependencies(ctx context.Context) error {
	for _, one := range t.deps.Unfetched() {
		if err := t.fetchDependency(ctx, one); err != nil {
			return apart(one.String(), err)
		}
	}
	return nil
}

func (t *reviewTask) fetchDependency(ctx context.Context, d *companions.Dependency) error {
	other, ok := t.at(d.Place)
	if !ok {
		return ErrUnknownForge
	}
	if err := other.open(ctx); err != nil {
		return err
	}
	defer other.close()
	commits := other.space.Commits
	head, err := commits.Revision(ctx, other.forge.MergeRequestRef(d.MR.Number))
	if errors.Is(err, gitstore.ErrNoRef) {
		if later := t.lagging(d); later != nil {
			return later
		}
		d.NotRendered = "Git does not have its head"
		return nil
	}
	if err != nil {
		return err
	}
	if head.Hash.String() != d.MR.Head {
		return t.retryBehind(t.mr.Number)
	}
	target, err := commits.Revision(ctx, "refs/heads/"+d.MR.TargetBranch)
	var base gitstore.Commit
	if err == nil {
		base, err = commits.MergeBase(ctx, target, head)
	}
	if errors.Is(err, gitstore.ErrNoRef) || errors.Is(err, gitstore.ErrUnrelated) {
		d.NotRendered = "it cannot be compared with " + d.MR.TargetBranch
		return nil
	}
	if err != nil {
		return err
	}
	if t.deps.IsFleet(d.Place) && !d.Own {
		files, err := other.space.Fleets.Changed(ctx, base.Tree, head.Tree)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(files, decidesRepositories) {
			d.NotRendered = "its head is in a fork or its author has no write access, and it changes files that can declare repositories"
			return nil
		}
	}
	d.Change = &companions.Change{Base: base, Head: head}
	return nil
}

// maxLagging bounds the reviews that wait for the head of a companion which Git does not have yet.
const maxLagging = 8

// lagging returns an error that retries the review later, because the forge has the head of a companion and Git does
// not have it yet. The delay begins with a second and doubles each time. After maxLagging attempts, about four minutes,
// lagging returns nil, and the review shows that the companion is missing.
func (t *reviewTask) lagging(d *companions.Dependency) error {
	waited := t.state(t.mr.Number).late[d.Key()]
	if waited.head != d.MR.Head {
		waited = late{head: d.MR.Head}
	}
	attempt := waited.attempts
	if attempt >= maxLagging {
		return nil
	}
	waited.attempts++
	t.update(t.mr.Number, func(s *headState) { s.late[d.Key()] = waited })
	return &Later{
		Until: t.Clock().Add(time.Second << attempt),
		Err:   fmt.Errorf("git does not have the head of %s yet", d),
	}
}

// decidesRepositories reports whether a file of a fleet can declare other repositories, or pin their commits.
func decidesRepositories(file string) bool {
	return file == fleet.File || file == fetch.LockFile || file == "repositories" ||
		strings.HasPrefix(file, "repositories/")
}

// request returns the request for a review, without the commits to compare.
func (t *reviewTask) request(ctx context.Context) (review.Request, error) {
	mr, request := t.mr, review.Request{Trusted: t.own}
	if err := t.fetchDependencies(ctx); err != nil {
		return request, err
	}
	if rendered := t.deps.In(t.place); len(rendered.Pins) > 0 {
		request.Pins, request.Trusted = asPins(rendered.Pins), t.own && rendered.Own
	}
	switch {
	case !t.own || !t.settings.Previews:
	case len(request.Pins) > 0: // a preview has the merge request alone
		if err := t.space.Reviews.DropPreview(ctx, previewBranch(mr.Number)); err != nil &&
			!errors.Is(err, ErrRefused) {
			return request, err
		}
	default:
		request.Preview = &compare.Preview{
			Branch: previewBranch(mr.Number),
			Title:  fmt.Sprintf("Preview of !%d", mr.Number), Limit: t.settings.PreviewCap,
		}
	}
	return request, nil
}

// asPins returns the changes of repositories in the form of a request.
func asPins(list []companions.Pin) []review.Pin {
	out := make([]review.Pin, len(list))
	for i, p := range list {
		out[i] = review.Pin{Name: p.Name, Base: p.Base, Head: p.Head}
	}
	return out
}

// announce starts the reviews that show a merge request if its head, its state or what it depends on has changed.
func (t *task) announce(ctx context.Context, mr *forge.MergeRequest) error {
	state := fmt.Sprintf("%s %s %q %q", mr.State, mr.Head, mr.TargetBranch, command.DependsOn(mr.Body))
	if t.state(mr.Number).announced == state && !t.hint.Force {
		return nil
	}
	for _, h := range t.dependents.Take(companions.Reference{Place: t.place, Number: mr.Number}) {
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
			text, err = t.describeDependencies(ctx, deps)
		}
		_, limited := errors.AsType[*forge.RateLimitError](err)
		if err == nil || limited || ctx.Err() != nil {
			return text, err
		}
		// The text of the error can contain internal addresses.
		t.log.Warn("a merge request's dependencies cannot be read", "merge_request", mr.Number, "error", err)
		return report.Block([]string{
			o.String(),
			"what this merge request depends on cannot be read (ask again later): " + cause(err),
		}), nil
	})
}

// describeDependencies returns the dependencies in Markdown.
func (t *commandTask) describeDependencies(ctx context.Context, d *companions.Dependencies) (string, error) {
	if d == nil {
		return "This merge request depends on no other. A line `Depends-On: URL of a merge request` in its description makes it depend on one.\n", nil
	}
	list := d.Shown()
	for i, one := range d.List {
		if one.MR.State != forge.Open {
			continue
		}
		state, err := t.reviewOf(ctx, one)
		if err != nil {
			return "", err
		}
		list[i].Part += "; " + state
	}
	out := report.CompanionsBlock(list)
	if len(d.Failures) > 0 {
		out += report.Block(d.Failures)
	}
	return out, nil
}

// reviewOf returns the state of a merge request's own review.
func (t *task) reviewOf(ctx context.Context, d *companions.Dependency) (string, error) {
	other, ok := t.at(d.Place)
	if !ok {
		return "", ErrUnknownForge
	}
	statuses, err := other.forge.Statuses(ctx, d.Place.Repo(), d.MR.Head)
	if err != nil {
		return "", err
	}
	self, err := other.forge.Self(ctx)
	if err != nil {
		return "", err
	}
	own := other.context()
	for _, s := range statuses {
		if (s.Context == own || strings.HasPrefix(s.Context, own+" into ")) &&
			(s.Check || strings.EqualFold(s.Author.Login, self.Login)) {
			return "its own review: " + string(cmp.Or(s.State, forge.Pending)), nil
		}
	}
	return "not reviewed in its own repository", nil
}
