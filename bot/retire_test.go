package bot

import (
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// Comments of two fleets never have the same ID. A comment from the time when they could is taken over if it can be of one fleet only.
func TestCommentIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]hint.Place{}
	for _, p := range []hint.Place{"f:a/b/c", "f:a/b.c", "f:a.b/c", "f:a.b.c/d", "f:a/b%2Ec", "f:a/b"} {
		if other, ok := seen[commentID(p)]; ok {
			t.Errorf("%s and %s: %s", p, other, commentID(p))
		}
		seen[commentID(p)] = p
	}
	one, two := use{fleet: "f:a/b.c"}, use{fleet: "f:a/b/c"}
	if got := earlierCommentID(one.fleet, []use{one}); got != "a.b.c" {
		t.Errorf("earlier ID %q", got)
	}
	for _, u := range []use{one, two} {
		if got := earlierCommentID(u.fleet, []use{one, two}); got != "" {
			t.Errorf("%s: the earlier ID %q is of two fleets", u.fleet, got)
		}
	}
}

// The uses that ended are known until the fleet asks again, and their repositories are swept.
func TestUsesThatEnd(t *testing.T) {
	t.Parallel()
	u := newUses()
	asks := map[hint.Place]use{"f:Acme/components": {fleet: "f:acme/fleet", name: "components"}}
	u.set("f:acme/fleet", asks)
	if got := u.set("f:acme/fleet", nil); !slices.Equal(got, []hint.Place{"f:Acme/components"}) {
		t.Errorf("to sweep: %q", got)
	}
	if got := u.over("f:acme/Components"); !slices.Equal(got, []hint.Place{"f:acme/fleet"}) {
		t.Errorf("over: %q", got)
	}
	u.set("f:acme/fleet", asks)
	if got := u.over("f:acme/components"); len(got) > 0 {
		t.Errorf("over although the fleet asks again: %q", got)
	}
	u.forget("f:acme/fleet", "f:acme/components")
	if got := u.over("f:acme/components"); len(got) != 1 {
		t.Errorf("over: %q", got)
	}
}
