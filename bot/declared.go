package bot

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
)

// declaration is how the trunk of a fleet declares a repository. One repository can have several, for example one for each of two branches.
type declaration struct {
	name    string // "" is the fleet itself
	place   hint.Place
	branch  string   // "" if the fleet takes tags, which can be on any branch
	shownIn []string // repositories in whose merge requests changes of this one may be shown
}

func declarationOf(p hint.Place, r *fleet.Repository) declaration {
	out := declaration{name: r.Name, place: p, shownIn: r.ShownIn}
	if branch, ok := strings.CutPrefix(r.Wanted, "refs/heads/"); ok {
		out.branch = branch
	}
	return out
}

// takes reports whether the fleet takes a branch of the repository.
func (d declaration) takes(branch string) bool { return d.branch == "" || d.branch == branch }

// known returns the place of a repository that a concerned fleet declares, as the configuration spells it; false if none declares it.
func (d *dependencies) known(p hint.Place) (hint.Place, bool) {
	for _, all := range d.declared {
		if as := all[fold(p)]; len(as) > 0 {
			return as[0].place, true
		}
	}
	return p, false
}

// taken reports whether a fleet takes a branch of a repository. Otherwise it returns the branches that fleets take.
func (d *dependencies) taken(p hint.Place, branch string) (others string, ok bool) {
	var all []string
	for _, of := range slices.Sorted(maps.Keys(d.declared)) {
		for _, as := range d.declared[of][fold(p)] {
			if as.takes(branch) {
				return "", true
			}
			if !slices.Contains(all, as.branch) {
				all = append(all, as.branch)
			}
		}
	}
	return strings.Join(all, " or "), false
}

// hidden returns why a review for a fleet does not take in an open merge request that others may; "" if it does. Who may read the repository
// with the comment may be unable to read that of the companion, and the person who wrote the line decides neither.
func (d *dependencies) hidden(fleetPlace hint.Place, one *dependency) string {
	all := d.declared[fold(fleetPlace)]
	as := all[fold(one.place)]
	if len(as) == 0 {
		return "this fleet does not take content from its repository"
	}
	switch {
	case !slices.ContainsFunc(as, func(each declaration) bool { return each.takes(one.mr.TargetBranch) }):
		branches := make([]string, len(as))
		for i, each := range as {
			branches[i] = each.branch
		}
		return "this fleet takes " + strings.Join(branches, " and ") + " of its repository"
	case as[0].name == "", fold(fleetPlace) == fold(d.place), fold(one.place) == fold(d.place), mayShow(all[fold(d.place)], as):
		return ""
	}
	return "add shownIn to the Repository " + as[0].name + " on the trunk of the fleet"
}

// mayShow reports whether a fleet allows changes of a repository in the merge requests of another one.
func mayShow(here, as []declaration) bool {
	return slices.ContainsFunc(here, func(place declaration) bool {
		return slices.ContainsFunc(as, func(each declaration) bool {
			return slices.Contains(each.shownIn, "*") || slices.Contains(each.shownIn, place.name)
		})
	})
}

// addressed returns the configured repository of an address. A link that was copied from a browser has the host of the forge's pages, which
// can differ from that of clones: the address of the merge request shows it.
func (r *resolver) addressed(address string) (hint.Place, bool) {
	if p, ok := r.PlaceOf(address); ok {
		return p, true
	}
	own := strings.ToLower("/" + r.place.Repo().Path + "/")
	i := strings.Index(strings.ToLower(r.mr.URL), own)
	if i < 0 {
		return "", false
	}
	pages, err := url.Parse(r.mr.URL[:i])
	u, bad := url.Parse(address)
	if err != nil || bad != nil || pages.Host == "" || !strings.EqualFold(pages.Host, u.Host) || u.Scheme != pages.Scheme {
		return "", false
	}
	path, ok := strings.CutPrefix(u.Path, pages.Path+"/")
	if !ok {
		return "", false
	}
	return r.out.known(hint.NewPlace(r.place.Forge(), path))
}
