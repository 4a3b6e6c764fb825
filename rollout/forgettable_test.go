package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/rollout"
)

// However often an upstream environment changes, what has baked there is promoted: nobody keeps an environment from
// moving by merging often.
func TestBakeOfManyCommits(t *testing.T) {
	t.Parallel()
	for name, states := range map[string][]string{
		"healthy":              {"success", "success", "success"},
		"with a red workspace": {"failure", "success", "success"},
	} {
		for _, bake := range []int{120, 480} {
			if testing.Short() && bake > 120 {
				continue
			}
			w := newUpstream(t)
			w.s.Environment.Promotion.Bake = fleet.Duration(fmt.Sprint(bake, "m"))
			first := -1
			for i := 0; i < bake*3/2 && first < 0; i++ {
				commit := fmt.Sprintf("d%05d", i)
				w.s.Trunk = append(w.s.Trunk, commit)
				w.runs(commit)
				w.says(states...)
				if _, gate := w.proposes(""); gate.State == rollout.Green {
					first = i
				}
				w.later(time.Minute)
			}
			if first < bake || first > bake*11/10 {
				t.Errorf("%s, bake of %d minutes: promoted after %d", name, bake, first)
			}
		}
	}
}

// minute is what an upstream environment ran in a minute: the commits of everything else and of team-a, and whether
// team-a was red.
type minute struct {
	commit, tenant int
	red            bool
}

// next is a minute later: a new commit, or something goes back.
func (m minute) next(r *rand.Rand) minute {
	switch x := r.IntN(100); {
	case x < 80:
		m.commit += 1 + r.IntN(2)
		if !m.red || r.IntN(10) == 0 {
			m.tenant, m.red = m.commit, r.IntN(25) == 0
		}
	case x < 83: // it goes back
		m.commit = max(1, m.commit-r.IntN(10))
		m.tenant, m.red = min(m.tenant, m.commit), false
	case x < 86: // team-a alone goes back
		m.tenant, m.red = max(1, m.tenant-r.IntN(10)), false
	}
	m.commit = min(m.commit, 400)
	m.tenant = min(m.tenant, m.commit)
	return m
}

// A record that is full forgets nothing that proves that something must not be promoted: that the upstream environment
// went back in between, or that a workspace was red.
func TestFullHistoryForgetsNoProof(t *testing.T) {
	t.Parallel()
	const bake = 30
	seeds := 6
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		w := newUpstream(t)
		w.s.Environment.Promotion.Bake = fleet.Duration(fmt.Sprint(bake, "m"))
		w.s.Trunk = rollout.Trunk{"c1"}
		for i := range 400 {
			w.s.Trunk = append(w.s.Trunk, fmt.Sprintf("d%03d", i))
		}
		var past []minute
		now := minute{1, 1, false}
		promoted, moves := 0, 0
		for range 300 {
			now = now.next(r)
			past = append(past, now)
			w.runs(w.s.Trunk[now.commit])
			if now.tenant < now.commit {
				w.s.Before[0].Source.Apps = map[string]string{cart: w.s.Trunk[now.tenant]}
			}
			state := map[bool]string{true: "failure", false: "success"}[now.red]
			w.says(state, "success", "success")
			next, gate := w.proposes("")
			w.later(time.Minute)
			if next == nil || gate.State != rollout.Green {
				continue
			}
			promoted++
			recent := past[max(0, len(past)-bake):]
			commit, tenant := slices.Index(w.s.Trunk, next.Source.Commit), slices.Index(w.s.Trunk, next.Source.Of(cart))
			had := slices.Index(w.s.Trunk, w.s.Running.Source.Of(cart))
			if len(past) < bake || slices.ContainsFunc(recent, func(m minute) bool { return m.commit < commit }) {
				t.Fatalf("seed %d, minute %d: %d did not bake: %+v", seed, len(past), commit, recent)
			}
			if tenant > had && slices.ContainsFunc(recent, func(m minute) bool { return m.red || m.tenant < tenant }) {
				t.Fatalf("seed %d, minute %d: %d of team-a did not bake: %+v", seed, len(past), tenant, recent)
			}
			if r.IntN(20) == 0 {
				before := w.s.Before
				w.branch(fmt.Sprint("t", len(past)), next.Source)
				w.s.Before = before
				for i := range w.s.Clusters {
					w.s.Clusters[i].Tree = w.s.Clusters[i].Desired
				}
				w.post("success", cart, till, dns)
				moves++
			}
		}
		if promoted == 0 || moves == 0 {
			t.Errorf("seed %d proves nothing: %d proposals, %d moves", seed, promoted, moves)
		}
	}
}
