package service

import (
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
)

// The lower the remaining rate limit, the fewer the sweeps. One forge does not slow down another.
func TestSweepsStretch(t *testing.T) {
	for remaining, want := range map[int]int{5000: 1, 2500: 1, 2499: 2, 1250: 2, 1249: 4, 500: 4, 499: 16, 0: 16} {
		if got := (forge.Quota{Limit: 5000, Remaining: remaining}).Stretch(); got != want {
			t.Errorf("%d of 5000: %d, want %d", remaining, got, want)
		}
	}
	if got := (forge.Quota{}).Stretch(); got != 1 {
		t.Errorf("a forge without a limit: %d", got)
	}
	now := time.Unix(0, 0)
	s := newSweepTimes(2*time.Minute, func() time.Time { return now })
	count := func(name string, factor int) int {
		n := 0
		for range 32 {
			if s.due(name, factor) {
				n++
			}
			now = now.Add(2*time.Minute - 50*time.Millisecond) // tickers are slightly early
		}
		return n
	}
	for factor, want := range map[int]int{1: 32, 2: 16, 4: 8, 16: 2} {
		now = now.Add(time.Hour)
		if got := count("hub", factor); got != want {
			t.Errorf("%d sweeps of 32 with the factor %d, want %d", got, factor, want)
		}
	}
	if s.due("hub", 16); !s.due("lab", 1) {
		t.Error("another forge waits")
	}
}
