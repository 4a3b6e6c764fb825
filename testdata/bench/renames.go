package main

import (
	"fmt"
	"time"

	"github.com/sluice-gitops/sluice/diff"
	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// renames measures the comparison of a target whose objects all have another name afterwards, for each of the ways in
// which objects are paired. The time per object must not grow with the number of objects.
func renames(sizes []int) error {
	fmt.Printf("\n== renamed objects of one target, processor time\n")
	for _, way := range []struct {
		what  string
		names func(i int) (before, after string)
		equal bool // the content stays
	}{
		{"names with a hash, one base name", func(i int) (string, string) {
			return fmt.Sprintf("web-%08x0a", i),
				fmt.Sprintf("web-%08x0b", i)
		}, false},
		{"names with a hash, other base names", func(i int) (string, string) {
			return fmt.Sprintf("web-%d-5f7c9d8b6k", i), fmt.Sprintf("web-%d-7h2m4t9c8d", i)
		}, false},
		{"other names, equal content", func(i int) (string, string) {
			return fmt.Sprint("old", i),
				fmt.Sprint("new", i)
		}, true},
		{"other names, other content", func(i int) (string, string) {
			return fmt.Sprint("old", i),
				fmt.Sprint("new", i)
		}, false},
	} {
		var first time.Duration // for one object of the smallest size
		for i, n := range sizes {
			took, err := least(3, func() (time.Duration, error) { return renamesCost(n, way.names, way.equal) })
			if err != nil {
				return err
			}
			each := took / time.Duration(n)
			if i == 0 {
				first = each
			}
			fmt.Printf("%-36s %6d objects %8.0f ms   %5.1f µs for each, %.2f × that of %d objects\n",
				way.what, n, float64(took.Microseconds())/1e3, float64(each.Nanoseconds())/1e3, ratio(each, first),
				sizes[0])
		}
	}
	return nil
}

// renamesCost compares n objects with n others.
func renamesCost(n int, names func(int) (before, after string), equal bool) (time.Duration, error) {
	target := diff.Target{App: "shop", Cluster: "c", Environment: "prod"}
	for i := range n {
		before, after := names(i)
		value := "y"
		if equal {
			value = "x"
		}
		target.Before = append(target.Before, renamedObject(before, fmt.Sprint("x", i)))
		target.After = append(target.After, renamedObject(after, fmt.Sprint(value, i)))
	}
	began, err := processorTime()
	if err != nil {
		return 0, err
	}
	changes := diff.Compare([]diff.Target{target}, nil, []string{"prod"}, oneCluster{})
	ended, err := processorTime()
	if err == nil && changes.Empty() {
		err = fmt.Errorf("%d renamed objects: no change was found", n)
	}
	return ended - began, err
}

func renamedObject(name, value string) diff.Object {
	return diff.Object{Key: name + value, Object: manifest.Object{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "shop"},
		"data": map[string]any{"a": "one", "b": "two", "c": "three", "d": "four", "e": value},
	}}
}

// oneCluster is a fleet whose apps run on one cluster.
type oneCluster struct{}

func (oneCluster) Placed(string) []diff.Cluster { return nil }
