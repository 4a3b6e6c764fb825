package queue

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// testOutcomes: what one replica keeps, another one reads at once. A full stream forgets the oldest ones.
func testOutcomes(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, func(c *Config) { c.MaxBytes = 16 << 20 })
	here, there := NewOutcomes(q), NewOutcomes(o.twin(t, q, "two"))
	keep := func(p hint.Place, number int, comment int64, value string) {
		t.Helper()
		if err := here.Keep(t.Context(), p, number, comment, value); err != nil {
			t.Fatal(err)
		}
	}
	check := func(p hint.Place, number int, comment int64, want string) {
		t.Helper()
		if got, err := there.Outcome(t.Context(), p, number, comment); err != nil || got != want {
			t.Errorf("%s!%d, comment %d: %.40q, %v; want %.40q", p, number, comment, got, err, want)
		}
	}
	check("github:a/b", 1, 12, "")
	keep("github:a/b", 1, 12, "refused")
	check("github:a/b", 1, 12, "refused")
	check("github:a/b", 11, 2, "")
	check("gitlab:a/b", 1, 12, "")
	large := strings.Repeat("x", 48<<10)
	for n := range 30 { // more than the stream may hold
		keep("github:c/d", 1, int64(n), large)
	}
	check("github:a/b", 1, 12, "")
	check("github:c/d", 1, 29, large)
}
