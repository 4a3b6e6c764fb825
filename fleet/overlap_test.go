package fleet

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// No pair of workspaces with overlapping namespaces is left out of the comparison, and workspaces with names alone are
// compared with few.
func TestWorkspacesThatMayOverlap(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "ab", "team-a", "team-b"}
	patterns := []string{"*", "a*", "team-?", "?"}
	overlaps := 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		var list []*Workspace
		for range 8 {
			w := &Workspace{}
			for range r.IntN(3) {
				if r.IntN(6) == 0 {
					w.Spec.Namespaces = append(w.Spec.Namespaces, patterns[r.IntN(len(patterns))])
				} else {
					w.Spec.Namespaces = append(w.Spec.Namespaces, names[r.IntN(len(names))])
				}
			}
			list = append(list, w)
		}
		near := mayOverlap(list)
		for i := range list {
			if !slices.IsSorted(near[i]) || len(slices.Compact(slices.Clone(near[i]))) != len(near[i]) ||
				slices.Contains(near[i], i) {
				t.Fatalf("seed %d: %d is near %v", seed, i, near[i])
			}
			for j := range i {
				_, _, overlap := overlapping(list[i].Spec.Namespaces, list[j].Spec.Namespaces)
				if overlap {
					overlaps++
				}
				if overlap && !slices.Contains(near[i], j) {
					t.Fatalf("seed %d: %v and %v overlap and are not compared", seed, list[i].Spec.Namespaces,
						list[j].Spec.Namespaces)
				}
			}
		}
	}
	if overlaps < 1000 {
		t.Errorf("%d overlaps: the lists test too little", overlaps)
	}
	pairs := 0
	var many []*Workspace
	for i := range 300 {
		many = append(many, &Workspace{Spec: WorkspaceSpec{Namespaces: []string{string(rune('a' + i))}}})
	}
	for _, near := range mayOverlap(many) {
		pairs += len(near)
	}
	if pairs != 0 {
		t.Errorf("%d pairs of 300 workspaces with names of their own", pairs)
	}
}
