package render

import (
	"testing"
	"time"
)

// Chunks take about the same time, whatever a target takes, and grow slowly.
func TestChunksFollowTheTimeOfTargets(t *testing.T) {
	t.Parallel()
	f := NewFarm(nil, nil, "", "", time.Now)
	for _, step := range []struct {
		n    int
		d    time.Duration
		want int64
	}{
		{32, 3 * time.Millisecond, 64},        // at most twice as many
		{64, 6 * time.Millisecond, 128},       //
		{128, 12 * time.Millisecond, 256},     //
		{256, 24 * time.Millisecond, 256},     // not above the limit
		{256, 512 * time.Millisecond, 150},    //
		{10, 10 * time.Second, leastChunk},    // a slow chart
		{0, time.Second, leastChunk},          // nothing was rendered
		{4, 0, leastChunk},                    // a clock that stands
		{4, -time.Second, leastChunk},         // or goes back
		{4, time.Millisecond, 2 * leastChunk}, //
	} {
		f.took(step.n, step.d)
		if got := f.chunk.Load(); got != step.want {
			t.Errorf("%d targets in %s: %d, want %d", step.n, step.d, got, step.want)
		}
	}
}

// The times of this machine count until a shard has a result.
func TestTimesOfShardsCount(t *testing.T) {
	t.Parallel()
	f := NewFarm(nil, nil, "", "", time.Now)
	f.tookHere(10, 10*time.Second)
	if got := f.chunk.Load(); got != leastChunk {
		t.Errorf("a slow chart here gives chunks of %d, want %d", got, leastChunk)
	}
	f.took(4, 0) // says nothing
	f.tookHere(4, time.Millisecond)
	if got := f.chunk.Load(); got != 2*leastChunk {
		t.Errorf("a fast chart here gives chunks of %d, want %d", got, 2*leastChunk)
	}
	f.took(8, time.Millisecond)
	f.tookHere(10, 10*time.Second)
	if got := f.chunk.Load(); got != 4*leastChunk {
		t.Errorf("after a shard, a slow chart here gives chunks of %d, want %d", got, 4*leastChunk)
	}
}

// The last shards are small: then no machine waits long for the last one.
func TestLastShardsAreSmall(t *testing.T) {
	t.Parallel()
	const all = 10_000
	f := NewFarm(nil, nil, "", "", time.Now)
	f.chunk.Store(mostChunk)
	s := &sharing{farm: f, order: make([]int, all), none: make(chan struct{}), round: &round{}}
	var sizes []int
	total := 0
	for c := s.back(); c != nil; c = s.back() {
		sizes, total = append(sizes, len(c.jobs)), total+len(c.jobs)
	}
	if total != all {
		t.Errorf("the shards have %d of %d targets", total, all)
	}
	late := 0 // targets of the last shards, one for each place
	for _, n := range sizes[len(sizes)-atOnce:] {
		late += n
	}
	if sizes[0] != mostChunk || late > 2*atOnce*leastChunk {
		t.Errorf("the sizes are %v", sizes)
	}
}
