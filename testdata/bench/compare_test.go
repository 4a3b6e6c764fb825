package main

import (
	"testing"
	"time"
)

func TestCompareTimes(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	got := compareTimes([]time.Duration{10 * ms, 8 * ms, 20 * ms}, []time.Duration{30 * ms, 12 * ms, 16 * ms})
	if want := (comparison{base: 8 * ms, this: 12 * ms, ratio: 1.5, low: 0.8, high: 3}); got != want {
		t.Errorf("the result of compareTimes is %+v, want %+v", got, want)
	}
}
