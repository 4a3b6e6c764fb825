package queue

import (
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/hint"
)

// testVerdicts: what one replica records, another one reads at once. The last value counts, and a full stream forgets
// the oldest one.
func testVerdicts(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, func(c *Config) { c.MaxBytes = 16 << 20 })
	here, there := NewVerdicts(q), NewVerdicts(o.twin(t, q, "two"))
	check := func(p hint.Place, number int, want string) {
		t.Helper()
		if got, err := there.Verdict(t.Context(), p, number, ""); err != nil || got != want {
			t.Errorf("the problem is %s!the number is %d: the result of Verdict is %.40q, the error is %v; want %.40q",
				p, number, got, err, want)
		}
	}
	record := func(p hint.Place, number int, value string) {
		t.Helper()
		if err := here.Record(t.Context(), p, number, "", value); err != nil {
			t.Fatal(err)
		}
	}
	check("github:a/b", 1, "")
	record("github:a/b", 1, "abc success")
	check("github:a/b", 1, "abc success")
	record("github:a/b", 1, "abc failure")
	record("github:a/b", 11, "abc pending")
	check("github:a/b", 1, "abc failure")
	check("gitlab:a/b", 1, "")
	if err := here.Record(t.Context(), "github:a/b", 1, "fleets", "of another name"); err != nil {
		t.Fatal(err)
	}
	check("github:a/b", 1, "abc failure")
	if got, err := there.Verdict(t.Context(), "github:a/b", 1, "fleets"); err != nil || got != "of another name" {
		t.Errorf("the result of Verdict is %q, the error is %v", got, err)
	}
	record("github:a/b", 11, "")
	check("github:a/b", 11, "")
	large := strings.Repeat("x", 32<<10)
	for n := range 40 { // more than the stream may hold
		record("github:c/d", n, large)
	}
	check("github:a/b", 1, "")
	check("github:c/d", 39, large)
}
