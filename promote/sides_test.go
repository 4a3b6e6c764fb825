package promote

import (
	"maps"
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// An object moved if one side lost it and the other one got it. What a side has in both trees, as an equal Namespace of
// two apps, did not move: a rollback of one of them is not refused for it.
func TestMovedObjects(t *testing.T) {
	t.Parallel()
	id := manifest.Identity{Kind: "Namespace", Name: "shop"}
	has := func(app string) side { return side{id: app} }
	for name, c := range map[string]struct {
		own, others [2]side
		want        []string
	}{
		"moved away":                 {[2]side{has("old"), {}}, [2]side{{}, has("new")}, []string{"new"}},
		"moved here":                 {[2]side{{}, has("new")}, [2]side{has("old"), {}}, []string{"old"}},
		"both had it all the time":   {[2]side{has("a"), has("a")}, [2]side{has("b"), has("b")}, nil},
		"another app has it as well": {[2]side{has("a"), has("a")}, [2]side{{}, has("b")}, nil},
		"it left one of two":         {[2]side{has("a"), {}}, [2]side{has("b"), has("b")}, nil},
		"moved within the scope":     {[2]side{has("a"), has("c")}, [2]side{{}, {}}, nil},
		"new on one side":            {[2]side{{}, has("a")}, [2]side{{}, {}}, nil},
	} {
		m := movedObjects{others: appSet{}}
		m.between("prod-1", c.own, c.others)
		if got := slices.Sorted(maps.Keys(m.others)); !slices.Equal(got, c.want) ||
			(m.first == "") != (len(c.want) == 0) {
			t.Errorf("%s: the others are %v, the first is %q", name, got, m.first)
		}
	}
}
