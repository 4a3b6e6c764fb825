package github_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-gitops/sluice/bot/forge"
	"github.com/sluice-gitops/sluice/bot/forge/forgetest"
)

// GitHub does not count conditional requests whose answer did not change. Reading 100 merge requests repeatedly sends
// no counted request. If one of them changes, the requests for it and for the list count.
func TestUnchangedAnswersAreFree(t *testing.T) {
	w := newWorld(t, false)
	repo := w.Repository(t, "acme/fleet")
	w.User(t, "ada")
	w.Grant(t, repo, "ada", forge.AccessWrite)
	const many = 100
	for i := range many {
		w.Open(t, repo, forgetest.Scene{Title: "x", Author: "ada", SourceBranch: fmt.Sprint("b", i)})
	}
	var heads string
	sweep := func() int {
		t.Helper()
		before := w.server.Counted()
		list, err := w.forge.OpenMergeRequests(t.Context(), repo, "")
		if err != nil || len(list) != many {
			t.Fatalf("%d merge requests, %v", len(list), err)
		}
		heads = ""
		for _, mr := range list {
			one, err := w.forge.MergeRequest(t.Context(), repo, mr.Number)
			if err != nil || one.Head != mr.Head {
				t.Fatalf("merge request %d: %+v, %v", mr.Number, one, err)
			}
			heads += one.Head
			if access, err := w.forge.Access(t.Context(), repo, mr.Author.Login); err != nil ||
				access != forge.AccessWrite {
				t.Fatalf("access %v, %v", access, err)
			}
		}
		return w.server.Counted() - before
	}
	if n := sweep(); n < many {
		t.Errorf("the first sweep: %d requests count", n)
	}
	before := heads
	for range 3 {
		if n := sweep(); n != 0 || heads != before {
			t.Errorf("an idle sweep: %d requests count, the same heads: %t", n, heads == before)
		}
	}
	w.Push(t, repo, 7)
	if n := sweep(); n != 2 || heads == before {
		t.Errorf("after a push: %d requests count, new heads: %t", n, heads != before)
	}
	w.Grant(t, repo, "ada", forge.AccessRead)
	if access, err := w.forge.Access(t.Context(), repo, "ada"); err != nil || access != forge.AccessRead {
		t.Errorf("after a change of rights: %v, %v", access, err)
	}
}

// The adapter reports the quota in the latest answers until its period ends.
func TestQuota(t *testing.T) {
	w := newWorld(t, true)
	repo := w.Repository(t, "acme/fleet")
	if _, ok := w.forge.Quota(); ok {
		t.Error("a quota before any answer")
	}
	for range 3 {
		if _, err := w.forge.OpenMergeRequests(t.Context(), repo, ""); err != nil {
			t.Fatal(err)
		}
	}
	q, ok := w.forge.Quota()
	if !ok || q.Limit != 5000 || q.Remaining != 5000-w.server.Counted() || !q.Reset.After(w.now()) {
		t.Errorf("%+v, %t; %d requests counted", q, ok, w.server.Counted())
	}
	w.pass(2 * time.Hour)
	if q, ok := w.forge.Quota(); ok {
		t.Errorf("after the period: %+v", q)
	}
}
