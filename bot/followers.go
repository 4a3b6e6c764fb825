package bot

import (
	"context"
	"slices"
	"sync"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// followers maps each fleet to the repositories that it follows. The tasks of the fleets' trunks update it. It is safe for concurrent use.
type followers struct {
	mu      sync.Mutex
	byFleet map[hint.Place]map[hint.Place]bool // fleet → repository; the repositories are folded
}

func newFollowers() *followers { return &followers{byFleet: map[hint.Place]map[hint.Place]bool{}} }

// set replaces the repositories that a fleet follows. It reports whether the fleet followed some before.
func (f *followers) set(fleetPlace hint.Place, followed map[hint.Place]bool) (before bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before = len(f.byFleet[fleetPlace]) > 0
	if delete(f.byFleet, fleetPlace); len(followed) > 0 {
		f.byFleet[fleetPlace] = followed
	}
	return before
}

// reaches reports whether a fleet follows another one, also through others.
func (f *followers) reaches(from, to hint.Place) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := map[hint.Place]bool{}
	for next := []hint.Place{fold(from)}; len(next) > 0; next = next[1:] {
		for fleetPlace, all := range f.byFleet {
			if fold(fleetPlace) != next[0] {
				continue
			}
			for p := range all {
				if p == fold(to) {
					return true
				}
				if !seen[p] {
					seen[p], next = true, append(next, p)
				}
			}
		}
	}
	return false
}

// Followers returns the fleets that follow a repository, by name. Until a process has worked on the trunk of a fleet, it does not know what
// that fleet follows; the next sweep of the fleet finds what it missed.
func (b *Bot) Followers(p hint.Place) []hint.Place {
	b.followers.mu.Lock()
	defer b.followers.mu.Unlock()
	var out []hint.Place
	for fleetPlace, all := range b.followers.byFleet {
		if all[fold(p)] {
			out = append(out, fleetPlace)
		}
	}
	slices.Sort(out)
	return out
}

// learnFollowed records which repositories the trunk of a fleet follows. If there are some, or merge requests of some that it followed, and the trunk is new or a sweep asks for it, it
// enqueues the task that looks for new commits in them.
func learnFollowed(ctx context.Context, j *job, f *fleet.Fleet, trunk gitstore.Hash) error {
	followed, follows := map[hint.Place]bool{}, false
	for _, r := range f.Repositories {
		if !r.Follow.On() {
			continue
		}
		follows = true
		if p, ok := j.PlaceOf(r.URL); ok {
			followed[fold(p)] = true
		}
	}
	follows = j.followers.set(j.place, followed) || follows || len(endedBranches(j, f)) > 0
	const key = "followed from"
	if !follows || !j.hint.Force && j.seen(key, trunk.String()) {
		return nil
	}
	if err := j.Enqueue(ctx, hint.Hint{Place: j.place, Kind: hint.Follow}); err != nil {
		return err
	}
	j.remember(key, trunk.String())
	return nil
}
