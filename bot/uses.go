package bot

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
)

// use is a fleet that takes content from a repository and shows reviews there.
type use struct {
	fleet  hint.Place
	place  hint.Place    // the repository, as the fleet's trunk or the configuration spells it
	name   string        // of the repository in the fleet
	branch string        // that the fleet takes; "" if it takes tags
	trunk  gitstore.Hash // tree of the fleet's trunk
	more   []declaration // of the same repository with other names
}

func (u *use) equal(v *use) bool {
	return u.fleet == v.fleet && u.place == v.place && u.name == v.name && u.branch == v.branch && u.trunk == v.trunk &&
		slices.EqualFunc(u.more, v.more, func(a, b declaration) bool { return a.name == b.name && a.branch == b.branch })
}

// names returns the names of the repository in the fleet that take a branch; the first name if none does.
func (u *use) names(branch string) []string {
	var out []string
	for _, d := range append([]declaration{{name: u.name, branch: u.branch}}, u.more...) {
		if d.takes(branch) {
			out = append(out, d.name)
		}
	}
	if len(out) == 0 {
		return []string{u.name}
	}
	return out
}

// maxUses bounds the fleets that review one merge request.
const maxUses = 8

// uses maps each fleet to the repositories that it takes content from. The tasks of the fleets' trunks update it. It is safe for
// concurrent use.
type uses struct {
	mu      sync.Mutex
	byFleet map[hint.Place]map[hint.Place]use // fleet → repository → use; the keys are folded
	ended   map[hint.Place]map[hint.Place]use // repository → fleet → use that the fleet no longer asks for; the keys are folded
}

func newUses() *uses {
	return &uses{byFleet: map[hint.Place]map[hint.Place]use{}, ended: map[hint.Place]map[hint.Place]use{}}
}

// fold returns a place that is equal for all spellings of a repository: forges ignore the case of paths.
func fold(p hint.Place) hint.Place { return hint.NewPlace(p.Forge(), strings.ToLower(p.Repo().Path)) }

// of returns the fleets that take content from a repository, by name, at most maxUses.
func (u *uses) of(p hint.Place) []use {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []use
	for _, all := range u.byFleet {
		if one, ok := all[fold(p)]; ok {
			out = append(out, one)
		}
	}
	slices.SortStableFunc(out, func(a, b use) int { return cmp.Compare(a.fleet, b.fleet) })
	return out[:min(len(out), maxUses)]
}

// sweptWith returns the repositories to sweep with a fleet that takes content from them. It omits
// repositories that are fleets with such content themselves. They have their own sweeps, and two fleets that take content from each
// other would trigger each other's sweeps forever.
func (u *uses) sweptWith(fleetPlace hint.Place) []hint.Place {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []hint.Place
	for p, one := range u.byFleet[fold(fleetPlace)] {
		if len(u.byFleet[p]) == 0 {
			out = append(out, one.place)
		}
	}
	slices.Sort(out)
	return out
}

// set replaces the repositories of a fleet. It returns those that are new, that ended or whose entry changed; a new trunk changes all
// entries.
func (u *uses) set(fleetPlace hint.Place, next map[hint.Place]use) []hint.Place {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []hint.Place
	folded := make(map[hint.Place]use, len(next))
	for p, one := range next {
		one.place = p
		if before, ok := u.byFleet[fold(fleetPlace)][fold(p)]; !ok || !before.equal(&one) {
			out = append(out, p)
		}
		folded[fold(p)] = one
		delete(u.ended[fold(p)], fold(fleetPlace))
	}
	for p, one := range u.byFleet[fold(fleetPlace)] {
		if _, still := folded[p]; !still {
			u.end(fleetPlace, p, one)
			out = append(out, one.place)
		}
	}
	slices.Sort(out)
	u.byFleet[fold(fleetPlace)] = folded
	return out
}

// forget removes a repository from those of a fleet that no longer asks for reviews.
func (u *uses) forget(fleetPlace, p hint.Place) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if one, ok := u.byFleet[fold(fleetPlace)][fold(p)]; ok {
		u.end(fleetPlace, p, one)
	}
	delete(u.byFleet[fold(fleetPlace)], fold(p))
}

// end records that a fleet no longer asks for reviews. The caller holds mu.
func (u *uses) end(fleetPlace, p hint.Place, one use) {
	if u.ended[fold(p)] == nil {
		u.ended[fold(p)] = map[hint.Place]use{}
	}
	u.ended[fold(p)][fold(fleetPlace)] = one
}

// over returns the fleets that asked for reviews in a repository since the start of the process, and no longer do, by name.
func (u *uses) over(p hint.Place) []hint.Place {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []hint.Place
	for _, one := range u.ended[fold(p)] {
		out = append(out, one.fleet)
	}
	slices.Sort(out)
	return out
}

// Uses reports whether a fleet takes content from a repository and shows reviews there.
func (b *Bot) Uses(p hint.Place) bool { return len(b.uses.of(p)) > 0 }

// learnUses records the repositories whose merge requests the fleet's trunk asks to review. It enqueues sweeps of the repositories that
// are new, and of all of them if the trunk moved.
func (t *task) learnUses(ctx context.Context, f *fleet.Fleet, trunk gitstore.Hash) error {
	next := map[hint.Place]use{}
	for _, r := range f.Repositories {
		if !r.Reviews {
			continue
		}
		p, ok := t.PlaceOf(r.URL)
		if !ok || fold(p) == fold(t.place) || !sameOwner(p, t.place) {
			t.log.Warn("merge requests of a repository are not reviewed: it must have the owner of the fleet, and be among the repositories of the same forge in the configuration",
				"name", r.Name, "url", r.URL)
			continue
		}
		d := declarationOf(p, r)
		one := use{fleet: t.place, name: d.name, branch: d.branch, trunk: trunk}
		for had, first := range next {
			if fold(had) == fold(p) {
				first.more = append(first.more, d)
				p, one = had, first
				break
			}
		}
		next[p] = one
	}
	return t.enqueueSweeps(ctx, t.uses.set(t.place, next))
}

// sameOwner reports whether two repositories have one owner on one forge. A fleet of another owner must neither read a repository with the
// service's credential nor have the service write there.
func sameOwner(a, b hint.Place) bool {
	return a.Forge() == b.Forge() && ownerOf(a) == ownerOf(b)
}

func (t *task) enqueueSweeps(ctx context.Context, places []hint.Place) error {
	for _, p := range places {
		if err := t.Enqueue(ctx, hint.Hint{Place: p, Kind: hint.Sweep}); err != nil {
			return err
		}
	}
	return nil
}
