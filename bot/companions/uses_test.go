package companions

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/bot/hint"
)

func TestFleetsOfARepositoryAreBounded(t *testing.T) {
	t.Parallel()
	u := NewUses()
	for i := range 3 * maxUses {
		p := hint.Place(fmt.Sprintf("f:acme/fleet-%02d", i))
		u.Set(p, map[hint.Place]Use{"f:acme/components": {Fleet: p}})
	}
	if got := u.Of("f:acme/components"); len(got) != maxUses || got[0].Fleet != "f:acme/fleet-00" {
		t.Errorf("%d fleets, the first is %v", len(got), got[0])
	}
}

// Two fleets that take content from each other do not sweep each other in turn.
func TestFleetsOfEachOtherAreNotSwept(t *testing.T) {
	t.Parallel()
	u := NewUses()
	u.Set("f:acme/one", map[hint.Place]Use{"f:Acme/Two": {}, "f:acme/components": {}})
	u.Set("f:acme/two", map[hint.Place]Use{"f:Acme/One": {}})
	if got := u.SweptWith("f:acme/one"); !slices.Equal(got, []hint.Place{"f:acme/components"}) {
		t.Errorf("swept with one: %q", got)
	}
	if got := u.SweptWith("f:acme/two"); len(got) > 0 {
		t.Errorf("swept with two: %q", got)
	}
}

// The uses that ended are known until the fleet asks again, and their repositories are swept.
func TestUsesThatEnd(t *testing.T) {
	t.Parallel()
	u := NewUses()
	asks := map[hint.Place]Use{"f:Acme/components": {Fleet: "f:acme/fleet", Name: "components"}}
	u.Set("f:acme/fleet", asks)
	if got := u.Set("f:acme/fleet", nil); !slices.Equal(got, []hint.Place{"f:Acme/components"}) {
		t.Errorf("to sweep: %q", got)
	}
	if got := u.Ended("f:acme/Components"); !slices.Equal(got, []hint.Place{"f:acme/fleet"}) {
		t.Errorf("over: %q", got)
	}
	u.Set("f:acme/fleet", asks)
	if got := u.Ended("f:acme/components"); len(got) > 0 {
		t.Errorf("over although the fleet asks again: %q", got)
	}
	u.Forget("f:acme/fleet", "f:acme/components")
	if got := u.Ended("f:acme/components"); len(got) != 1 {
		t.Errorf("over: %q", got)
	}
}
