package bot

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/hint"
	"github.com/sluice-gitops/sluice/hydrate/fleet"
	"github.com/sluice-gitops/sluice/hydrate/gitstore"
)

// A fleet has merge requests reviewed only in repositories of its owner, on its forge, that the configuration names and whose declaration
// asks for it.
func TestWhichRepositoriesAFleetReviews(t *testing.T) {
	t.Parallel()
	var swept []string
	b := New(Config{
		PlaceOf: func(address string) (hint.Place, bool) {
			name, ok := strings.CutPrefix(address, "https://")
			return hint.Place(name), ok
		},
		Enqueue: func(_ context.Context, h hint.Hint) error {
			swept = append(swept, fmt.Sprintf("%s %s", h.Kind, h.Place))
			return nil
		},
	})
	j := &job{Bot: b, place: "f:acme/fleet", log: slog.New(slog.DiscardHandler)}
	repository := func(name, place string, reviews bool) *fleet.Repository {
		return &fleet.Repository{Name: name, URL: "https://" + place, Wanted: "refs/heads/main", Reviews: reviews}
	}
	f := &fleet.Fleet{Repositories: []*fleet.Repository{
		repository("components", "f:Acme/components", true),
		repository("quiet", "f:acme/quiet", false),
		repository("another-owner", "f:evil/fleet", true),
		repository("another-forge", "g:acme/components", true),
		repository("itself", "f:acme/fleet", true),
		{Name: "unknown", URL: "ssh://elsewhere/acme/x", Wanted: "refs/heads/main", Reviews: true},
	}}
	learn := func(f *fleet.Fleet, tree byte) {
		t.Helper()
		swept = nil
		if err := learnUses(t.Context(), j, f, gitstore.Hash{tree}); err != nil {
			t.Fatal(err)
		}
	}
	learn(f, 1)
	if !slices.Equal(swept, []string{"sweep f:Acme/components"}) || !b.Uses("f:Acme/components") {
		t.Errorf("swept: %q", swept)
	}
	for _, p := range []hint.Place{"f:acme/quiet", "f:evil/fleet", "g:acme/components", "f:acme/fleet"} {
		if b.Uses(p) {
			t.Errorf("merge requests of %s are reviewed", p)
		}
	}
	if learn(f, 1); len(swept) > 0 {
		t.Errorf("the same trunk: %q", swept)
	}
	if learn(f, 2); len(swept) != 1 {
		t.Errorf("another trunk: %q", swept)
	}
	if learn(&fleet.Fleet{}, 3); b.Uses("f:Acme/components") {
		t.Error("the fleet no longer has the repository")
	}
}

func TestFleetsOfARepositoryAreBounded(t *testing.T) {
	t.Parallel()
	u := &uses{byFleet: map[hint.Place]map[hint.Place]use{}}
	for i := range 3 * maxUses {
		p := hint.Place(fmt.Sprintf("f:acme/fleet-%02d", i))
		u.set(p, map[hint.Place]use{"f:acme/components": {fleet: p}})
	}
	if got := u.of("f:acme/components"); len(got) != maxUses || got[0].fleet != "f:acme/fleet-00" {
		t.Errorf("%d fleets, the first is %v", len(got), got[0])
	}
}

// Two fleets that take content from each other do not sweep each other in turn.
func TestFleetsOfEachOtherAreNotSwept(t *testing.T) {
	t.Parallel()
	u := &uses{byFleet: map[hint.Place]map[hint.Place]use{}}
	u.set("f:acme/one", map[hint.Place]use{"f:acme/two": {}, "f:acme/components": {}})
	u.set("f:acme/two", map[hint.Place]use{"f:acme/one": {}})
	if got := u.sweptWith("f:acme/one"); !slices.Equal(got, []hint.Place{"f:acme/components"}) {
		t.Errorf("swept with one: %q", got)
	}
	if got := u.sweptWith("f:acme/two"); len(got) > 0 {
		t.Errorf("swept with two: %q", got)
	}
}
