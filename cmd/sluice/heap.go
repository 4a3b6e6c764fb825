package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// heapFloor is the heap in bytes up to which the garbage collector of a command works less often.
const heapFloor = 128 << 20

// letHeapGrow makes the garbage collector of a short command begin its first cycle at 64 MiB, which most commands never
// reach, and the next ones at heapFloor. Above, cycles begin at twice what lives, as usual. Otherwise a command whose
// heap stays small spends a fifth of its processor time on collection, and needs as much memory all the same. GOGC in
// the environment precedes.
func letHeapGrow() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(mostPercent)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtime.SetFinalizer(&cycle{live: live}, (*cycle).ended)
}

// mostPercent is the largest growth between two cycles, in percent of what lives. Go counts 4 MiB as alive before the
// first cycle.
const mostPercent = 1600

// cycle is garbage in each cycle of the collector, which calls ended at its end.
type cycle struct{ live []metrics.Sample }

func (c *cycle) ended() {
	metrics.Read(c.live)
	percent := growth(c.live[0].Value.Uint64())
	debug.SetGCPercent(percent)
	if percent > leastPercent {
		runtime.SetFinalizer(c, (*cycle).ended)
	}
}

// leastPercent is Go's default. A heap that reached it keeps it.
const leastPercent = 100

// growth returns the percentage by which a heap with live bytes may grow until the next cycle.
func growth(live uint64) int {
	if live == 0 {
		return mostPercent
	}
	return min(mostPercent, max(leastPercent, int(heapFloor*100/live)-100)) //nolint:gosec // at most heapFloor*100
}
