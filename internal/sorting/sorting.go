// Package sorting sorts lists of structs. Go compiles slices.SortFunc and slices.SortStableFunc once for each struct type, which takes 10
// to 20 KB of the binary each time. This package sorts indices instead, so that all types share one copy of the algorithm.
package sorting

import (
	"cmp"
	"iter"
	"slices"
)

// Func sorts a list and keeps the order of equal elements, as slices.SortStableFunc does. It allocates a copy of the list unless the list
// is sorted already.
func Func[T any](list []T, compare func(a, b T) int) {
	from := places(len(list), func(i, j int) int { return compare(list[i], list[j]) })
	if from == nil {
		return
	}
	sorted := make([]T, len(list))
	for i, place := range from {
		sorted[i] = list[place]
	}
	copy(list, sorted)
}

// Collect returns the elements of a sequence in order, as slices.SortedStableFunc does.
func Collect[T any](seq iter.Seq[T], compare func(a, b T) int) []T {
	list := slices.Collect(seq)
	Func(list, compare)
	return list
}

// places returns the index of the element that belongs at each place of a list of n elements, or nil if the list is sorted. compare
// compares the elements at two indices.
func places(n int, compare func(i, j int) int) []int {
	sorted := true
	for i := 1; i < n && sorted; i++ {
		sorted = compare(i-1, i) <= 0
	}
	if sorted {
		return nil
	}
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	slices.SortFunc(out, func(i, j int) int { return cmp.Or(compare(i, j), i-j) })
	return out
}
