package bot

import (
	"context"
	"slices"
	"sync"

	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/fleet"
)

// followers maps each fleet to the repositories that it follows. The tasks of the fleets' trunks update it. It is safe
// for concurrent use.
type followers struct {
	mu sync.Mutex
	// fleet → repository → branches, "" for tags; the repositories are folded
	byFleet map[hint.Place]map[hint.Place][]string
	outputs map[hint.Place]hint.Place // fleet → repository of its rendered branches, both folded
}

func newFollowers() *followers {
	return &followers{byFleet: map[hint.Place]map[hint.Place][]string{}, outputs: map[hint.Place]hint.Place{}}
}

// set replaces the repositories that a fleet follows. It reports whether the fleet followed some before.
func (f *followers) set(fleetPlace hint.Place, followed map[hint.Place][]string) (before bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before = len(f.byFleet[fleetPlace]) > 0
	if delete(f.byFleet, fleetPlace); len(followed) > 0 {
		f.byFleet[fleetPlace] = followed
	}
	return before
}

// output records where a fleet writes its rendered branches. Each commit of its trunk starts one there.
func (f *followers) output(fleetPlace, repository hint.Place) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outputs[fleetPlace.Fold()] = repository.Fold()
}

// is reports whether a repository is a fleet's own, or holds its rendered branches.
func (f *followers) is(p, fleetPlace hint.Place) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.same(p, fleetPlace)
}

func (f *followers) same(p, fleetPlace hint.Place) bool {
	return p.Fold() == fleetPlace.Fold() || f.outputs[fleetPlace.Fold()] == p.Fold()
}

// reaches reports whether a fleet follows another one, also through others.
func (f *followers) reaches(from, to hint.Place) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := map[hint.Place]bool{}
	for next := []hint.Place{from.Fold()}; len(next) > 0; next = next[1:] {
		for fleetPlace, all := range f.byFleet {
			if !f.same(next[0], fleetPlace) {
				continue
			}
			for p := range all {
				if f.same(p, to) {
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

// Followers returns the fleets that follow a repository, by name. Until a process has worked on the trunk of a fleet,
// it does not know what that fleet follows; the next sweep of the fleet finds what it missed.
func (b *Bot) Followers(p hint.Place) []hint.Place {
	return b.followers.of(p, func([]string) bool { return true })
}

// FollowersOf returns the fleets that follow a branch of the repository. An empty branch stands for its tags.
func (b *Bot) FollowersOf(p hint.Place, branch string) []hint.Place {
	return b.followers.of(p, func(taken []string) bool { return slices.Contains(taken, branch) })
}

func (f *followers) of(p hint.Place, take func(branches []string) bool) []hint.Place {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []hint.Place
	for fleetPlace, all := range f.byFleet {
		if branches, ok := all[p.Fold()]; ok && take(branches) {
			out = append(out, fleetPlace)
		}
	}
	slices.Sort(out)
	return out
}

// followKey is the key of the trunk whose followed repositories were enqueued last.
const followKey = "followed from"

// enqueue records which repositories the trunk of a fleet follows. It enqueues the task that looks for new commits in
// them if the trunk is new or a sweep asks for it, and only for a fleet that follows some, did so before, or has merge
// requests of one that it no longer follows.
func (t *follower) enqueue(ctx context.Context) error {
	before := t.learn()
	follows := slices.ContainsFunc(t.fleet.Repositories, func(r *fleet.Repository) bool { return r.Follow.On() })
	follows = follows || before || len(t.endedBranches()) > 0
	if !follows || !t.hint.Force && t.seen(followKey, t.tip.Hash.String()) {
		return nil
	}
	if err := t.Enqueue(ctx, hint.Hint{Place: t.place, Kind: hint.Follow}); err != nil {
		return err
	}
	t.remember(followKey, t.tip.Hash.String())
	return nil
}

// learn records the repository of a fleet's rendered branches, and the repositories that it follows. It reports whether
// the fleet followed some before.
func (t *follower) learn() (before bool) {
	output, ok := t.PlaceOf(t.fleet.Spec.Output.Repository)
	if !ok {
		output = t.place
	}
	t.followers.output(t.place, output)
	followed := map[hint.Place][]string{}
	for _, r := range t.fleet.Repositories {
		if p, ok := t.PlaceOf(r.URL); ok && r.Follow.On() {
			followed[p.Fold()] = append(followed[p.Fold()], companions.DeclarationOf(p, r).Branch)
		}
	}
	return t.followers.set(t.place, followed)
}
