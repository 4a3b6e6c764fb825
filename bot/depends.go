package bot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/hydrate/compare"
	"github.com/sluice-gitops/sluice/renderer/fetch"
	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/review"
)

// A merge request can name others in lines `Depends-On: URL` of its description. Its review then renders the fleet with all of them, and
// compares with the fleet without any of them. Its status waits until they are merged.
//
// A companion never gets more rights by being named. The bot takes it in only
//
//   - if the trunk of a fleet that is concerned declares its repository, or it is in that fleet itself, with the same owner;
//   - if its own review would render it: somebody with write access in its repository wrote or trusted the head;
//   - if the author of the merge request that names it has write access there, and may read the companion's repository.

// maxCompanions bounds the merge requests that one depends on, also indirectly.
const maxCompanions = 8

// onGitLab is the part of an address between a project and the number of a merge request.
const onGitLab = "/-/merge_requests/"

// reference names a merge request.
type reference struct {
	place  hint.Place
	number int
	sign   string // between the repository and the number
}

func (r reference) String() string { return r.place.Repo().Path + r.sign + strconv.Itoa(r.number) }

func (r reference) key() string { return fmt.Sprintf("%s %d", fold(r.place), r.number) }

// dependency is a merge request that another one depends on.
type dependency struct {
	reference
	mr       *forge.MergeRequest
	own      bool   // somebody with write access wrote the head
	alone    string // why it is not rendered together with the other; "" if it is
	rendered *CompanionRequest
	change   *FleetChange // of the fleet itself
}

// dependencies are the merge requests that one depends on, directly or through others.
type dependencies struct {
	list     []*dependency
	failures []string    // lines that cannot be followed
	named    []reference // all that were read or do not exist, at most maxCompanions
	// declared maps each concerned fleet to the repositories that it declares, by place, and to itself.
	declared map[hint.Place]map[hint.Place][]declaration
	place    hint.Place // of the merge request
	state    string     // everything that a review takes from the dependencies
}

// identify sets the state.
func (d *dependencies) identify() {
	var b strings.Builder
	for _, one := range d.list {
		fmt.Fprintf(&b, "%s %s %s %q %t %s\n", one.key(), one.mr.State, one.mr.Head, one.mr.TargetBranch, one.own, one.alone)
	}
	d.state = b.String() + strings.Join(d.failures, "\n")
}

// waits returns what the status of the merge request waits for; "" if it waits for nothing.
func (d *dependencies) waits() string {
	var open []string
	for _, one := range d.list {
		if one.mr.State == forge.Open {
			open = append(open, one.String())
		}
	}
	switch n := len(open); n {
	case 0:
		return ""
	case 1:
		return "waits for " + open[0]
	default:
		return fmt.Sprintf("waits for %s and %s", open[0], report.Count(n-1, "other merge request"))
	}
}

// shown returns the dependencies for the report.
func (d *dependencies) shown() []report.Companion {
	var out []report.Companion
	for _, one := range d.list {
		part := one.part()
		if why := d.hiddenEverywhere(one); why != "" && one.mr.State == forge.Open && one.alone == "" {
			part = "open, not rendered here: " + why
		}
		out = append(out, report.Companion{Name: one.String(), Head: one.mr.Head, Part: part})
	}
	return out
}

// hiddenEverywhere returns why no review takes in an open merge request that others may; "" if one does.
func (d *dependencies) hiddenEverywhere(one *dependency) (why string) {
	for _, fleetPlace := range slices.Sorted(maps.Keys(d.declared)) {
		if why = d.hidden(fleetPlace, one); why == "" {
			return ""
		}
	}
	return why
}

func (d *dependency) part() string {
	switch {
	case d.mr.State != forge.Open:
		return string(d.mr.State)
	case d.alone != "":
		return "open, not rendered here: " + d.alone
	}
	return "open, rendered here"
}

// fetch finds the commits that the rendered merge requests change. It returns an error that asks for a later retry if Git has not received
// a head yet.
func (d *dependencies) fetch(ctx context.Context, t *task, number int) error {
	if d == nil {
		return nil
	}
	for _, one := range d.list {
		if one.mr.State != forge.Open || one.alone != "" || one.rendered != nil {
			continue
		}
		_, isFleet := d.declared[fold(one.place)]
		if err := one.fetch(ctx, t, number, isFleet); err != nil {
			return apart(one.String(), err)
		}
	}
	return nil
}

func (d *dependency) fetch(ctx context.Context, t *task, number int, isFleet bool) error {
	other, ok := t.at(d.place)
	if !ok {
		return ErrUnknownForge
	}
	if err := other.open(ctx); err != nil {
		return err
	}
	defer other.close()
	commits := other.space.Commits
	head, err := commits.Revision(ctx, other.forge.MergeRequestRef(d.mr.Number))
	if errors.Is(err, gitstore.ErrNoRef) {
		if later := t.lagging(number, d); later != nil {
			return later
		}
		d.alone = "Git does not have its head"
		return nil
	}
	if err != nil {
		return err
	}
	if head.Hash.String() != d.mr.Head {
		return t.retryBehind(number)
	}
	target, err := commits.Revision(ctx, "refs/heads/"+d.mr.TargetBranch)
	var base gitstore.Commit
	if err == nil {
		base, err = commits.MergeBase(ctx, target, head)
	}
	if errors.Is(err, gitstore.ErrNoRef) || errors.Is(err, gitstore.ErrUnrelated) {
		d.alone = "it cannot be compared with " + d.mr.TargetBranch
		return nil
	}
	if err != nil {
		return err
	}
	if isFleet && !d.own {
		files, err := other.space.Fleets.Changed(ctx, base.Tree, head.Tree)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(files, decidesRepositories) {
			d.alone = "its head is in a fork or its author has no write access, and it changes files that can declare repositories"
			return nil
		}
	}
	d.rendered = &CompanionRequest{Base: base.Hash, Head: head.Hash}
	d.change = &FleetChange{base, head}
	return nil
}

// maxLagging bounds the reviews that wait for the head of a companion which Git does not have yet.
const maxLagging = 8

// lagging returns an error that retries the review later, because the forge has the head of a companion and Git does not have it yet. The
// delay begins with a second and doubles each time. After maxLagging attempts, about four minutes, lagging returns nil, and the review
// shows that the companion is missing.
func (t *task) lagging(number int, d *dependency) error {
	waited := t.state(number).late[d.key()]
	if waited.head != d.mr.Head {
		waited = late{head: d.mr.Head}
	}
	attempt := waited.attempts
	if attempt >= maxLagging {
		return nil
	}
	waited.attempts++
	t.update(number, func(s *headState) { s.late[d.key()] = waited })
	return &Later{Until: t.Clock().Add(time.Second << attempt), Err: fmt.Errorf("git does not have the head of %s yet", d)}
}

// decidesRepositories reports whether a file of a fleet can declare other repositories, or pin their commits.
func decidesRepositories(file string) bool {
	return file == fleet.File || file == fetch.LockFile || file == "repositories" || strings.HasPrefix(file, "repositories/")
}

// in returns what a review in a fleet takes in: changes of repositories, a change of the fleet itself, and whether people with write access
// made all of them.
func (d *dependencies) in(place hint.Place) (pins []review.Pin, change *FleetChange, own bool) {
	own = true
	if d == nil {
		return nil, nil, own
	}
	for _, one := range d.list {
		if one.rendered == nil || d.hidden(place, one) != "" {
			continue
		}
		own = own && one.own
		for _, as := range d.declared[fold(place)][fold(one.place)] {
			switch {
			case as.name == "":
				change = one.change
			case as.takes(one.mr.TargetBranch):
				pins = append(pins, review.Pin{Name: as.name, Base: one.rendered.Base, Head: one.rendered.Head})
			}
		}
	}
	return pins, change, own
}

// show adds the dependencies to the review in a fleet. It must be called before the review is published.
func (d *dependencies) show(r *report.Review, place hint.Place) {
	if d == nil {
		return
	}
	r.Companions, r.Waits = d.shown(), d.waits()
	for i, one := range d.list {
		if one.mr.State != forge.Open || one.alone != "" {
			continue
		}
		if why := d.hidden(place, one); why != "" {
			r.Companions[i].Part = "open, not rendered here: " + why
			continue
		}
		if all := d.declared[fold(place)]; !mayShow(all[fold(d.place)], all[fold(one.place)]) {
			r.Companions[i].Repository = one.place.String()
		}
	}
	if len(d.failures) > 0 {
		r.Errors = append(r.Errors, d.failures...)
		r.Verdict = report.VerdictError
	}
}

// identity returns the state; "" if there are no dependencies.
func (d *dependencies) identity() string {
	if d == nil {
		return ""
	}
	return d.state
}

// request returns the request for a review, without the commits to compare.
func (t *reviewTask) request(ctx context.Context) (review.Request, error) {
	mr, request := t.mr, review.Request{Trusted: t.own}
	if err := t.deps.fetch(ctx, t.task, mr.Number); err != nil {
		return request, err
	}
	if pins, _, own := t.deps.in(t.place); len(pins) > 0 {
		request.Pins, request.Trusted = pins, t.own && own
	}
	switch {
	case !t.own || !t.settings.Previews:
	case len(request.Pins) > 0: // a preview has the merge request alone
		if err := t.space.Reviews.DropPreview(ctx, previewBranch(mr.Number)); err != nil && !errors.Is(err, ErrRefused) {
			return request, err
		}
	default:
		request.Preview = &compare.Preview{Branch: previewBranch(mr.Number), Title: fmt.Sprintf("Preview of !%d", mr.Number), Limit: t.settings.PreviewCap}
	}
	return request, nil
}
