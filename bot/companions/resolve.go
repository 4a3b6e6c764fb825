package companions

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

// Repositories are those of the service's configuration.
type Repositories interface {
	// PlaceOf returns the repository that a Git URL names, or false.
	PlaceOf(address string) (hint.Place, bool)
	// At returns a repository; false if the configuration has no such forge.
	At(p hint.Place) (Repository, bool)
}

// Repository is what a resolution asks the forge about a repository.
type Repository interface {
	// Access returns the permission of a person. It returns forge.ErrNotFound for a stranger.
	Access(ctx context.Context, login string) (forge.Access, error)
	// Trust returns whether and how a merge request may be rendered.
	Trust(ctx context.Context, mr *forge.MergeRequest) (Trust, error)
	// Updated lists the merge requests that were updated since they were listed last, in any state.
	Updated(ctx context.Context) ([]*forge.MergeRequest, error)
	// MergeRequest reads a merge request. It returns forge.ErrNotFound if there is none.
	MergeRequest(ctx context.Context, number int) (*forge.MergeRequest, error)
}

// Trust says whether and how the head of a merge request may be rendered.
type Trust int

// The degrees of trust.
const (
	TrustNone    Trust = iota // not at all: it waits for /sluice trust
	TrustVouched              // without credentials: somebody with write access trusts it, or wrote it in a fork
	TrustOwn                  // somebody with write access wrote it in the repository itself
)

// Request asks what a merge request depends on.
type Request struct {
	Place hint.Place // of the merge request
	MR    *forge.MergeRequest
	Own   bool // somebody with write access wrote its head
	// Fleets are the concerned fleets, as their trunks declare them: that of the place, and those that take content
	// from it.
	Fleets       map[hint.Place]*fleet.Fleet
	Repositories Repositories
	Dependents   *Dependents // learns which merge requests are named
}

// resolver follows the lines of a merge request.
type resolver struct {
	Request
	fleet map[hint.Place][]Declaration // repositories of the fleet that the merge request is in; nil if it is in none
	out   *Dependencies
	seen  map[string]bool
	// What the forge answered, by repository: a merge request can name several of one.
	readable map[hint.Place]bool
	listed   map[hint.Place][]*forge.MergeRequest
}

// Resolve follows the lines of a merge request, and those of the merge requests that they name. A line that cannot be
// followed is a failure of the result. An error means that the forge did not answer.
func Resolve(ctx context.Context, q Request) (*Dependencies, error) {
	out := &Dependencies{Place: q.Place, declared: declared(q.Fleets, q.Repositories.PlaceOf)}
	r := &resolver{
		Request: q, fleet: out.declared[q.Place.Fold()], out: out, seen: map[string]bool{},
		readable: map[hint.Place]bool{}, listed: map[hint.Place][]*forge.MergeRequest{},
	}
	self := Reference{q.Place, q.MR.Number, "#"}
	if strings.Contains(q.MR.URL, onGitLab) {
		self.sign = "!"
	}
	if err := r.follow(ctx, []Reference{self}, command.DependsOn(q.MR.Body)); err != nil {
		return nil, err
	}
	r.combine()
	out.identify()
	return out, nil
}

// declared returns the repositories that fleets declare. A fleet is a repository of its own, without a name.
func declared(fleets map[hint.Place]*fleet.Fleet,
	placeOf func(string) (hint.Place, bool),
) map[hint.Place]map[hint.Place][]Declaration {
	out := map[hint.Place]map[hint.Place][]Declaration{}
	for place, f := range fleets {
		all := map[hint.Place][]Declaration{place.Fold(): {{Place: place, Branch: f.Spec.Trunk}}}
		for _, r := range f.Repositories {
			if p, ok := placeOf(r.URL); ok && p.Fold() != place.Fold() && p.Owner() == place.Owner() {
				all[p.Fold()] = append(all[p.Fold()], DeclarationOf(p, r))
			}
		}
		out[place.Fold()] = all
	}
	return out
}

// addressed returns the configured repository of an address. A link that was copied from a browser has the host of the
// forge's pages, which can differ from that of clones: the address of the merge request shows it.
func (r *resolver) addressed(address string) (hint.Place, bool) {
	if p, ok := r.Repositories.PlaceOf(address); ok {
		return p, true
	}
	own := strings.ToLower("/" + r.Place.Repo().Path + "/")
	i := strings.Index(strings.ToLower(r.MR.URL), own)
	if i < 0 {
		return "", false
	}
	pages, err := url.Parse(r.MR.URL[:i])
	if err != nil || pages.Host == "" {
		return "", false
	}
	u, err := url.Parse(address)
	if err != nil || !strings.EqualFold(pages.Host, u.Host) || u.Scheme != pages.Scheme {
		return "", false
	}
	path, ok := strings.CutPrefix(u.Path, pages.Path+"/")
	if !ok {
		return "", false
	}
	return r.out.declaredPlace(hint.NewPlace(r.Place.Forge(), path))
}

// follow adds the merge requests that the lines name, and those that they name. The path leads from the first merge
// request to the one with the lines.
func (r *resolver) follow(ctx context.Context, path []Reference, lines []string) error {
	for _, line := range lines {
		ref, ok := r.reference(line)
		switch {
		case !ok:
			r.fail("`Depends-On: %s` does not name a merge request of a repository in the configuration of the service",
				line)
		case ref.Key() == path[0].Key():
			r.cycle(path)
		case r.seen[ref.Key()]:
		case len(r.seen) == MaxDependencies: // also those that do not exist: each costs requests
			r.fail("it depends on more than %d merge requests: merge some of them first", MaxDependencies)
			return nil
		default:
			r.seen[ref.Key()] = true
			if err := r.add(ctx, path, ref); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *resolver) fail(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.out.Failures, text) {
		r.out.Failures = append(r.out.Failures, text)
	}
}

// cycle reports that each merge request of the path waits for the next one, and the last one for the first.
func (r *resolver) cycle(path []Reference) {
	var names []string
	for _, one := range path {
		names = append(names, one.String())
	}
	r.fail("%s depend on each other, so none of them can be merged first: remove a Depends-On",
		strings.Join(append(names, path[0].String()), " → "))
}

// reference parses the address of a merge request's page.
func (r *resolver) reference(address string) (Reference, bool) {
	address, _, _ = strings.Cut(address, "#")
	address, _, _ = strings.Cut(address, "?")
	for _, form := range []struct{ part, sign string }{{onGitLab, "!"}, {"/pull/", "#"}, {"/pulls/", "#"}} {
		i := strings.LastIndex(address, form.part)
		if i < 0 {
			continue
		}
		digits, _, _ := strings.Cut(address[i+len(form.part):], "/")
		number, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || number == 0 {
			return Reference{}, false
		}
		u, err := url.Parse(address[:i])
		if err != nil || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
			return Reference{}, false
		}
		p, ok := r.addressed(address[:i])
		return Reference{p, int(number), form.sign}, ok
	}
	return Reference{}, false
}

// add adds a merge request and what it depends on, if it may be taken in.
func (r *resolver) add(ctx context.Context, path []Reference, ref Reference) error {
	if _, ok := r.out.declaredPlace(ref.Place); !ok {
		r.fail("%s: the trunk of the fleet does not declare this repository (kind: Repository) with the owner of the fleet", ref)
		return nil
	}
	repository, ok := r.Repositories.At(ref.Place)
	if !ok {
		r.fail("%s: the configuration of the service has no such forge", ref)
		return nil
	}
	readable, err := r.mayRead(ctx, ref.Place, repository)
	if err != nil {
		return err
	}
	r.Dependents.Add(ref, hint.Hint{Place: r.Place, Kind: hint.Review, Number: r.MR.Number}) // before its state is read
	var mr *forge.MergeRequest
	if readable {
		r.out.named = append(r.out.named, ref)
		mr, err = r.read(ctx, ref, repository)
	}
	if !readable || errors.Is(err, forge.ErrNotFound) {
		r.fail("%s does not exist, or %s cannot read it", ref, r.MR.Author.Login)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	one := &Dependency{Reference: ref, MR: mr}
	r.out.List = append(r.out.List, one)
	switch mr.State {
	case forge.Merged:
		if wanted, ok := r.out.takesBranch(ref.Place, mr.TargetBranch); !ok {
			r.fail("%s was merged into %s, and the fleet takes %s: merge it there too, and name that merge request",
				ref, mr.TargetBranch, wanted)
		}
		return nil
	case forge.Closed:
		r.fail("%s was closed without a merge: reopen it, or remove its Depends-On", ref)
		return nil
	}
	trust, err := repository.Trust(ctx, mr)
	if err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	one.Own = trust == TrustOwn
	switch {
	case !r.Own:
		one.NotRendered = "the head of this merge request is in a fork, or its author has no write access"
	case trust == TrustNone:
		one.NotRendered = "it waits for trust"
	}
	if !one.Own { // somebody without write access does not decide what else is rendered
		return nil
	}
	return r.follow(ctx, append(slices.Clone(path), ref), command.DependsOn(mr.Body))
}

// mayRead reports whether the author of the merge request may read another repository. A fleet shows content of the
// repositories that it declares to everybody who may write to it. In other repositories, the author needs access to the
// companion's.
func (r *resolver) mayRead(ctx context.Context, p hint.Place, repository Repository) (bool, error) {
	if _, ok := r.fleet[p.Fold()]; ok && r.Own || p.Fold() == r.Place.Fold() {
		return true, nil
	}
	if r.MR.Author.Bot || p.Forge() != r.Place.Forge() { // a name on another forge may be somebody else's
		return false, nil
	}
	if known, ok := r.readable[p.Fold()]; ok {
		return known, nil
	}
	access, err := repository.Access(ctx, r.MR.Author.Login)
	if err != nil && !errors.Is(err, forge.ErrNotFound) {
		return false, err
	}
	r.readable[p.Fold()] = err == nil && access >= forge.AccessRead
	return r.readable[p.Fold()], nil
}

// read returns a merge request. It lists the updated ones of a repository once.
func (r *resolver) read(ctx context.Context, ref Reference, repository Repository) (*forge.MergeRequest, error) {
	list, ok := r.listed[ref.Place.Fold()]
	if !ok {
		var err error
		if list, err = repository.Updated(ctx); err != nil {
			return nil, err
		}
		r.listed[ref.Place.Fold()] = list
	}
	if i := slices.IndexFunc(list, func(mr *forge.MergeRequest) bool { return mr.Number == ref.Number }); i >= 0 {
		return list[i], nil
	}
	return repository.MergeRequest(ctx, ref.Number)
}

// combine decides which of the open merge requests are rendered together. A fleet reads each repository at one commit.
func (r *resolver) combine() {
	taken := map[hint.Place]bool{r.Place.Fold(): true}
	var rendered []*Dependency
	for _, one := range r.out.List {
		others, wanted := r.out.takesBranch(one.Place, one.MR.TargetBranch)
		switch {
		case one.MR.State != forge.Open || one.NotRendered != "":
		case one.Place.Fold() == r.Place.Fold():
			one.NotRendered = "it is in the same repository: rebase onto it to see both"
		case !wanted && others != "":
			one.NotRendered = "it does not go into " + others + ", which the fleet takes"
		case taken[one.Place.Fold()]:
			one.NotRendered = "another merge request of its repository is"
		default:
			taken[one.Place.Fold()] = true
			rendered = append(rendered, one)
		}
	}
	for _, one := range rendered {
		if !one.Own && len(rendered) > 1 { // its content must not read the repositories of the others
			one.NotRendered = "its head is in a fork or its author has no write access, and this merge request depends on others too"
		}
	}
}
