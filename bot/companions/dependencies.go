package companions

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/report"
)

// MaxDependencies bounds the merge requests that one depends on, also indirectly.
const MaxDependencies = 8

// onGitLab is the part of an address between a project and the number of a merge request.
const onGitLab = "/-/merge_requests/"

// Reference names a merge request.
type Reference struct {
	Place  hint.Place
	Number int
	sign   string // between the repository and the number
}

func (r Reference) String() string { return r.Place.Repo().Path + r.sign + strconv.Itoa(r.Number) }

// Key is equal for references to the same merge request, however the case of the repository is written.
func (r Reference) Key() string { return fmt.Sprintf("%s %d", r.Place.Fold(), r.Number) }

// Dependency is a merge request that another one depends on.
type Dependency struct {
	Reference
	MR          *forge.MergeRequest
	Own         bool    // somebody with write access wrote the head
	NotRendered string  // why no review renders it with the merge request that names it; "" if one may
	Change      *Change // what is rendered; nil until the caller fetched it
}

// Change is a change of a repository: from the merge base to the head of a merge request.
type Change struct{ Base, Head gitstore.Commit }

// Pin is a change of a repository that a fleet takes content from.
type Pin struct {
	Name       string        // of the repository in the fleet
	Base, Head gitstore.Hash // commits of that repository
}

// Dependencies are the merge requests that one depends on, directly or through others. A nil pointer is none.
type Dependencies struct {
	Place    hint.Place // of the merge request that depends on them
	List     []*Dependency
	Failures []string // lines that cannot be followed

	named []Reference // all that were read or do not exist, at most MaxDependencies
	// declared maps each concerned fleet to the repositories that it declares, by place, and to itself.
	declared map[hint.Place]map[hint.Place][]Declaration
	identity string // everything that a review takes from the dependencies
}

// identify sets the identity.
func (d *Dependencies) identify() {
	var b strings.Builder
	for _, one := range d.List {
		fmt.Fprintf(&b, "%s %s %s %q %t %s\n", one.Key(), one.MR.State, one.MR.Head, one.MR.TargetBranch, one.Own,
			one.NotRendered)
	}
	d.identity = b.String() + strings.Join(d.Failures, "\n")
}

// waits returns what the status of the merge request waits for; "" if it waits for nothing.
func (d *Dependencies) waits() string {
	var open []string
	for _, one := range d.List {
		if one.MR.State == forge.Open {
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

// Shown returns the dependencies for the report.
func (d *Dependencies) Shown() []report.Companion {
	var out []report.Companion
	for _, one := range d.List {
		part := one.part()
		if why := d.whyHiddenEverywhere(one); why != "" && one.MR.State == forge.Open && one.NotRendered == "" {
			part = "open, not rendered here: " + why
		}
		out = append(out, report.Companion{Name: one.String(), Head: one.MR.Head, Part: part})
	}
	return out
}

// Unfetched returns the open dependencies that are rendered and have no Change.
func (d *Dependencies) Unfetched() []*Dependency {
	if d == nil {
		return nil
	}
	var out []*Dependency
	for _, one := range d.List {
		if one.MR.State == forge.Open && one.NotRendered == "" && one.Change == nil {
			out = append(out, one)
		}
	}
	return out
}

// IsFleet reports whether a place is that of a concerned fleet.
func (d *Dependencies) IsFleet(p hint.Place) bool {
	_, ok := d.declared[p.Fold()]
	return ok
}

// whyHiddenEverywhere returns why no review renders an open dependency because of whyHidden; "" if one does.
func (d *Dependencies) whyHiddenEverywhere(one *Dependency) (why string) {
	for _, fleetPlace := range slices.Sorted(maps.Keys(d.declared)) {
		if why = d.whyHidden(fleetPlace, one); why == "" {
			return ""
		}
	}
	return why
}

// part returns what the dependency contributes to a review, for the report.
func (d *Dependency) part() string {
	switch {
	case d.MR.State != forge.Open:
		return string(d.MR.State)
	case d.NotRendered != "":
		return "open, not rendered here: " + d.NotRendered
	}
	return "open, rendered here"
}

// Rendered is what the review in a fleet renders of the dependencies.
type Rendered struct {
	Pins   []Pin   // changes of repositories that the fleet takes content from
	Change *Change // of the fleet itself; nil: none
	Own    bool    // people with write access made all changes
}

// In returns what the review in a fleet renders of the dependencies.
func (d *Dependencies) In(place hint.Place) Rendered {
	out := Rendered{Own: true}
	if d == nil {
		return out
	}
	for _, one := range d.List {
		if one.Change == nil || d.whyHidden(place, one) != "" {
			continue
		}
		out.Own = out.Own && one.Own
		for _, declaration := range d.declared[place.Fold()][one.Place.Fold()] {
			switch {
			case declaration.Name == "":
				out.Change = one.Change
			case declaration.Takes(one.MR.TargetBranch):
				out.Pins = append(out.Pins,
					Pin{Name: declaration.Name, Base: one.Change.Base.Hash, Head: one.Change.Head.Hash})
			}
		}
	}
	return out
}

// Show adds the dependencies to the review in a fleet. It must be called before the review is published.
func (d *Dependencies) Show(r *report.Review, place hint.Place) {
	if d == nil {
		return
	}
	r.Companions, r.Waits = d.Shown(), d.waits()
	for i, one := range d.List {
		if one.MR.State != forge.Open || one.NotRendered != "" {
			continue
		}
		if why := d.whyHidden(place, one); why != "" {
			r.Companions[i].Part = "open, not rendered here: " + why
			continue
		}
		if all := d.declared[place.Fold()]; !mayShow(all[d.Place.Fold()], all[one.Place.Fold()]) {
			r.Companions[i].Repository = one.Place.String()
		}
	}
	if len(d.Failures) > 0 {
		r.Errors = append(r.Errors, d.Failures...)
		r.Verdict = report.VerdictError
	}
}

// Identity returns a text that is equal if a review takes the same from the dependencies; "" if there are none.
func (d *Dependencies) Identity() string {
	if d == nil {
		return ""
	}
	return d.identity
}
