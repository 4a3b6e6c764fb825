package main

import (
	"cmp"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

var initTrace = regexp.MustCompile(`(?m)^init (\S+) @\S+ ms, \S+ ms clock, (\d+) bytes, (\d+) allocs$`)

// Every call of Sluice, also a completion, initialises all packages first. The bounds are a fifth above what they
// allocated when the test was written. A package that exceeds them should do the work on first use.
func TestInitialisationIsCheap(t *testing.T) {
	t.Parallel()
	const maxAllocations, maxBytes = 110_000, 13_500_000
	cmd := exec.CommandContext(t.Context(), "sluice", "--version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the error is %v\nthe output is\n%s", err, out)
	}
	type cost struct {
		name               string
		bytes, allocations int
	}
	var packages []cost
	var sum cost
	for _, m := range initTrace.FindAllStringSubmatch(string(out), -1) {
		bytes, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		allocations, err := strconv.Atoi(m[3])
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, cost{m[1], bytes, allocations})
		sum.bytes += bytes
		sum.allocations += allocations
	}
	const fewest = 300
	if len(packages) < fewest {
		t.Fatalf("the trace lists %d packages, want at least %d:\n%s", len(packages), fewest, out)
	}
	t.Logf("%d packages allocate %d bytes in %d allocations", len(packages), sum.bytes, sum.allocations)
	if sum.allocations <= maxAllocations && sum.bytes <= maxBytes {
		return
	}
	slices.SortFunc(packages, func(a, b cost) int { return cmp.Compare(b.bytes, a.bytes) })
	for _, p := range packages[:15] {
		t.Logf("%8d bytes %6d allocations %s", p.bytes, p.allocations, p.name)
	}
	t.Errorf("initialisation allocates %d bytes in %d allocations, at most %d in %d", sum.bytes, sum.allocations,
		maxBytes, maxAllocations)
}
