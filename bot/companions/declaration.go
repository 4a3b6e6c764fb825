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

// declaredPlace returns the place of a repository that a concerned fleet declares, as the configuration spells it;
// false if none declares it.
func (d *Dependencies) declaredPlace(p hint.Place) (hint.Place, bool) {
	for _, all := range d.declared {
		if declarations := all[p.Fold()]; len(declarations) > 0 {
			return declarations[0].Place, true
		}
	}
	return p, false
}

// takesBranch reports whether a fleet takes a branch of a repository. Otherwise it returns the branches that fleets
// take, for messages.
func (d *Dependencies) takesBranch(p hint.Place, branch string) (others string, ok bool) {
	var branches []string
	for _, of := range slices.Sorted(maps.Keys(d.declared)) {
		for _, declaration := range d.declared[of][p.Fold()] {
			if declaration.Takes(branch) {
				return "", true
			}
			if !slices.Contains(branches, declaration.Branch) {
				branches = append(branches, declaration.Branch)
			}
		}
	}
	return strings.Join(branches, " or "), false
}

// whyHidden returns why the review for a fleet does not render an open dependency that the review for another fleet may
// render; "" if it renders it. The trunk of the fleet decides, because people who may read the repository with the
// comment may be unable to read that of the dependency.
func (d *Dependencies) whyHidden(fleetPlace hint.Place, one *Dependency) string {
	all := d.declared[fleetPlace.Fold()]
	theirs := all[one.Place.Fold()]
	if len(theirs) == 0 {
		return "this fleet does not take content from its repository"
	}
	takes := func(declaration Declaration) bool { return declaration.Takes(one.MR.TargetBranch) }
	if !slices.ContainsFunc(theirs, takes) {
		branches := make([]string, len(theirs))
		for i, declaration := range theirs {
			branches[i] = declaration.Branch
		}
		return "this fleet takes " + strings.Join(branches, " and ") + " of its repository"
	}
	isFleet := theirs[0].Name == ""
	commentedIn := d.Place.Fold()
	if isFleet || commentedIn == fleetPlace.Fold() || commentedIn == one.Place.Fold() ||
		mayShow(all[commentedIn], theirs) {
		return ""
	}
	return "add shownIn to the Repository " + theirs[0].Name + " on the trunk of the fleet"
}

// mayShow reports whether a fleet allows changes of a repository in the merge requests of another one. Both are given
// as the fleet declares them.
func mayShow(another, repository []Declaration) bool {
	return slices.ContainsFunc(another, func(in Declaration) bool {
		return slices.ContainsFunc(repository, func(of Declaration) bool {
			return slices.Contains(of.ShownIn, "*") || slices.Contains(of.ShownIn, in.Name)
		})
	})
}
