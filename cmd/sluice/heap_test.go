package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestHeapGrowth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 1600},
		{1 << 20, 1600},
		{heapFloor / 17, 1600},
		{heapFloor / 4, 300},
		{heapFloor / 2, 100},
		{heapFloor, 100},
		{1 << 40, 100},
	} {
		if got := growth(c.live); got != c.want {
			t.Errorf("growth(%d) = %d, want %d", c.live, got, c.want)
		}
	}
}

// A heap above the floor is collected as usual.
func TestLargeHeap(t *testing.T) { //nolint:paralleltest // sets the process's percentage
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	letHeapGrow()
	percent := func() int {
		p := debug.SetGCPercent(mostPercent + 1)
		debug.SetGCPercent(p)
		return p
	}
	if p := percent(); p != mostPercent {
		t.Fatalf("the percentage is %d, want %d", p, mostPercent)
	}
	large := make([]byte, heapFloor)
	deadline := time.Now().Add(time.Minute)
	for percent() != leastPercent {
		if time.Now().After(deadline) {
			t.Fatalf("the percentage is %d with %d bytes alive, want %d", percent(), len(large), leastPercent)
		}
		runtime.GC()
		time.Sleep(time.Millisecond) // finalizers run beside
	}
	runtime.KeepAlive(large)
}
