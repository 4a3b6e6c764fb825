package kept

import (
	"strconv"
	"testing"
)

// The results are bounded, and nil ones keep nothing.
func TestResults(t *testing.T) {
	t.Parallel()
	r := New[int]()
	for i := range most + 1 {
		r.Keep(strconv.Itoa(i), i)
		if v, ok := r.Find("1"); i > 0 && (!ok || v != 1) {
			t.Fatalf("after %d results, one that is used is forgotten", i)
		}
	}
	if _, ok := r.Find("0"); ok {
		t.Error("nothing is forgotten")
	}
	var none *Results[int]
	none.Keep("1", 1)
	if _, ok := none.Find("1"); ok {
		t.Error("nil results keep something")
	}
}
