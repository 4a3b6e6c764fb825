package gitstore

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// countListings counts the listings of refs that a server answers for reading. A push lists them for itself.
func countListings(server *httptest.Server) *atomic.Int64 {
	listed := new(atomic.Int64)
	next := server.Config.Handler
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info/refs") && r.URL.Query().Get("service") == "git-upload-pack" {
			listed.Add(1)
		}
		next.ServeHTTP(w, r)
	})
	return listed
}

// With OneListing, the readers of a store share a listing until the store pushes, or lacks what it needs. Each step
// says how many listings it costs.
func TestOneListing(t *testing.T) {
	t.Parallel()
	origin := source(t)
	generous(t, origin)
	runGit(t, origin, "config", "http.receivepack", "true")
	runGit(t, origin, "checkout", "-q", "-b", "feature")
	write(t, origin, "a.txt", "feature")
	runGit(t, origin, "commit", "-qam", "feature")
	runGit(t, origin, "checkout", "-q", "main")
	feature := runGit(t, origin, "rev-parse", "feature")
	server := backend(t, filepath.Dir(origin), "", "")
	listed := countListings(server)
	s := open(t, Options{URL: server.URL + "/" + filepath.Base(origin) + "/.git", OneListing: true})
	b, err := s.Remote(s.RemoteURL(), Auth{})
	if err != nil {
		t.Fatal(err)
	}
	revision := func(rev, want string, also ...string) {
		t.Helper()
		c, err := s.FetchRevision(t.Context(), rev, also...)
		if err != nil || c.Hash.String() != want {
			t.Errorf("%s is %s, %v; want %s", rev, c.Hash, err, want)
		}
	}
	list := func(name, want string) {
		t.Helper()
		refs, err := b.List(t.Context(), name)
		if got := refs[name]; err != nil || hashOf(got) != want {
			t.Errorf("%s is listed at %q, %v; want %q", name, hashOf(got), err, want)
		}
	}
	move := func(name, to string) {
		runGit(t, origin, "update-ref", "refs/heads/"+name, to)
	}
	step := func(what string, listings int64, do func()) {
		t.Helper()
		listed.Store(0)
		do()
		if n := listed.Load(); n != listings {
			t.Errorf("%s: %d listings, want %d", what, n, listings)
		}
	}
	main := runGit(t, origin, "rev-parse", "main")
	step("a target with the head that is read next", 1, func() {
		revision("refs/heads/main", main, "refs/heads/feature", "refs/pull/7/head")
		revision("refs/heads/feature", feature)
		revision("HEAD", main)
		list("feature", feature)
	})
	move("feature", main)
	step("another one moves a branch", 0, func() {
		revision("refs/heads/feature", feature)
		list("feature", feature)
	})
	move("later", feature)
	step("a branch that the listing lacks", 1, func() {
		revision("refs/heads/later", feature)
		list("feature", main)
	})
	step("a push that loses", 1, func() {
		old, _ := ParseHash(feature)
		moved, _ := ParseHash(main)
		if got := push(t, b, nil, Move{"feature", old, Hash{}}); got[0].State != Conflict ||
			!strings.Contains(got[0].Reason, moved.Short()) {
			t.Errorf("the result of push is %+v", got)
		}
		list("feature", main)
		list("later", feature)
	})
	step("a push that moves", 1, func() {
		old, _ := ParseHash(main)
		if got := push(t, b, nil, Move{"feature", old, Hash{}}); got[0].State != Updated {
			t.Errorf("the result of push is %+v", got)
		}
		list("feature", "")
		list("later", feature)
	})
	move("later", main)
	step("asked for a new listing", 1, func() {
		if !Relist(s) {
			t.Error("there was no listing")
		}
		if Relist(s) {
			t.Error("the listing is still there")
		}
		list("later", main)
	})
	other := open(t, Options{URL: s.RemoteURL()})
	step("a store without OneListing", 2, func() {
		for range 2 {
			if _, err := other.FetchRevision(t.Context(), "main"); err != nil {
				t.Error(err)
			}
		}
	})
	if Relist(other) {
		t.Error("a store without OneListing had a listing")
	}
}

func hashOf(h Hash) string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}

// A listing that began before a push must not count after it: it may lack what was pushed.
func TestListingBeforeAPush(t *testing.T) {
	t.Parallel()
	l := newListings()
	_, turn := l.of("x")
	l.forget() // the push
	l.keep("x", map[string]Hash{}, turn)
	if refs, _ := l.of("x"); refs != nil {
		t.Error("it counts")
	}
}

// Nothing is pushed if a branch that the caller only read has moved, was created or deleted.
func TestPushComparesUnmovedBranches(t *testing.T) {
	places(t, func(t *testing.T, bare string, s *Store, b Branches) {
		t.Helper()
		w := writer(t, s)
		one := commitOf(t, w, "one")
		two := commitOf(t, w, "two", one)
		push(t, b, w, Move{"env/dev", Hash{}, one}, Move{"sluice/state", Hash{}, one}, Move{"two", Hash{}, two})
		for name, unmoved := range map[string]map[string]Hash{
			"moved": {"sluice/state": two}, "deleted": {"sluice/gone": one}, "created": {"sluice/state": {}},
		} {
			got, err := b.Push(t.Context(), nil, []Move{{"env/dev", one, two}}, PushOptions{Unmoved: unmoved})
			if err != nil || len(got) != 1 || got[0].State != Conflict ||
				!strings.HasPrefix(got[0].Branch, "sluice/") || got[0].Reason == "" {
				t.Errorf("%s: the result of Push is %+v, the error is %v", name, got, err)
			}
		}
		if at := runGit(t, bare, "rev-parse", "env/dev"); at != one.String() {
			t.Fatalf("env/dev moved to %s", at)
		}
		got, err := b.Push(t.Context(), nil, []Move{{"env/dev", one, two}},
			PushOptions{Unmoved: map[string]Hash{"sluice/state": one, "sluice/gone": {}}})
		if err != nil || len(got) != 1 || got[0].State != Updated ||
			runGit(t, bare, "rev-parse", "env/dev") != two.String() {
			t.Errorf("the result of Push is %+v, the error is %v", got, err)
		}
	})
}
