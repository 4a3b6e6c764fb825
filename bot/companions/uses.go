package companions

import (
	"cmp"
	"slices"
	"sync"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/gitstore"
)

// Use is a fleet that takes content from a repository and shows reviews there.
type Use struct {
	Fleet  hint.Place
	Place  hint.Place    // the repository, as the fleet's trunk or the configuration spells it
	Name   string        // of the repository in the fleet
	Branch string        // that the fleet takes; "" if it takes tags
	Trunk  gitstore.Hash // tree of the fleet's trunk
	More   []Declaration // of the same repository with other names
}

func (u *Use) equal(v *Use) bool {
	return u.Fleet == v.Fleet && u.Place == v.Place && u.Name == v.Name && u.Branch == v.Branch && u.Trunk == v.Trunk &&
		slices.EqualFunc(u.More, v.More,
			func(a, b Declaration) bool { return a.Name == b.Name && a.Branch == b.Branch })
}

// Names returns the names of the repository in the fleet that take a branch; the first name if none does.
func (u *Use) Names(branch string) []string {
	var out []string
	for _, d := range append([]Declaration{{Name: u.Name, Branch: u.Branch}}, u.More...) {
		if d.Takes(branch) {
			out = append(out, d.Name)
		}
	}
	if len(out) == 0 {
		return []string{u.Name}
	}
	return out
}

// maxUses bounds the fleets that review one merge request.
const maxUses = 8

// Uses maps each fleet to the repositories that it takes content from. The tasks of the fleets' trunks update it. It is
// safe for concurrent use.
type Uses struct {
	mu      sync.Mutex
	byFleet map[hint.Place]map[hint.Place]Use // fleet → repository → use; the keys are folded
	// repository → fleet → use that the fleet no longer asks for; the keys are folded
	ended map[hint.Place]map[hint.Place]Use
}

// NewUses returns a Uses that knows no fleet.
func NewUses() *Uses {
	return &Uses{byFleet: map[hint.Place]map[hint.Place]Use{}, ended: map[hint.Place]map[hint.Place]Use{}}
}

// Of returns the fleets that take content from a repository, by name, at most maxUses.
func (u *Uses) Of(p hint.Place) []Use {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []Use
	for _, all := range u.byFleet {
		if one, ok := all[p.Fold()]; ok {
			out = append(out, one)
		}
	}
	slices.SortStableFunc(out, func(a, b Use) int { return cmp.Compare(a.Fleet, b.Fleet) })
	return out[:min(len(out), maxUses)]
}

// SweptWith returns the repositories to sweep with a fleet that takes content from them. It omits repositories that are
// fleets with such content themselves. They have their own sweeps, and two fleets that take content from each other
// would trigger each other's sweeps forever.
func (u *Uses) SweptWith(fleetPlace hint.Place) []hint.Place {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []hint.Place
	for p, one := range u.byFleet[fleetPlace.Fold()] {
		if len(u.byFleet[p]) == 0 {
			out = append(out, one.Place)
		}
	}
	slices.Sort(out)
	return out
}

// Set replaces the uses of a fleet. It returns the repositories whose use is new, ended or changed; a new trunk changes
// all uses.
func (u *Uses) Set(fleetPlace hint.Place, next map[hint.Place]Use) []hint.Place {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []hint.Place
	folded := make(map[hint.Place]Use, len(next))
	for p, one := range next {
		one.Place = p
		if before, ok := u.byFleet[fleetPlace.Fold()][p.Fold()]; !ok || !before.equal(&one) {
			out = append(out, p)
		}
		folded[p.Fold()] = one
		delete(u.ended[p.Fold()], fleetPlace.Fold())
	}
	for p, one := range u.byFleet[fleetPlace.Fold()] {
		if _, still := folded[p]; !still {
			u.end(fleetPlace, p, one)
			out = append(out, one.Place)
		}
	}
	slices.Sort(out)
	u.byFleet[fleetPlace.Fold()] = folded
	return out
}

// Forget removes a repository from those of a fleet that no longer asks for reviews.
func (u *Uses) Forget(fleetPlace, p hint.Place) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if one, ok := u.byFleet[fleetPlace.Fold()][p.Fold()]; ok {
		u.end(fleetPlace, p, one)
	}
	delete(u.byFleet[fleetPlace.Fold()], p.Fold())
}

// end records that a fleet no longer asks for reviews. The caller holds mu.
func (u *Uses) end(fleetPlace, p hint.Place, one Use) {
	if u.ended[p.Fold()] == nil {
		u.ended[p.Fold()] = map[hint.Place]Use{}
	}
	u.ended[p.Fold()][fleetPlace.Fold()] = one
}

// Ended returns the fleets that asked for reviews in a repository since the start of the process, and no longer do, by
// name.
func (u *Uses) Ended(p hint.Place) []hint.Place {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []hint.Place
	for _, one := range u.ended[p.Fold()] {
		out = append(out, one.Fleet)
	}
	slices.Sort(out)
	return out
}
