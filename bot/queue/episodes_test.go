package queue

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func testEpisodes(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, func(*Config) {})
	here, there := NewEpisodes(q), NewEpisodes(o.twin(t, q, "two"))
	key := here.Key("github:a/b")
	swap := func(e Episodes, record string, revision uint64) error {
		return e.Swap(t.Context(), key, []byte(record), revision)
	}
	if record, revision, err := there.Load(t.Context(), key); err != nil || len(record) > 0 || revision != 0 {
		t.Errorf("an unknown record is %q at revision %d, %v", record, revision, err)
	}
	large := strings.Repeat("x", 200<<10)
	if err := swap(here, large, 0); err != nil {
		t.Fatalf("the first record: %v", err)
	}
	if err := swap(there, "b", 0); !errors.Is(err, ErrChanged) {
		t.Errorf("another first record: got %v, want that it changed", err)
	}
	record, revision, err := there.Load(t.Context(), key)
	if err != nil || string(record) != large {
		t.Fatalf("the record has %d bytes, want %d (%v)", len(record), len(large), err)
	}
	if err := swap(there, "c", revision); err != nil {
		t.Errorf("the next record: %v", err)
	}
	if err := swap(here, "d", revision); !errors.Is(err, ErrChanged) {
		t.Errorf("a record of an earlier revision: got %v, want that it changed", err)
	}
	if keys, err := here.Keys(t.Context()); err != nil || !slices.Equal(keys, []string{key}) {
		t.Errorf("the keys are %q, want %q (%v)", keys, key, err)
	}
	record, revision, err = here.Load(t.Context(), key)
	if err != nil || string(record) != "c" {
		t.Errorf("the record is %q, want c (%v)", record, err)
	}
	if err := here.Drop(t.Context(), revision); err != nil {
		t.Errorf("drop: %v", err)
	}
	if keys, err := there.Keys(t.Context()); err != nil || len(keys) > 0 {
		t.Errorf("after it was dropped, the keys are %q (%v)", keys, err)
	}
}
