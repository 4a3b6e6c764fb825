package companions

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
)

// Declaration is how the trunk of a fleet declares a repository. One repository can have several, for example one for
// each of two branches.
type Declaration struct {
	Name    string // "" is the fleet itself
	Place   hint.Place
	Branch  string   // "" if the fleet takes tags, which can be on any branch
	ShownIn []string // repositories in whose merge requests changes of this one may be shown
}

// DeclarationOf returns the declaration of a repository at a place.
func DeclarationOf(p hint.Place, r *fleet.Repository) Declaration {
	out := Declaration{Name: r.Name, Place: p, ShownIn: r.ShownIn}
	if branch, ok := strings.CutPrefix(r.Wanted, "refs/heads/"); ok {
		out.Branch = branch
	}
	return out
}

// Takes reports whether the fleet takes a branch of the repository.
func (d Declaration) Takes(branch string) bool { return d.Branch == "" || d.Branch == branch }

// known returns the place of a repository that a concerned fleet declares, as the configuration spells it; false if
// none declares it.
func (d *Dependencies) known(p hint.Place) (hint.Place, bool) {
	for _, all := range d.declared {
		if as := all[p.Fold()]; len(as) > 0 {
			return as[0].Place, true
		}
	}
	return p, false
}

// taken reports whether a fleet takes a branch of a repository. Otherwise it returns the branches that fleets take.
func (d *Dependencies) taken(p hint.Place, branch string) (others string, ok bool) {
	var all []string
	for _, of := range slices.Sorted(maps.Keys(d.declared)) {
		for _, as := range d.declared[of][p.Fold()] {
			if as.Takes(branch) {
				return "", true
			}
			if !slices.Contains(all, as.Branch) {
				all = append(all, as.Branch)
			}
		}
	}
	return strings.Join(all, " or "), false
}

// hidden returns why a review for a fleet does not take in an open merge request that others may; "" if it does. Who
// may read the repository with the comment may be unable to read that of the companion, and the person who wrote the
// line decides neither.
func (d *Dependencies) hidden(fleetPlace hint.Place, one *Dependency) string {
	all := d.declared[fleetPlace.Fold()]
	as := all[one.Place.Fold()]
	if len(as) == 0 {
		return "this fleet does not take content from its repository"
	}
	switch {
	case !slices.ContainsFunc(as, func(each Declaration) bool { return each.Takes(one.MR.TargetBranch) }):
		branches := make([]string, len(as))
		for i, each := range as {
			branches[i] = each.Branch
		}
		return "this fleet takes " + strings.Join(branches, " and ") + " of its repository"
	case as[0].Name == "", fleetPlace.Fold() == d.Place.Fold(), one.Place.Fold() == d.Place.Fold(),
		mayShow(all[d.Place.Fold()], as):
		return ""
	}
	return "add shownIn to the Repository " + as[0].Name + " on the trunk of the fleet"
}

// mayShow reports whether a fleet allows changes of a repository in the merge requests of another one.
func mayShow(here, as []Declaration) bool {
	return slices.ContainsFunc(here, func(place Declaration) bool {
		return slices.ContainsFunc(as, func(each Declaration) bool {
			return slices.Contains(each.ShownIn, "*") || slices.Contains(each.ShownIn, place.Name)
		})
	})
}
