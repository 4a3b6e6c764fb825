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
		{256, 256 * time.Millisecond, 150},    //
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
