package queue

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// testReports: a page that one replica stores can be read by another one, whole or not at all. Lists arrive in the same
// order on all replicas, also on one that starts later. Full streams forget the oldest entries.
func testReports(t *testing.T, o opener) {
	t.Helper()
	q := o.open(t, func(c *Config) { c.MaxBytes = 512 << 20 })
	here, there := NewReports(q), NewReports(o.twin(t, q, "two"))
	get := func(name string, want []byte) {
		t.Helper()
		if got, err := there.Get(t.Context(), name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(want))
		}
	}
	put := func(name string, data []byte) {
		t.Helper()
		if err := here.Put(t.Context(), name, data); err != nil {
			t.Fatal(err)
		}
	}
	large := make([]byte, 2*reportPiece+7)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	get("a-1-abc", nil)
	put("a-1-abc", large)
	get("a-1-abc", large)
	put("a-1-abc", []byte("another page"))
	get("a-1-abc", []byte("another page"))
	put("a-1-abc", nil)
	get("a-1-abc", nil)
	put("a-1-abc", large)
	if err := q.reports.stream.Purge(t.Context(), jetstream.WithPurgeSubject(q.reports.prefix+
		"a-1-abc.1")); err != nil {
		t.Fatal(err)
	}
	get("a-1-abc", nil)
	for _, bad := range []string{"", "a.b", "a*", ">", "../a", "A"} {
		if here.Put(t.Context(), bad, nil) == nil || here.PutList(t.Context(), bad, nil) == nil {
			t.Errorf("the name %q is taken", bad)
		}
		if _, err := here.Get(t.Context(), bad); err == nil {
			t.Errorf("the name %q is read", bad)
		}
	}
	if err := here.Put(t.Context(), "a-1-huge", make([]byte, here.Most()+1)); err == nil {
		t.Error("a page above the limit is taken")
	}
	for i := range 10 { // more than the stream holds
		put("b-1-"+strings.Repeat("x", i+1), make([]byte, here.Most()))
	}
	get("b-1-x", nil)
	get("b-1-"+strings.Repeat("x", 10), make([]byte, here.Most()))
	testLists(t, o, q)
}

func testLists(t *testing.T, o opener, q *Queue) {
	t.Helper()
	here := NewReports(q)
	send := func(name, text string) {
		t.Helper()
		if err := here.PutList(t.Context(), name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	send("a-1", "old")
	send("a-1", "new")
	send("a-2", "second")
	var mu sync.Mutex
	seen := map[string]string{}
	for _, name := range []string{"follower", "other"} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		r := NewReports(o.twin(t, q, name))
		go func() {
			done <- r.Follow(ctx, func(list string, data []byte) {
				mu.Lock()
				defer mu.Unlock()
				seen[name] += list + "=" + string(data) + " "
			})
		}()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	send("a-2", "third")
	// a message that is replaced before it is delivered is skipped
	want := []string{"a-1=new a-2=second a-2=third ", "a-1=new a-2=third "}
	eventually(t, "the lists arrive", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for _, name := range []string{"follower", "other"} {
			if seen[name] != want[0] && seen[name] != want[1] {
				return false
			}
		}
		return true
	})
}
