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

// A merge request can name others in lines `Depends-On: URL` of its description. Its review then renders the fleet with
// all of them, and compares with the fleet without any of them. Its status waits until they are merged.
//
// A companion never gets more rights by being named. The bot takes it in only
//
//   - if the trunk of a fleet that is concerned declares its repository, or it is in that fleet itself, with the same owner;
//   - if its own review would render it: somebody with write access in its repository wrote or trusted the head;
//   - if the author of the merge request that names it has write access there, and may read the companion's repository.

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
	MR     *forge.MergeRequest
	Own    bool    // somebody with write access wrote the head
	Alone  string  // why it is not rendered together with the other; "" if it is
	Change *Change // what is rendered; nil until the caller fetched it
}

// Change is a change of a repository: from the merge base to the head of a merge request.
type Change struct{ Base, Head gitstore.Commit }

// Pin is a change of a repository that a fleet takes content from.
type Pin struct {
	Name       string        // of the repository in the fleet
	Base, Head gitstore.Hash // commits of that repository
}

// Dependencies are the merge requests that one depends on, directly or through others.
type Dependencies struct {
	List     []*Dependency
	Failures []string    // lines that cannot be followed
	named    []Reference // all that were read or do not exist, at most MaxDependencies
	// declared maps each concerned fleet to the repositories that it declares, by place, and to itself.
	declared map[hint.Place]map[hint.Place][]Declaration
	Place    hint.Place // of the merge request
	state    string     // everything that a review takes from the dependencies
}

// identify sets the state.
func (d *Dependencies) identify() {
	var b strings.Builder
	for _, one := range d.List {
		fmt.Fprintf(&b, "%s %s %s %q %t %s\n", one.Key(), one.MR.State, one.MR.Head, one.MR.TargetBranch, one.Own,
			one.Alone)
	}
	d.state = b.String() + strings.Join(d.Failures, "\n")
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
		if why := d.hiddenEverywhere(one); why != "" && one.MR.State == forge.Open && one.Alone == "" {
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
		if one.MR.State == forge.Open && one.Alone == "" && one.Change == nil {
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

// hiddenEverywhere returns why no review takes in an open merge request that others may; "" if one does.
func (d *Dependencies) hiddenEverywhere(one *Dependency) (why string) {
	for _, fleetPlace := range slices.Sorted(maps.Keys(d.declared)) {
		if why = d.hidden(fleetPlace, one); why == "" {
			return ""
		}
	}
	return why
}

func (d *Dependency) part() string {
	switch {
	case d.MR.State != forge.Open:
		return string(d.MR.State)
	case d.Alone != "":
		return "open, not rendered here: " + d.Alone
	}
	return "open, rendered here"
}

// In returns what a review in a fleet takes in: changes of repositories, a change of the fleet itself, and whether
// people with write access made all of them.
func (d *Dependencies) In(place hint.Place) (pins []Pin, change *Change, own bool) {
	own = true
	if d == nil {
		return nil, nil, own
	}
	for _, one := range d.List {
		if one.Change == nil || d.hidden(place, one) != "" {
			continue
		}
		own = own && one.Own
		for _, as := range d.declared[place.Fold()][one.Place.Fold()] {
			switch {
			case as.Name == "":
				change = one.Change
			case as.Takes(one.MR.TargetBranch):
				pins = append(pins, Pin{Name: as.Name, Base: one.Change.Base.Hash, Head: one.Change.Head.Hash})
			}
		}
	}
	return pins, change, own
}

// Show adds the dependencies to the review in a fleet. It must be called before the review is published.
func (d *Dependencies) Show(r *report.Review, place hint.Place) {
	if d == nil {
		return
	}
	r.Companions, r.Waits = d.Shown(), d.waits()
	for i, one := range d.List {
		if one.MR.State != forge.Open || one.Alone != "" {
			continue
		}
		if why := d.hidden(place, one); why != "" {
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

// Identity returns the state; "" if there are no dependencies.
func (d *Dependencies) Identity() string {
	if d == nil {
		return ""
	}
	return d.state
}
