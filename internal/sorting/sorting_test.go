package sorting_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-gitops/sluice/internal/sorting"
)

type entry struct {
	name  string
	place int
}

func byName(a, b entry) int { return cmp.Compare(a.name, b.name) }

func TestFuncEqualsTheStableSort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) // the test is repeatable
	for n := range 300 {
		list := make([]entry, n)
		for i := range list {
			list[i] = entry{fmt.Sprint(r.IntN(n/2 + 1)), i}
		}
		if n%3 == 0 { // sorted already
			slices.SortStableFunc(list, byName)
		}
		want := slices.Clone(list)
		slices.SortStableFunc(want, byName)
		sorting.Func(list, byName)
		if !slices.Equal(list, want) {
			t.Fatalf("%d elements: got %v, want %v", n, list, want)
		}
	}
}

func TestFuncOfASortedListAllocatesNothing(t *testing.T) {
	list := []entry{{"a", 0}, {"b", 1}, {"b", 2}, {"c", 3}}
	if n := testing.AllocsPerRun(10, func() { sorting.Func(list, byName) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCollect(t *testing.T) {
	of := map[entry]bool{{"c", 1}: true, {"a", 2}: true, {"b", 3}: true}
	if got, want := sorting.Collect(maps.Keys(of), byName), []entry{{"a", 2}, {"b", 3}, {"c", 1}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := sorting.Collect(maps.Keys(map[entry]bool{}), byName); got != nil {
		t.Errorf("got %v of an empty map, want nil", got)
	}
}

// BenchmarkFunc compares with both sorts of Go.
func BenchmarkFunc(b *testing.B) {
	for _, n := range []int{5, 50, 5000, 100000} {
		list := make([]entry, n)
		for i := range list {
			list[i] = entry{fmt.Sprint((i * 7919) % n), i}
		}
		for name, sort := range map[string]func([]entry, func(a, b entry) int){"here": sorting.Func[entry], "slices": slices.SortFunc[[]entry], "stable": slices.SortStableFunc[[]entry]} {
			b.Run(fmt.Sprint(n, "/", name), func(b *testing.B) {
				fresh := make([]entry, n)
				for b.Loop() {
					copy(fresh, list)
					sort(fresh, byName)
				}
			})
		}
	}
}
