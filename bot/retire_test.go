package bot

import (
	"testing"

	"github.com/sluice-gitops/sluice/bot/companions"
	"github.com/sluice-gitops/sluice/bot/hint"
)

// Comments of two fleets never have the same ID. A comment from the time when they could is taken over if it can be of
// one fleet only.
func TestCommentIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]hint.Place{}
	for _, p := range []hint.Place{"f:a/b/c", "f:a/b.c", "f:a.b/c", "f:a.b.c/d", "f:a/b%2Ec", "f:a/b"} {
		if other, ok := seen[commentID(p)]; ok {
			t.Errorf("%s and %s: %s", p, other, commentID(p))
		}
		seen[commentID(p)] = p
	}
	one, two := companions.Use{Fleet: "f:a/b.c"}, companions.Use{Fleet: "f:a/b/c"}
	if got := earlierCommentID(one.Fleet, []companions.Use{one}); got != "a.b.c" {
		t.Errorf("earlier ID %q", got)
	}
	for _, u := range []companions.Use{one, two} {
		if got := earlierCommentID(u.Fleet, []companions.Use{one, two}); got != "" {
			t.Errorf("%s: the earlier ID %q is of two fleets", u.Fleet, got)
		}
	}
}
