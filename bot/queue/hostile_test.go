package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/bot/hint"
)

func testFull(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, func(c *Config) { c.MaxBytes = 16 << 20 })
	ref := strings.Repeat("x", 1024)
	var full error
	n := 0
	for ; n < 20000 && full == nil; n++ {
		// a busy machine is not full
		if _, err := q.hints.set(t.Context(), digest(fmt.Sprint(n))+".review.1",
			[]byte(strings.Repeat(ref, 60))); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			full = err
		}
	}
	if !errors.Is(full, ErrFull) {
		t.Fatalf("after %d: %v", n, full)
	}
	if err := q.Put(t.Context(), review("a/a", 1, ref)); !errors.Is(err, ErrFull) && err != nil {
		t.Fatalf("put: %v", err)
	}
	running(t, q, 4, func(context.Context, Hint) error { return nil }) // the invalid messages from above are removed
	empty(t, q)
	put(t, q, review("a/a", 1, ref))
	empty(t, q)
}

func testForeign(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, nil)
	for _, s := range []string{"deep.er.than.any.hint", "flat", digest("github:a/a") + ".review.1"} {
		if _, err := q.hints.set(t.Context(), s, []byte(`{"place":`)); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan Hint, 10)
	running(t, q, 2, func(_ context.Context, h Hint) error { done <- h; return nil })
	put(t, q, review("a/a", 2, ""))
	if h := receive(t, "the hint beside rubbish", done); h.Number != 2 {
		t.Errorf("worked on %+v", h)
	}
	eventually(t, "rubbish on a hint's subject is removed", func() bool { return stats(t, q).Depth == 2 })
}

// testCountedDeaths checks a hint that kills its workers.
func testCountedDeaths(t *testing.T, o opener) {
	t.Helper()
	parked := make(chan error, 1)
	q := o.open(t, func(c *Config) { c.Crashes = 3; c.OnPark = func(_ Hint, err error) { parked <- err } })
	h := review("a/a", 1, "")
	put(t, q, h)
	m, err := q.hints.stream.GetLastMsgForSubject(t.Context(), q.hints.prefix+subject(h))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // three workers that start and vanish
		dead := &task{q: q, hint: h, loaded: map[string]uint64{subject(h): m.Sequence}}
		if _, err := dead.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	running(t, q, 1, func(context.Context, Hint) error { t.Error("worked on once more"); return nil })
	if err := receive(t, "OnPark", parked); !strings.Contains(err.Error(), "vanished 3 times") {
		t.Errorf("parked because: %v", err)
	}
	empty(t, q)
}

func TestRefused(t *testing.T) {
	for name, h := range map[string]Hint{
		"no place": {Kind: "push"}, "long place": {Place: hint.Place(strings.Repeat("x", 513)), Kind: "push"},
		"control character": {Place: "a\nb", Kind: "push"}, "kind with a dot": {Place: "a", Kind: "a.b"},
		"kind with a wildcard": {Place: "a", Kind: ">"}, "no kind": {Place: "a"},
		"negative": {Place: "a", Kind: "push", Number: -1}, "long ref": {
			Place: "a", Kind: "push",
			Ref: strings.Repeat("x", 1025),
		},
	} {
		if err := h.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	_, err := Open(t.Context(), Config{Replicas: 9, Prefix: "a.b", MaxBytes: 1, Credentials: "/does/not/exist"})
	for _, want := range []string{
		"Clock", "neither URL nor Dir", "Replicas is 9", "Prefix", "MaxBytes",
		"credentials file",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the settings' errors do not name %q: %v", want, err)
		}
	}
	if got := redact("nats://user:secret@a:1,tls://b:2, %zz"); strings.Contains(got, "secret") ||
		!strings.Contains(got, "nats://a:1,tls://b:2") {
		t.Errorf("redacted: %s", got)
	}
}
