package bot

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/bot/command"
	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
)

// resolver follows the lines of a merge request.
type resolver struct {
	*task
	mr    *forge.MergeRequest
	own   bool                         // somebody with write access wrote its head
	fleet map[hint.Place][]declaration // repositories of the fleet that the merge request is in; nil if it is in none
	out   *dependencies
	seen  map[string]bool
	// What the forge answered, by repository: a merge request can name several of one.
	readable map[hint.Place]bool
	listed   map[hint.Place][]*forge.MergeRequest
}

// dependenciesOf resolves the lines of a merge request; nil if it has none. own means that somebody with write access wrote its head.
func (t *task) dependenciesOf(ctx context.Context, mr *forge.MergeRequest, own bool) (*dependencies, error) {
	lines := command.DependsOn(mr.Body)
	if len(lines) == 0 {
		return nil, nil //nolint:nilnil // it depends on nothing
	}
	out, err := t.declared(ctx)
	if err != nil {
		return nil, err
	}
	r := &resolver{task: t, mr: mr, own: own, fleet: out.declared[fold(t.place)], out: out, seen: map[string]bool{}, readable: map[hint.Place]bool{}, listed: map[hint.Place][]*forge.MergeRequest{}}
	self := reference{t.place, mr.Number, "#"}
	if strings.Contains(mr.URL, onGitLab) {
		self.sign = "!"
	}
	if err := r.follow(ctx, []reference{self}, lines); err != nil {
		return nil, err
	}
	r.combine()
	out.identify()
	return out, nil
}

// declared returns the repositories that the trunks of the concerned fleets declare: that of the job's place, and those that take content
// from it. A fleet is a repository of its own, without a name.
func (t *task) declared(ctx context.Context) (*dependencies, error) {
	out := &dependencies{place: t.place, declared: map[hint.Place]map[hint.Place][]declaration{}}
	add := func(place hint.Place, space *Workspace) error {
		f, err := trunkFleet(ctx, space)
		if err != nil || f == nil {
			return err
		}
		all := map[hint.Place][]declaration{fold(place): {{place: place, branch: f.Spec.Trunk}}}
		for _, r := range f.Repositories {
			if p, ok := t.PlaceOf(r.URL); ok && fold(p) != fold(place) && ownerOf(p) == ownerOf(place) {
				all[fold(p)] = append(all[fold(p)], declarationOf(p, r))
			}
		}
		out.declared[fold(place)] = all
		return nil
	}
	if err := t.open(ctx); err != nil {
		return nil, err
	}
	if err := add(t.place, t.space); err != nil {
		return nil, err
	}
	for _, u := range t.uses.of(t.place) {
		space, err := t.Open(ctx, u.fleet)
		if errors.Is(err, ErrUnknownForge) {
			continue // the configuration no longer names the fleet
		}
		if err == nil {
			err = add(u.fleet, space)
			space.Close()
		}
		if err != nil {
			return nil, apart("fleet "+u.fleet.Repo().Path, err)
		}
	}
	return out, nil
}

// trunkFleet returns the fleet of a trunk, or of the newest commit before it whose fleet can be read; nil if there is none.
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

// at returns a task for another repository.
func (t *task) at(p hint.Place) (*task, bool) {
	f, ok := t.Forges(p.Forge())
	if !ok {
		return nil, false
	}
	return t.newTask(f, p, hint.Hint{}, t.log), true
}

// follow adds the merge requests that the lines name, and those that they name. The path leads from the first merge request to the one with
// the lines.
func (r *resolver) follow(ctx context.Context, path []reference, lines []string) error {
	for _, line := range lines {
		ref, ok := r.reference(line)
		switch {
		case !ok:
			r.fail("`Depends-On: %s` does not name a merge request of a repository in the configuration of the service", line)
		case ref.key() == path[0].key():
			r.cycle(path)
		case r.seen[ref.key()]:
		case len(r.seen) == maxCompanions: // also those that do not exist: each costs requests
			r.fail("it depends on more than %d merge requests: merge some of them first", maxCompanions)
			return nil
		default:
			r.seen[ref.key()] = true
			if err := r.add(ctx, path, ref); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *resolver) fail(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.out.failures, text) {
		r.out.failures = append(r.out.failures, text)
	}
}

// cycle reports that each merge request of the path waits for the next one, and the last one for the first.
func (r *resolver) cycle(path []reference) {
	var names []string
	for _, one := range path {
		names = append(names, one.String())
	}
	r.fail("%s depend on each other, so none of them can be merged first: remove a Depends-On", strings.Join(append(names, path[0].String()), " → "))
}

// reference parses the address of a merge request's page.
func (r *resolver) reference(address string) (reference, bool) {
	address, _, _ = strings.Cut(address, "#")
	address, _, _ = strings.Cut(address, "?")
	for _, form := range []struct{ part, sign string }{{onGitLab, "!"}, {"/pull/", "#"}} {
		i := strings.LastIndex(address, form.part)
		if i < 0 {
			continue
		}
		digits, _, _ := strings.Cut(address[i+len(form.part):], "/")
		number, err := strconv.ParseUint(digits, 10, 31)
		u, bad := url.Parse(address[:i])
		if err != nil || number == 0 || bad != nil || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
			return reference{}, false
		}
		p, ok := r.addressed(address[:i])
		return reference{p, int(number), form.sign}, ok
	}
	return reference{}, false
}

// add adds a merge request and what it depends on, if it may be taken in.
func (r *resolver) add(ctx context.Context, path []reference, ref reference) error {
	if _, ok := r.out.known(ref.place); !ok {
		r.fail("%s: the trunk of the fleet does not declare this repository (kind: Repository) with the owner of the fleet", ref)
		return nil
	}
	t, ok := r.task.at(ref.place)
	if !ok {
		r.fail("%s: the configuration of the service has no such forge", ref)
		return nil
	}
	readable, err := r.mayRead(ctx, t)
	if err != nil {
		return err
	}
	r.dependents.add(ref, hint.Hint{Place: r.place, Kind: hint.Review, Number: r.mr.Number}) // before its state is read
	var mr *forge.MergeRequest
	if readable {
		r.out.named = append(r.out.named, ref)
		mr, err = r.read(ctx, t, ref.number)
	}
	if !readable || errors.Is(err, forge.ErrNotFound) {
		r.fail("%s does not exist, or %s cannot read it", ref, r.mr.Author.Login)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	one := &dependency{reference: ref, mr: mr}
	r.out.list = append(r.out.list, one)
	switch mr.State {
	case forge.Merged:
		if wanted, ok := r.out.taken(ref.place, mr.TargetBranch); !ok {
			r.fail("%s was merged into %s, and the fleet takes %s: merge it there too, and name that merge request", ref, mr.TargetBranch, wanted)
		}
		return nil
	case forge.Closed:
		r.fail("%s was closed without a merge: reopen it, or remove its Depends-On", ref)
		return nil
	}
	trusted, by, err := t.trusted(ctx, mr)
	if err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	one.own = trusted && by == ""
	switch {
	case !r.own:
		one.alone = "the head of this merge request is in a fork, or its author has no write access"
	case !trusted:
		one.alone = "it waits for trust"
	}
	if !one.own { // somebody without write access does not decide what else is rendered
		return nil
	}
	return r.follow(ctx, append(slices.Clone(path), ref), command.DependsOn(mr.Body))
}

// mayRead reports whether the author of the merge request may read another repository. A fleet shows content of the repositories that it
// declares to everybody who may write to it. In other repositories, the author needs access to the companion's.
func (r *resolver) mayRead(ctx context.Context, other *task) (bool, error) {
	if _, ok := r.fleet[fold(other.place)]; ok && r.own || fold(other.place) == fold(r.place) {
		return true, nil
	}
	if r.mr.Author.Bot || other.place.Forge() != r.place.Forge() { // a name on another forge may be somebody else's
		return false, nil
	}
	if known, ok := r.readable[fold(other.place)]; ok {
		return known, nil
	}
	access, err := other.forge.Access(ctx, other.place.Repo(), r.mr.Author.Login)
	if err != nil && !errors.Is(err, forge.ErrNotFound) {
		return false, err
	}
	r.readable[fold(other.place)] = err == nil && access >= forge.AccessRead
	return r.readable[fold(other.place)], nil
}

// read returns a merge request. It lists the updated ones of a repository once.
func (r *resolver) read(ctx context.Context, other *task, number int) (*forge.MergeRequest, error) {
	list, ok := r.listed[fold(other.place)]
	if !ok {
		var err error
		if list, err = other.listings.refresh(ctx, other.forge, other.place); err != nil {
			return nil, err
		}
		r.listed[fold(other.place)] = list
	}
	if mr := numbered(list, number); mr != nil {
		return mr, nil
	}
	mr, err := other.forge.MergeRequest(ctx, other.place.Repo(), number)
	if err == nil {
		other.listings.correct(other.place, mr)
	}
	return mr, err
}

// combine decides which of the open merge requests are rendered together. A fleet reads each repository at one commit.
func (r *resolver) combine() {
	taken := map[hint.Place]bool{fold(r.place): true}
	var rendered []*dependency
	for _, one := range r.out.list {
		others, wanted := r.out.taken(one.place, one.mr.TargetBranch)
		switch {
		case one.mr.State != forge.Open || one.alone != "":
		case fold(one.place) == fold(r.place):
			one.alone = "it is in the same repository: rebase onto it to see both"
		case !wanted && others != "":
			one.alone = "it does not go into " + others + ", which the fleet takes"
		case taken[fold(one.place)]:
			one.alone = "another merge request of its repository is"
		default:
			taken[fold(one.place)] = true
			rendered = append(rendered, one)
		}
	}
	for _, one := range rendered {
		if !one.own && len(rendered) > 1 { // its content must not read the repositories of the others
			one.alone = "its head is in a fork or its author has no write access, and this merge request depends on others too"
		}
	}
}

// ownerOf returns the owner of a repository. One owner has the same name on every forge of the configuration.
func ownerOf(p hint.Place) string {
	name, _, _ := strings.Cut(p.Repo().Path, "/")
	return strings.ToLower(name)
}
